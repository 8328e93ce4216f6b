"""Translation of an ObjectJob into warp's command line.

Checked against warp 1.6.1. A job that uses a field without a warp flag is refused; if the results
stay comparable, ``caveats`` returns a note instead.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from storlab.base.units import NS_PER_MS, format_size
from storlab.workloads.object.job import ObjectJob, ObjectSizes

_MIXABLE = {"get": "get", "head": "stat", "put": "put", "delete": "delete"}
_ALONE = {"get": "get", "head": "stat", "put": "put"}
LIBRARY_PART = 16 << 20  # warp's part size in bytes, for benchmarks without a flag for it
_LIBRARY_PARTS_IN_FLIGHT = 4
_WEIGHT_SCALE = 1_000_000
_MARGIN_NS = 250 * NS_PER_MS  # load continues this long after the window
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


def inherits(name: str) -> bool:
    """Return whether an environment variable is passed on to warp.

    WARP_* is not, because it would change settings, nor are proxies, which would add a network hop.
    """
    return not name.startswith("WARP_") and name.lower() not in _PROXIES


def benchmark(job: ObjectJob) -> str | None:
    """Return the warp benchmark, such as ``get``, for the job's mix of operations, or None."""
    kinds = [kind for kind, percent in job.mix.dump().items() if percent > 0]
    if len(kinds) == 1:
        return _ALONE.get(kinds[0])
    return "mixed" if kinds and set(kinds) <= set(_MIXABLE) else None


def reads_pool(job: ObjectJob) -> bool:
    """Return whether warp reads the objects that storlab created; for mixes it creates its own."""
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
        return f'its task is "{job.task}", which only the native engine does'
    if job.window_ns is None:
        return "warp needs a runtime: window_ns is not set"
    return None


def _refuse_mix(job: ObjectJob) -> str | None:
    if job.lanes is not None:
        return (
            "warp has one concurrency for all kinds of requests: set concurrency to a number, and "
            "the percentages, or use native"
        )
    mix = job.mix
    for kind in ("list", "multi_delete"):
        if getattr(mix, kind) > 0:
            return (
                f"warp does {kind} requests only in a separate benchmark, which "
                f"{_OF_ITS_OWN[kind]}: set {kind}_percent = 0, or use native"
            )
    if benchmark(job) is None:
        return "warp deletes only objects that it has written: increase put_percent, or use native"
    if mix.delete > mix.put:
        return (
            f"warp deletes at most as many objects as it writes, but here {mix.delete:g} % of the "
            f"requests delete and {mix.put:g} % write: reduce delete_percent, or use native"
        )
    return None


_OF_ITS_OWN = {
    "list": "counts listing a whole prefix as one operation",
    "multi_delete": "ends when all objects are deleted",
}


def _refuse_mode(job: ObjectJob) -> str | None:
    if job.arrival.kind != "closed":
        return (
            "warp has no open loop: its rate limit delays requests and measures their latency "
            "only from then on; remove rate_requests, or use native"
        )
    if job.verify:
        return "warp compares sizes only, not contents: use native for verify"
    if job.keys.kind != "uniform" and (job.mix.get or job.mix.head):
        return f'warp cannot read objects by keys = "{job.keys.kind}": use uniform, or native'
    if job.join_pool and benchmark(job) != "mixed":
        return (
            "warp reads objects that it wrote only in a mix of reads and writes: set "
            "read_written = false, or use native"
        )
    return None


def _refuse_objects(job: ObjectJob) -> str | None:
    name = benchmark(job)
    if name != "put" and job.pool is None:
        return "there are no objects to read: set objects"
    if job.pool is not None and name == "mixed" and job.pool.objects <= job.concurrency:
        return (
            f"warp's mix needs more objects than requests in flight, but objects = "
            f"{job.pool.objects} and concurrency = {job.concurrency}: increase objects"
        )
    if job.range_size is not None and job.mix.get:
        if name != "get":
            return "warp reads ranges only with 100 % GET: remove range_size, or use native"
        smallest = bounds(job.pool.sizes)[0] if job.pool is not None else 0
        if job.range_size >= smallest:
            return (
                f"warp needs ranges smaller than every object, but range_size = "
                f"{format_size(job.range_size)} is not below {format_size(smallest)}: reduce it"
            )
    if reads_pool(job):
        return None
    given = [s for s in (job.sizes, job.pool.sizes if job.pool and name == "mixed" else None) if s]
    if not given:
        return "the size of the objects to write is missing: set object_size"
    if any(sizes != given[0] for sizes in given):
        return (
            "warp uses the same sizes for objects it reads and objects it writes: set one size "
            "distribution for both, or use native"
        )
    if size_text(given[0]) is None:
        return "warp has no log-normal sizes: set one size, a list or uniform, or use native"
    return None


def _refuse_uploads(job: ObjectJob) -> str | None:
    if not job.mix.put:
        return None
    if job.payload == "signed":
        return (
            "warp cannot sign the whole payload in the header: set payload to unsigned, streaming "
            "(http only) or trailer-crc"
        )
    if job.payload == "streaming" and _scheme(job) == "https":
        return "warp does not sign payloads over TLS: set payload to unsigned or trailer-crc"
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
        return "warp cannot mix http and https: use one scheme for all endpoints"
    if any("," in endpoint or "{" in endpoint for endpoint in job.store.endpoints):
        return "warp treats an endpoint with a comma or a brace as several: use another name"
    return None


def _in_parts(job: ObjectJob) -> bool:
    sizes = job.sizes
    return bool(sizes and job.part_size is not None and bounds(sizes)[1] > job.part_size)


def _scheme(job: ObjectJob) -> str:
    return urlsplit(job.store.endpoints[0]).scheme


def bounds(sizes: ObjectSizes) -> tuple[int, int]:
    """Return the smallest and the largest object size of a distribution, in bytes."""
    if sizes.kind in ("fixed", "weighted"):
        every = [size.bytes for size in sizes.sizes]
        return min(every), max(every)
    return sizes.low, sizes.high


def size_text(sizes: ObjectSizes) -> str | None:
    """Return the value of warp's ``--obj.size`` for a distribution of object sizes.

    warp takes a list ``size:weight,...``. For each entry, sizes are drawn uniformly from the size
    before it (inclusive) to its own (exclusive), so an entry one byte wide gives exactly one size.
    Returns None if warp cannot express the distribution.
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
    """Return warp's command line.

    Args:
        program: The warp program.
        job: The job to run.
        data: The path of warp's record of requests, to which warp appends ``.csv.zst``.
    """
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
    """Return warp's environment variables for the certificate authority and thread count."""
    variables = {}
    if job.store.ca_file is not None and _scheme(job) == "https":
        variables["SSL_CERT_FILE"] = job.store.ca_file
    if job.threads is not None:
        variables["GOMAXPROCS"] = str(job.threads)
    return variables


def secrets(job: ObjectJob) -> dict[str, str]:
    """Return warp's environment variables with S3 credentials; empty for anonymous requests."""
    names = {
        "access_key": "WARP_ACCESS_KEY",
        "secret_key": "WARP_SECRET_KEY",
        "session_token": "WARP_SESSION_TOKEN",
    }
    return {names[name]: value for name, value in job.secrets().items()}


def caveats(job: ObjectJob) -> list[str]:
    """Return notes on where warp's behaviour differs from the native engine's for this job."""
    notes = [
        "warp's S3 library retries a failed request up to 10 times with pauses before warp counts "
        "an error: retries, retry_backoff and request_timeout have no effect on it"
    ]
    if benchmark(job) != "mixed":
        return notes
    notes.append(
        "warp takes operations from a shuffled list of 1,000, so the percentages of its mix are "
        "exact, not random"
    )
    if job.mix.get or job.mix.head:
        notes.append(
            "warp selects objects to read in the order of a hash map, which is not uniform, and "
            "never reads the same object twice at a time"
        )
    if job.mix.put and not job.join_pool:
        notes.append("warp also reads objects that it wrote in the run, as if read_written = true")
    return notes
