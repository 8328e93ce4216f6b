"""Meter ``nvml``: power of NVIDIA GPUs, through the driver's NVML library and nvidia-ml-py.

The energy counter is preferred to power values. Data-centre GPUs read their power sensor only part
of the time (A100 and H100: a quarter; Yang et al., SC24), so all values may miss short bursts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, TypeVar

from pydantic import field_validator

from storlab.base.errors import MeterError
from storlab.base.units import NS_PER_S
from storlab.contracts.meter import Discovered
from storlab.meters.common import MidpointTimer
from storlab.meters.options import MeterOptions, read_options
from storlab.model.power import Boundary, Reading, Sampling, SensorInfo
from storlab.model.result import RunOutcome
from storlab.model.study import MeterSpec, Target

BOUNDARY: Boundary = "device"  # unless the study states another
Way = Literal["energy", "instant", "average"]
ValueT = TypeVar("ValueT")

_MILLI = 1e-3
_AVERAGE_INTERVAL_NS = NS_PER_S
# Assumed refresh interval of counter and sensor. Yang et al. measured 20 to 100 ms on several GPUs.
_REFRESH_NS = 100_000_000
_PART_TIME = "data-centre GPUs sample their sensor part of the time, so short bursts can be missed"
_INSTALL = 'pip install "storlab[power]"'


class NvmlOptions(MeterOptions):
    """Fields of a meter with ``kind = "nvml"``.

    ``gpu`` is an index or UUID, a list of them, or "all". ``reading`` selects the value to read:
    the energy counter, instantaneous power or average power.
    """

    gpu: int | str | list[int | str] = 0
    reading: Literal["auto", "energy", "instant", "average"] = "auto"

    @field_validator("gpu")
    @classmethod
    def _some(cls, value: int | str | list[int | str]) -> int | str | list[int | str]:
        for name in value if isinstance(value, list) else [value]:
            if isinstance(name, int) and name < 0:
                raise ValueError("the index of a GPU must be 0 or more")
            if isinstance(name, str) and name != "all" and not name.startswith("GPU-"):
                raise ValueError('use an index, a UUID such as "GPU-...", or "all"')
        if value == []:
            raise ValueError("the list of GPUs is empty")
        return value


@dataclass(frozen=True, slots=True)
class _Gpu:
    """Open GPU: its name in errors, its model, its NVML handle, and the kind of value to read."""

    name: str
    label: str
    handle: Any
    way: Way


class Nvml:
    """Initialised NVML library; its errors are raised as MeterError with a fix."""

    def __init__(self) -> None:
        try:
            # Imported late: the package is optional and has no type annotations.
            self.lib: Any = import_module("pynvml")
        except ModuleNotFoundError as failure:
            raise MeterError("nvml meter", "nvidia-ml-py is not installed", _INSTALL) from failure
        self.call("nvml meter", self.lib.nvmlInit)

    def call(self, where: str, function: Callable[..., ValueT], *arguments: Any) -> ValueT:
        """Call a function of the library.

        Args:
            where: Name of the GPU, for the error.
            function: Function of pynvml.
            *arguments: Its arguments.

        Raises:
            MeterError: The function failed.
        """
        try:
            return function(*arguments)
        except self.lib.NVMLError as failure:
            raise self.error(where, failure.value) from failure

    def error(self, where: str, code: int) -> MeterError:
        """Build the error for an NVML return code, with its meaning and a fix."""
        lib = self.lib
        known = {
            lib.NVML_ERROR_LIBRARY_NOT_FOUND: (
                "libnvidia-ml.so.1 was not found, so this machine has no NVIDIA driver",
                "install the driver; in a container, pass the GPU through",
            ),
            lib.NVML_ERROR_DRIVER_NOT_LOADED: (
                "the NVIDIA driver is not loaded", "load it: modprobe nvidia"),
            lib.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
                "library and kernel module are of different versions",
                "reboot, or reload the nvidia module"),
            lib.NVML_ERROR_GPU_IS_LOST: (
                "the GPU is lost: it fell off the bus", "see dmesg for Xid errors; reset it"),
            lib.NVML_ERROR_NO_PERMISSION: (
                "this user may not read the GPU", "run as root, or as a member of the GPU's group"),
            lib.NVML_ERROR_NOT_FOUND: ("no such GPU", "list the GPUs with nvidia-smi -L"),
            lib.NVML_ERROR_INVALID_ARGUMENT: ("no such GPU", "list the GPUs with nvidia-smi -L"),
            lib.NVML_ERROR_NOT_SUPPORTED: (
                "this GPU or driver does not report this value",
                "use another reading, or another meter"),
            lib.NVML_ERROR_TIMEOUT: ("the driver did not answer in time", "see dmesg"),
        }  # fmt: skip
        what, fix = known.get(code, (f"NVML error {code}", "see nvidia-smi"))
        return MeterError(where, what, fix)

    def handles(self, wanted: int | str | list[int | str]) -> list[tuple[str, Any]]:
        """Return name and handle of each requested GPU.

        Raises:
            MeterError: A GPU does not exist, cannot be accessed, or is listed twice.
        """
        lib = self.lib
        if wanted == "all":
            wanted = list(range(self.call("nvml meter", lib.nvmlDeviceGetCount)))
        gpus = []
        for name in wanted if isinstance(wanted, list) else [wanted]:
            by = lib.nvmlDeviceGetHandleByIndex if isinstance(name, int) else (
                lib.nvmlDeviceGetHandleByUUID)  # fmt: skip
            gpus.append((f"nvml:{name}", self.call(f"GPU {name}", by, name)))
        ids = [self.call(name, lib.nvmlDeviceGetUUID, handle) for name, handle in gpus]
        for (name, _), uuid in zip(gpus, ids, strict=True):
            if ids.count(uuid) > 1:
                raise MeterError("nvml meter", f"{name} is listed twice", "list each GPU once")
        return gpus

    def read(self, handle: Any, way: Way) -> tuple[float, str | None]:
        """Read a GPU's energy in J or power in W.

        Returns:
            The value, and the sensor's time stamp if it has one.

        Raises:
            NVMLError: The GPU cannot be read.
        """
        if way == "energy":
            return self.lib.nvmlDeviceGetTotalEnergyConsumption(handle) * _MILLI, None
        field = self.lib.NVML_FI_DEV_POWER_INSTANT
        if way == "average":
            field = self.lib.NVML_FI_DEV_POWER_AVERAGE
        (answer,) = self.lib.nvmlDeviceGetFieldValues(handle, [field])
        if answer.nvmlReturn != self.lib.NVML_SUCCESS:
            raise self.lib.NVMLError(answer.nvmlReturn)
        return answer.value.uiVal * _MILLI, str(answer.timestamp) if answer.timestamp else None

    def way(self, where: str, handle: Any, wanted: str) -> Way:
        """Return the kind of value to read from a GPU: energy, instant or average power.

        Args:
            where: Name of the GPU, for the error.
            handle: NVML handle of the GPU.
            wanted: Requested kind; "auto" for the first of these that the GPU supports.

        Raises:
            MeterError: The GPU does not support the kind, or cannot be read.
        """
        ways: list[Way] = ["energy", "instant", "average"]
        lacking = {self.lib.NVML_ERROR_NOT_SUPPORTED, self.lib.NVML_ERROR_FUNCTION_NOT_FOUND,
                   self.lib.NVML_ERROR_INVALID_ARGUMENT}  # fmt: skip
        for way in ways:
            if wanted not in ("auto", way):
                continue
            try:
                self.read(handle, way)
            except self.lib.NVMLError as failure:
                if failure.value not in lacking:
                    raise self.error(where, failure.value) from failure
            else:
                return way
        what = "neither energy nor power" if wanted == "auto" else f"no {wanted} value"
        raise MeterError(where, f"this GPU reports {what}", "see nvidia-smi -q -d POWER")

    def close(self) -> None:
        """Shut down the library, ignoring errors."""
        try:
            self.lib.nvmlShutdown()
        except self.lib.NVMLError:
            return


class NvmlMeter:
    """Meter that reads GPUs, with one sensor each."""

    def __init__(self, nvml: Nvml, options: NvmlOptions) -> None:
        self._nvml = nvml
        self._watch = MidpointTimer()
        self.rate_hz = options.rate_hz
        self._gpus: list[_Gpu] = []
        self._last: dict[str, float] = {}
        self._infos: list[SensorInfo] = []
        gpus = nvml.handles(options.gpu)
        for name, handle in gpus:
            label = nvml.call(name, nvml.lib.nvmlDeviceGetName, handle)
            gpu = _Gpu(name, label, handle, nvml.way(name, handle, options.reading))
            self._gpus.append(gpu)
            # The first call is slow and would make the times of later readings look uncertain.
            nvml.call(name, nvml.read, handle, gpu.way)
            self._infos.append(_info(gpu, options, several=len(gpus) > 1))

    def describe(self) -> list[SensorInfo]:
        """Return one sensor per GPU."""
        slowest = {"clock_uncertainty_ns": self._watch.uncertainty_ns + _REFRESH_NS // 2}
        return [info.model_copy(update=slowest) for info in self._infos]

    def sample(self) -> list[Reading]:
        """Return one reading per GPU.

        Raises:
            MeterError: A GPU cannot be read, or its energy counter was reset.
        """
        return [self._read(gpu) for gpu in self._gpus]

    def _read(self, gpu: _Gpu) -> Reading:
        (value, stamp), time_ns = self._watch.read(
            lambda: self._nvml.call(gpu.name, self._nvml.read, gpu.handle, gpu.way)
        )
        if gpu.way == "energy":
            if value < self._last.get(gpu.name, value):
                raise MeterError(
                    gpu.name,
                    "its energy counter decreased, because the driver was reloaded during the run",
                    "repeat the run, with persistence mode on (nvidia-smi -pm 1)",
                )
            self._last[gpu.name] = value
        return Reading(gpu.name, time_ns, value, stamp)

    def after_run(self, outcome: RunOutcome) -> list[Reading]:  # noqa: ARG002
        """Return no readings: all are taken during the run."""
        return []

    def close(self) -> None:
        """Shut down the library."""
        self._nvml.close()


def _info(gpu: _Gpu, options: MeterOptions, *, several: bool) -> SensorInfo:
    ways: dict[Way, tuple[str, Sampling]] = {
        "energy": ("energy counter since the driver was loaded", "counter"),
        "instant": ("power at the sensor's latest sample", "instantaneous"),
        "average": ("power, mean of the last second", "interval_mean"),
    }
    text, sampling = ways[gpu.way]
    return options.info(
        sensor=gpu.name,
        description=f"{gpu.label}: {text}; {_PART_TIME}",
        sampling=sampling,
        unit="J" if gpu.way == "energy" else "W",
        supply="dc",
        quantum=_MILLI,
        sensor_interval_ns=_AVERAGE_INTERVAL_NS if gpu.way == "average" else None,
        whole="GPUs" if several else "",
    )


def open_meter(spec: MeterSpec, target: Target) -> NvmlMeter:
    """Open the GPUs that a study names.

    Raises:
        StudyError: A field is wrong.
        MeterError: The library or a GPU cannot be used.
    """
    options = read_options(NvmlOptions, spec, target)
    try:
        nvml = Nvml()
        try:
            return NvmlMeter(nvml, options)
        except MeterError:
            nvml.close()
            raise
    except MeterError as failure:
        where = f'target "{target.name}": {failure.where}'
        raise MeterError(where, failure.what, failure.fix) from failure


def discover() -> list[Discovered]:
    """Return every NVIDIA GPU of this machine."""
    try:
        nvml = Nvml()
    except MeterError as failure:
        return [_missing("nvml", failure)]
    try:
        return [_look_at(nvml, name, handle) for name, handle in nvml.handles("all")]
    except MeterError as failure:
        return [_missing("nvml", failure)]
    finally:
        nvml.close()


def _look_at(nvml: Nvml, name: str, handle: Any) -> Discovered:
    try:
        label = nvml.call(name, nvml.lib.nvmlDeviceGetName, handle)
        way = nvml.way(name, handle, "auto")
    except MeterError as failure:
        return _missing(name, failure)
    source = "energy counter" if way == "energy" else "power"
    index = name.removeprefix("nvml:")
    return Discovered(
        kind="nvml",
        sensor=name,
        available=True,
        rate=f"on request ({source}, refreshed about every 0.1 s)",
        accuracy="not stated; sampled part of the time on data-centre GPUs",
        privilege="none",
        how=f'meters = [{{ kind = "nvml", gpu = {index} }}] ({label})',
    )


def _missing(sensor: str, failure: MeterError) -> Discovered:
    return Discovered("nvml", sensor, False, "none", "none", "none",
                      f"{failure.what}: {failure.fix}")  # fmt: skip
