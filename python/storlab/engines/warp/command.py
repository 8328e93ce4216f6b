"""Translation of an ObjectJob into warp's command line.

Checked against warp 1.6.1. Fields without a warp flag are refused, or noted by ``caveats`` if
warp's behaviour is fixed and the results stay comparable.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from storlab.base.units import NS_PER_MS, format_size
from storlab.workloads.object.job import ObjectJob, ObjectSizes

_MIXABLE = {"get": "get", "head": "stat", "put": "put", "delete": "delete"}
_ALONE = {"get": "get", "head": "stat", "put": "put"}
LIBRARY_PART = 16 << 20  # part size of uploads for benchmarks without a flag for it
_LIBRARY_PARTS_IN_FLIGHT = 4
_WEIGHT_SCALE = 1_000_000
_MARGIN_NS = 250 * NS_PER_MS  # load continues this long after the window
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


def inherits(name: str) -> bool:
    """Return whether warp inherits a variable: neither WARP_* nor proxies, which add a hop."""
    return not name.startswith("WARP_") and name.lower() not in _PROXIES


def benchmark(job: ObjectJob) -> str | None:
    """Return the name of warp's benchmark for the job's mix of operations, or None."""
    kinds = [kind for kind, percent in job.mix.dump().items() if percent > 0]
    if len(kinds) == 1:
        return _ALONE.get(kinds[0])
    return "mixed" if kinds and set(kinds) <= set(_MIXABLE) else None


def reads_pool(job: ObjectJob) -> bool:
    """Return whether warp reads the pool that storlab made; mixes use objects of warp's own."""
    return benchmark(job) in ("get", "stat")


def refusal(job: ObjectJob) -> str | None:
    """Return why warp cannot run the job, or None if it can."""
    checks = (
        _refuse_task(job),
        _refuse_mix(job),
        _refuse_mode(job),
        _refuse_objects(job),
        _refuse_uploads(job),
        _refuse_store(job),
    )
    return next((reason for reason in checks if reason is not None), None)


def _refuse_task(job: ObjectJob) -> str | None:
    if job.task != "run":
        return f'warp carries out runs, and this job is a "{job.task}": the native engine does it'
    if job.window_ns is None:
        return "a run needs window_ns"
    return None


def _refuse_mix(job: ObjectJob) -> str | None:
    if job.lanes is not None:
        return (
            "warp has a single number of requests in flight for all kinds: use concurrency "
            "and percents, or native"
        )
    mix = job.mix
    for kind in ("list", "multi_delete"):
        if getattr(mix, kind) > 0:
            return (
                f"warp does {kind} requests only in a benchmark of their own, which "
                f"{_OF_ITS_OWN[kind]}: leave them out, or use native"
            )
    if benchmark(job) is None:
        return "warp deletes single objects only beside PUTs, at most as many: add PUTs, or native"
    if mix.delete > mix.put:
        return (
            f"warp deletes at most as many objects as it writes, and here {mix.delete:g} % of the "
            f"requests delete and {mix.put:g} % write"
        )
    return None


_OF_ITS_OWN = {
    "list": "lists a whole prefix as one operation",
    "multi_delete": "ends when its objects are gone",
}


def _refuse_mode(job: ObjectJob) -> str | None:
    if job.arrival.kind != "closed":
        return (
            "warp has no open loop: its rate limit holds requests back and starts their clock "
            "after the wait; use native for rate_requests"
        )
    if job.verify:
        return "warp compares sizes only, not contents: use native for verify"
    if job.keys.kind != "uniform" and (job.mix.get or job.mix.head):
        return f'warp cannot read objects by keys = "{job.keys.kind}": use uniform, or native'
    if job.join_pool and benchmark(job) != "mixed":
        return "warp reads what it wrote only in a mix of reads and writes"
    return None


def _refuse_objects(job: ObjectJob) -> str | None:
    name = benchmark(job)
    if name != "put" and job.pool is None:
        return "the job has no pool of objects to read"
    if job.pool is not None and name == "mixed" and job.pool.objects <= job.concurrency:
        return (
            f"warp's mix needs more objects than requests in flight, and there are "
            f"{job.pool.objects} for {job.concurrency}: raise objects"
        )
    if job.range_size is not None and job.mix.get:
        if name != "get":
            return "warp reads ranges only when it does nothing but GET: drop range_size, or native"
        smallest = bounds(job.pool.sizes)[0] if job.pool is not None else 0
        if job.range_size >= smallest:
            return (
                f"warp needs a range that is smaller than every object, and "
                f"{format_size(job.range_size)} is not below {format_size(smallest)}"
            )
    if reads_pool(job):
        return None
    given = [s for s in (job.sizes, job.pool.sizes if job.pool and name == "mixed" else None) if s]
    if not given:
        return "the job gives no size for the objects to write"
    if any(sizes != given[0] for sizes in given):
        return "warp writes objects of one distribution of sizes, before a run and in it"
    if size_text(given[0]) is None:
        return "warp draws no log-normal sizes: give one size, a list or uniform, or use native"
    return None


def _refuse_uploads(job: ObjectJob) -> str | None:
    if not job.mix.put:
        return None
    if job.payload == "signed":
        return (
            "warp never signs the whole payload in the header: use payload unsigned, streaming "
            "(http) or trailer-crc"
        )
    if job.payload == "streaming" and _scheme(job) == "https":
        return "warp leaves payloads unsigned over TLS: use payload = unsigned or trailer-crc"
    if not _in_parts(job):
        return None
    if job.part_concurrency != _LIBRARY_PARTS_IN_FLIGHT:
        return (
            f"warp uploads {_LIBRARY_PARTS_IN_FLIGHT} parts of an object at a time: set "
            f"part_concurrency = {_LIBRARY_PARTS_IN_FLIGHT}, or use native"
        )
    if benchmark(job) == "mixed" and job.part_size != LIBRARY_PART:
        return 'warp\'s mix uploads in parts of 16 MiB: set part_size = "16MiB", or use native'
    return None


def _refuse_store(job: ObjectJob) -> str | None:
    schemes = {urlsplit(endpoint).scheme for endpoint in job.store.endpoints}
    if len(schemes) > 1:
        return "warp talks to all endpoints by http or to all by https"
    if any("," in endpoint or "{" in endpoint for endpoint in job.store.endpoints):
        return "warp would read an endpoint with a comma or a brace as several endpoints"
    return None


def _in_parts(job: ObjectJob) -> bool:
    sizes = job.sizes
    return bool(sizes and job.part_size is not None and bounds(sizes)[1] > job.part_size)


def _scheme(job: ObjectJob) -> str:
    return urlsplit(job.store.endpoints[0]).scheme


def bounds(sizes: ObjectSizes) -> tuple[int, int]:
    """Return the smallest and the largest size in bytes."""
    if sizes.kind in ("fixed", "weighted"):
        every = [size.bytes for size in sizes.sizes]
        return min(every), max(every)
    return sizes.low, sizes.high


def size_text(sizes: ObjectSizes) -> str | None:
    """Return ``--obj.size`` for a distribution, or None if warp cannot express it.

    warp's buckets ``size:weight,...`` are drawn uniformly from the previous size (inclusive) to
    their own size (exclusive), so a bucket one byte wide gives exactly one size.
    """
    if sizes.kind == "fixed":
        return str(sizes.sizes[0].bytes)
    if sizes.kind == "uniform":
        return f"{sizes.low}:0,{sizes.high + 1}:1"
    if sizes.kind == "lognormal":
        return None
    total = sum(size.weight for size in sizes.sizes)
    weights: dict[int, int] = {}
    for size in sizes.sizes:
        share = max(1, round(size.weight / total * _WEIGHT_SCALE))
        weights[size.bytes] = weights.get(size.bytes, 0) + share
    buckets: dict[int, int] = {}
    for size_bytes, weight in sorted(weights.items()):
        buckets.setdefault(size_bytes, 0)  # may already be the end of the previous size's bucket
        buckets[size_bytes + 1] = weight
    return ",".join(f"{size_bytes}:{weight}" for size_bytes, weight in buckets.items())


def command(program: Path, job: ObjectJob, data: Path) -> list[str]:
    """Return the command line; warp appends ``.csv.zst`` to ``data``, the path of its record."""
    name = benchmark(job) or "mixed"
    arguments = [
        str(program),
        name,
        "--quiet",
        "--no-color",
        "--full",
        "--noclear",  # otherwise warp also deletes objects that are not its own
        f"--host={','.join(urlsplit(endpoint).netloc for endpoint in job.store.endpoints)}",
        f"--host-select={'weighed' if job.routing == 'least_busy' else 'roundrobin'}",
        f"--region={job.store.region}",
        f"--bucket={job.store.bucket}",
        f"--lookup={'path' if job.store.addressing == 'path' else 'host'}",
        f"--concurrent={job.concurrency}",
        f"--duration={load_ns(job) // NS_PER_MS}ms",
        f"--benchdata={data}",
    ]
    if _scheme(job) == "https":
        arguments += ["--tls", *([] if job.store.verify_tls else ["--insecure"])]
    arguments += _objects(job, name)
    return arguments + (_uploads(job) if name in ("put", "mixed") else [])


def _objects(job: ObjectJob, name: str) -> list[str]:
    if reads_pool(job) and job.pool is not None:
        pool = ["--list-existing", f"--prefix={job.pool.prefix}", f"--objects={job.pool.objects}"]
        ranged = [f"--range-size={job.range_size}"] if job.range_size and name == "get" else []
        return pool + ranged
    arguments = [f"--prefix={job.write_prefix.rstrip('/')}"]
    sizes = job.sizes or (job.pool.sizes if job.pool is not None else None)
    if sizes is not None:
        arguments.append(f"--obj.size={size_text(sizes)}")
    if name == "mixed" and job.pool is not None:
        arguments.append(f"--objects={job.pool.objects}")
        shares = job.mix.dump()
        arguments += [f"--{flag}-distrib={shares[kind]:.12g}" for kind, flag in _MIXABLE.items()]
    return arguments


def _uploads(job: ObjectJob) -> list[str]:
    arguments = []
    if not _in_parts(job):
        arguments.append("--disable-multipart")
    elif benchmark(job) == "put":
        arguments.append(f"--part.size={job.part_size}")
    if job.payload != "streaming":
        arguments.append("--disable-sha256-payload")
    if job.payload == "trailer-crc":
        arguments.append("--checksum=CRC32")
    return arguments


def load_ns(job: ObjectJob) -> int:
    """Return how long warp sends requests, in ns: ramp, window and a margin."""
    return job.ramp_ns + (job.window_ns or 0) + _MARGIN_NS


def environment(job: ObjectJob) -> dict[str, str]:
    """Return environment variables without secrets: certificate authority and thread count."""
    variables = {}
    if job.store.ca_file is not None and _scheme(job) == "https":
        variables["SSL_CERT_FILE"] = job.store.ca_file
    if job.threads is not None:
        variables["GOMAXPROCS"] = str(job.threads)
    return variables


def secrets(job: ObjectJob) -> dict[str, str]:
    """Return credentials by environment variable; empty for anonymous requests."""
    names = {
        "access_key": "WARP_ACCESS_KEY",
        "secret_key": "WARP_SECRET_KEY",
        "session_token": "WARP_SESSION_TOKEN",
    }
    return {names[name]: value for name, value in job.secrets().items()}


def caveats(job: ObjectJob) -> list[str]:
    """Return notes on how warp deviates from the native engine for this job."""
    notes = [
        "warp's client sends a failed request again by itself, up to 10 times with pauses, before "
        "warp sees an error: retries, retry_backoff and request_timeout do not reach it"
    ]
    if benchmark(job) != "mixed":
        return notes
    notes.append(
        "warp takes the mix from one shuffled list of 1,000 requests, so the shares of "
        "its requests are exact, not random"
    )
    if job.mix.get or job.mix.head:
        notes.append(
            "warp chooses the object to read in the order of a hash map, which is not uniform, "
            "and never reads one object twice at a time"
        )
    if job.mix.put and not job.join_pool:
        notes.append("warp also reads objects that it wrote in the run, as with read_written")
    return notes
