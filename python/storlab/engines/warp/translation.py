"""Translation of warp's command lines into tables of a study, for ``storlab init --from-warp``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from storlab.base.errors import UsageError
from storlab.base.units import exact_duration, format_size
from storlab.contracts.translation import Remark, TranslatedTable, Translation
from storlab.engines.warp.command import LIBRARY_PART
from storlab.engines.warp.command_line import (
    SECRETS,
    CommandLine,
    CommandLineError,
    duration_ns,
    expanded_hosts,
    parse_command_line,
)
from storlab.engines.warp.object_sizes import Sizes, object_sizes, size_bytes

_OPTION = "--from-warp"
_MOST_KEYS = 1000  # S3's limit for a page of LIST and for a multi-delete
_MIX = {"get": "get", "stat": "head", "put": "put", "delete": "delete"}
_TRANSLATED = {
    "host", "tls", "bucket", "region", "insecure", "lookup", "prefix", "concurrent", "duration",
    "objects", "obj.size", "obj.randsize", "range-size", "batch", "max-keys", "part.size", "parts",
    "part.concurrent", "disable-multipart", "disable-sha256-payload", "checksum", "host-select",
    "get-distrib", "stat-distrib", "put-distrib", "delete-distrib", "rps-limit", "range",
}  # fmt: skip
_REPORTING = {
    "quiet", "q", "no-color", "json", "debug", "autocompletion", "benchdata", "full", "stress",
    "stdout", "influxdb", "serverprof", "web", "warp-client-server", "pprofdir", "cpu", "mem",
    "block", "mutex", "threads", "trace", "requests",
}  # fmt: skip
_KEYS = (
    "not written into the study: export AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if there is "
    "one, AWS_SESSION_TOKEN, or see s3_options.credentials_env"
)
_BY_PROFILE = "not written into the study: give the credentials of a profile (s3_options.profile)"
# Effect of options that a study cannot express.
_DIFFERENCES = {
    **dict.fromkeys(("access-key", "secret-key", "session-token"), _KEYS),
    **dict.fromkeys(("sts-web-token", "sts-web-token-file"), _BY_PROFILE),
    "signature": "requests are signed with AWS signature version 4",
    "sts-endpoint": "credentials come from the environment or a profile",
    "warp-client": "one client sends the requests: to use several, add a [cluster] table with "
    "their hosts; the load is then that of each client",
    "autoterm": "a run always lasts the whole runtime",
    "autoterm.dur": "a run always lasts the whole runtime",
    "autoterm.pct": "a run always lasts the whole runtime",
    "noclear": "has no effect: storlab only deletes objects that it created",
    "keep-data": "objects that storlab created are deleted at the end",
    "syncstart": "runs start when the study is run",
    "list-existing": "storlab reads objects that it created itself, not those of the bucket",
    "list-flat": "storlab reads objects that it created itself, not those of the bucket",
    "encrypt": "objects are not encrypted with customer keys",
    "sse-s3-encrypt": "server-side encryption is not requested: set it as the bucket's default",
    "storage-class": "objects have the bucket's default storage class",
    "md5": "uploads have no MD5 sum",
    "http2": "requests use HTTP/1.1",
    "disable-http-keepalive": "connections are kept open",
    "ktls": "TLS is done by the client, not by the kernel",
    "rdma": "requests use TCP",
    "rdma.window": "requests use TCP",
    "sndbuf": "socket buffers have the kernel's sizes",
    "rcvbuf": "socket buffers have the kernel's sizes",
    "noprefix": "objects have the keys of storlab's pool",
    "resolve-host": "a host's addresses are used in turn, and TLS verifies its name",
    "versions": "each object has one version",
    "metadata": "LIST requests have no metadata",
    "post": "uploads are PUTs",
    "add-metadata": "objects have no user metadata",
    "tag": "objects have no tags",
    "obj.generator": "contents are random",
    "obj.name": "objects have the keys of storlab's pool",
}
_NEUTRAL = {"versions": "1", "obj.generator": "random"}  # defaults other than 0
_CREDENTIALS = "credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
_UNKNOWN = "left out: storlab does not know this option"


def translate(values: list[str]) -> Translation:
    """Translate command lines of warp, which run one after the other.

    Raises:
        UsageError: A command line cannot be read, or its benchmark has no counterpart.
    """
    translation = Translation()
    remarks: dict[Remark, None] = {}
    lengths: list[tuple[str, int]] = []
    for index, text in enumerate(values, start=1):
        try:
            line = parse_command_line(text)
        except CommandLineError as error:
            where = _OPTION if len(values) == 1 else f"{_OPTION} (number {index})"
            fix = "give a command line in quotes, such as 'warp get --host=s3:9000'"
            raise UsageError(where, str(error), fix) from error
        where = f"warp {line.benchmark}" + (f" (number {index})" if len(values) > 1 else "")
        one = _Command(line, where)
        target = _target_for(translation.targets, one.target())
        name = f"{line.benchmark} {index}" if len(values) > 1 else line.benchmark
        fields = {"kind": "object", "name": name, **one.workload(), "targets": [target]}
        translation.workloads.append(TranslatedTable(where, fields, one.comments))
        lengths.append((where, one.duration_ns()))
        remarks |= dict.fromkeys(one.remarks())
    translation.runtime_ns = max(length for _, length in lengths)
    longest = exact_duration(translation.runtime_ns)
    for where, length in lengths:
        if length < translation.runtime_ns:
            meaning = f"all workloads of a study have the same runtime, here {longest}"
            remarks[Remark(where, f"--duration={exact_duration(length)}", meaning)] = None
    translation.remarks = list(remarks)
    return translation


def _target_for(targets: list[TranslatedTable], target: TranslatedTable) -> str:
    """Return the name of an equal target in the list; add the target if there is none."""
    own = {name: value for name, value in target.fields.items() if name != "name"}
    for other in targets:
        if own == {name: value for name, value in other.fields.items() if name != "name"}:
            return str(other.fields["name"])
    if targets:
        target.fields["name"] = f"store {len(targets) + 1}"
    targets.append(target)
    return str(target.fields["name"])


class _Command:
    """Translator of one command line of warp."""

    def __init__(self, line: CommandLine, where: str) -> None:
        self.line = line
        self.where = where
        self.comments: dict[str, str] = {}
        self._remarks: list[Remark] = []

    def target(self) -> TranslatedTable:
        """Return the table of the target: the bucket, and the options for access to it."""
        line = self.line
        scheme = "https" if line.is_on("tls") else "http"
        hosts = list(expanded_hosts(line.value("host")))
        if not hosts or any("{" in host or host.startswith("file:") for host in hosts):
            fix = "name the hosts, such as --host=s3-1:9000,s3-2:9000 or s3-{1...4}:9000"
            raise self._error("host", f"{line.value('host')} cannot be resolved to hosts", fix)
        options: dict[str, Any] = {}
        if line.flags.get("region"):
            options["region"] = line.flags["region"]
        first = hosts[0].partition(":")[0]
        if line.flags.get("lookup") == "host" or (
            line.flags.get("lookup", "auto") in ("auto", "") and first.endswith(".amazonaws.com")
        ):
            options["addressing"] = "virtual"
        if len(hosts) > 1:
            options["endpoints"] = [f"{scheme}://{host}" for host in hosts[1:]]
        if line.is_on("insecure") and scheme == "https":
            options["verify_tls"] = False
        if line.flags.get("prefix"):
            options["prefix"] = line.flags["prefix"].strip("/") + "/"
        options["create_bucket"] = True
        fields = {"name": "store", "s3": f"{scheme}://{hosts[0]}/{line.value('bucket')}"}
        return TranslatedTable(
            self.where, {**fields, "s3_options": options}, {"s3": f"{_CREDENTIALS} (docs/s3.md)"}
        )

    def duration_ns(self) -> int:
        """Return the benchmark's ``--duration`` in ns."""
        length = duration_ns(self.line.value("duration"))
        if not length:
            text = self.line.value("duration")
            raise self._error("duration", f"{text} is not a duration", "give one such as 5m")
        return length

    def workload(self) -> dict[str, Any]:
        """Return the fields of the workload, except its name and targets."""
        make = {
            "mixed": self._mixed,
            "versioned": self._mixed,
            "get": self._get,
            "put": self._put,
            "delete": self._delete,
            "list": self._list,
            "stat": self._stat,
            "multipart": self._multipart,
            "multipart-put": self._multipart_put,
        }.get(self.line.benchmark)
        if make is None:
            raise UsageError(
                self.where,
                "this benchmark has no counterpart in storlab",
                "translate mixed, get, put, delete, list, stat, versioned, multipart or "
                "multipart-put",
            )
        fields = make() | {"concurrency": self._count("concurrent")}
        self.comments["concurrency"] = self._source("concurrent")
        rate = self._number("rps-limit") if "rps-limit" in self.line.flags else 0.0
        if rate:
            fields["rate_requests"] = rate
            meaning = (
                "becomes an open loop: requests start on time and latency counts from then, while "
                "warp delays requests and counts from their real start"
            )
            self._remark("rps-limit", meaning)
        several = len(list(expanded_hosts(self.line.value("host")))) > 1
        if several and self.line.value("host-select") != "roundrobin":
            fields["routing"] = "least_busy"
        return fields

    def remarks(self) -> Iterator[Remark]:
        """Yield a remark for each option that the tables do not fully express."""
        yield from self._remarks
        by_meaning: dict[str, list[str]] = {}
        for name, value in self.line.flags.items():
            off = value in ("false", "0", "") or _NEUTRAL.get(name) == value
            if name not in _TRANSLATED and not off:
                meaning = _difference(name)
                # The value of an unknown flag may be a secret: --secert-key is a typo of one.
                hidden = name in SECRETS or meaning == _UNKNOWN or value == "true"
                by_meaning.setdefault(meaning, []).append(
                    f"--{name}" if hidden else f"--{name}={value}"
                )
        for meaning, options in by_meaning.items():
            yield Remark(self.where, ", ".join(options), meaning)
        for word in self.line.unread:
            yield Remark(self.where, word, "is not an option of warp and was left out")

    def _mixed(self) -> dict[str, Any]:
        amounts = {kind: self._number(f"{name}-distrib") for name, kind in _MIX.items()}
        total = sum(amounts.values())
        if total <= 0:
            fix = "give at least one --...-distrib above 0"
            raise self._error("get-distrib", "all shares of the mix are 0", fix)
        shares = {kind: round(100 * amount / total, 6) for kind, amount in amounts.items()}
        fields: dict[str, Any] = {"get_percent": shares["get"]}
        fields |= {f"{k}_percent": shares[k] for k in ("head", "delete") if shares[k]}
        self.comments["get_percent"] = f"the rest, {shares['put']:g} %, is PUT"
        if shares["delete"] > shares["put"]:
            fix = "make --delete-distrib at most --put-distrib"
            raise self._error("delete-distrib", "deletes more than is written", fix)
        fields |= self._pool()
        if shares["put"]:
            fields |= self._uploads(fields["object_size"])
            if shares["get"] or shares["head"]:
                fields["read_written"] = True
                self.comments["read_written"] = "warp also reads objects that it wrote in the run"
        if self.line.benchmark == "versioned":
            self._remark_benchmark("writes new objects, not new versions of the same objects")
        return fields

    def _get(self) -> dict[str, Any]:
        fields = {"get_percent": 100, **self._pool()}
        if self.line.flags.get("range-size"):
            fields["range_size"] = format_size(self._size("range-size"))
        elif self.line.is_on("range"):
            self._remark("range", "reads whole objects: only ranges of one size are possible")
        if self.line.flags.get("part.size"):
            self._remark("part.size", "objects to read are uploaded in one request")
        return fields

    def _put(self) -> dict[str, Any]:
        sizes = self._object_size()
        return {"get_percent": 0, "object_size": sizes, **self._uploads(sizes)}

    def _delete(self) -> dict[str, Any]:
        batch = self._count("batch")
        if batch > _MOST_KEYS:
            self._remark("batch", f"S3 accepts at most {_MOST_KEYS:,} keys per request")
        self._remark_benchmark(
            "ends when all objects are deleted; storlab's run fails if it runs out of objects: "
            "shorten runtime or increase objects"
        )
        batch = min(batch, _MOST_KEYS)
        fields = {"get_percent": 0, "multi_delete_percent": 100, "delete_batch": batch}
        return fields | self._pool()

    def _list(self) -> dict[str, Any]:
        self._remark_benchmark(
            "counts listing all objects of a prefix as one operation; storlab counts each page"
        )
        keys = self._count("max-keys")
        if keys > _MOST_KEYS:
            self._remark("max-keys", f"S3 returns at most {_MOST_KEYS:,} keys per page")
        fields = {"get_percent": 0, "list_percent": 100, "list_max_keys": min(keys, _MOST_KEYS)}
        fields |= self._pool()
        # warp gives each thread its own prefix.
        prefixes = 1 if self.line.is_on("noprefix") else self._count("concurrent")
        return fields | {"prefixes": min(prefixes, fields["objects"])}

    def _stat(self) -> dict[str, Any]:
        return {"get_percent": 0, "head_percent": 100, **self._pool()}

    def _multipart(self) -> dict[str, Any]:
        part, parts = self._size("part.size"), self._count("parts")
        self._remark_benchmark(
            "reads the parts of one object in turn; storlab reads ranges of a part's size at "
            "random places"
        )
        self.comments["object_size"] = f"--parts={parts} x --part.size={format_size(part)}"
        size = format_size(part * parts)
        return {"get_percent": 100, "object_size": size, "objects": 1} | {
            "range_size": format_size(part),
            "part_size": format_size(part),
        }

    def _multipart_put(self) -> dict[str, Any]:
        part, parts = self._size("part.size"), self._count("parts")
        self.comments["object_size"] = f"--parts={parts} x --part.size={format_size(part)}"
        self._remark_benchmark("counts each part as one operation; storlab counts each object")
        return {
            "get_percent": 0,
            "object_size": format_size(part * parts),
            "part_size": format_size(part),
            "part_concurrency": min(self._count("part.concurrent"), parts),
            "payload": self._payload(),
        }

    def _pool(self) -> dict[str, Any]:
        objects = self._count("objects")
        if not objects:
            fix = "give the number of objects, such as --objects=2500"
            raise self._error("objects", "0 means all objects of the bucket", fix)
        self.comments["objects"] = self._source("objects")
        return {"object_size": self._object_size(), "objects": objects}

    def _object_size(self) -> Any:
        text = self.line.value("obj.size")
        sizes: Sizes | None = object_sizes(text, is_random=self.line.is_on("obj.randsize"))
        if sizes is None:
            fix = 'give one such as 4MiB, or buckets such as "4096:1,8192:2"'
            raise self._error("obj.size", f'"{text}" is not a size', fix)
        if sizes.difference is not None:
            name = "obj.randsize" if ":" not in text else "obj.size"
            self._remark(name, sizes.difference)
        self.comments["object_size"] = self._source("obj.size")
        return format_size(sizes.value) if isinstance(sizes.value, int) else sizes.value

    def _uploads(self, sizes: Any) -> dict[str, Any]:
        fields: dict[str, Any] = {"payload": self._payload()}
        given = bool(self.line.flags.get("part.size"))
        part = self._size("part.size") if given else LIBRARY_PART
        if _largest(sizes) > part and not self.line.is_on("disable-multipart"):
            fields |= {"part_size": format_size(part), "part_concurrency": 4}
            self.comments["part_size"] = (
                self._source("part.size") if given else "default of warp's S3 library"
            )
        return fields

    def _payload(self) -> str:
        unsigned = self.line.is_on("disable-sha256-payload") or self.line.is_on("tls")
        checksum = self.line.flags.get("checksum", "")
        if checksum not in ("", "CRC32"):
            self._remark("checksum", "the kind of checksum cannot be chosen")
        if checksum and unsigned:
            return "trailer-crc"
        return "unsigned" if unsigned else "streaming"

    def _source(self, name: str) -> str:
        if name in self.line.flags:
            return f"--{name}={self.line.flags[name]}"
        return f"warp's default for --{name}"

    def _remark(self, name: str, meaning: str) -> None:
        value = self.line.flags.get(name, "")
        shown = f"--{name}" if value in ("", "true") else f"--{name}={value}"
        self._remarks.append(Remark(self.where, shown, meaning))

    def _remark_benchmark(self, meaning: str) -> None:
        self._remarks.append(Remark(self.where, self.line.benchmark, meaning))

    def _error(self, name: str, what: str, fix: str) -> UsageError:
        return UsageError(f"{self.where}: --{name}", what, fix)

    def _count(self, name: str) -> int:
        text = self.line.value(name)
        if not text.isdecimal():
            raise self._error(name, f'"{text}" is not a whole number', "give one such as 20")
        return int(text)

    def _number(self, name: str) -> float:
        try:
            return max(0.0, float(self.line.value(name)))
        except ValueError as error:
            text = self.line.value(name)
            raise self._error(name, f'"{text}" is not a number', "give one such as 45") from error

    def _size(self, name: str) -> int:
        size = size_bytes(self.line.value(name))
        if not size:
            text = self.line.value(name)
            raise self._error(name, f'"{text}" is not a size', "give one such as 5MiB")
        return size


def _difference(name: str) -> str:
    if name in _REPORTING or name.startswith("analyze."):
        return "concerns warp's output and does not affect the load"
    return _DIFFERENCES.get(name, _UNKNOWN)


def _largest(sizes: Any) -> int:
    if isinstance(sizes, str):
        return size_bytes(sizes)
    return max(map(size_bytes, sizes.get("uniform", sizes)))
