"""``storlab clean``: removes what a campaign left on its targets after it has ended."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from storlab.base.errors import GuardError, ResultError
from storlab.contracts.reporter import Reporter
from storlab.lab.run.clean_clients import clean_clients
from storlab.lab.run.clean_stores import clean_stores
from storlab.lab.run.clean_summary import Cleaned
from storlab.model.study import Target
from storlab.process.execution import StopRequest
from storlab.results.store import ResultStore
from storlab.stores.home import DataDirectoryLock
from storlab.stores.sidecar import SUFFIX, DataFileHold


def clean_campaign(
    store: ResultStore, stop: StopRequest, reporter: Callable[[], Reporter]
) -> Cleaned:
    """Remove the data files and objects of a campaign, even with ``keep_data``; results stay.

    A target that fails does not stop the clean-up of others.

    Raises:
        ResultError: The directory has no campaign, or one is running.
        Interrupted: A stop was requested.
    """
    recorded = store.environment.get("guard")
    if recorded is None:
        raise ResultError(
            str(store.directory),
            "was not made by `storlab run`, so it has no data anywhere",
            "give the directory that run printed",
        )
    base = Path(recorded["working_directory"])
    cleaned = Cleaned()
    cluster = store.study.cluster
    if cluster is not None:
        with store.campaign_lock(), reporter() as told:
            return clean_clients(store, cluster, base, recorded, stop, told)
    with store.campaign_lock(), reporter() as told:
        for target in store.study.target:
            cleaned.attempt(partial(_clean_files, target, base, recorded.get("campaign", "")))
            if target.directory is not None and "campaign" in recorded:
                home = DataDirectoryLock(base / target.directory, recorded["campaign"])
                cleaned.attempt(partial(_clean_home, home, stop))
        clean_stores(store.study, recorded, base, stop, told, cleaned)
    return cleaned


def _clean_home(home: DataDirectoryLock, stop: StopRequest) -> list[str]:
    if not home.path.is_dir():
        return []
    with home:
        return home.clean(stop)


def _clean_files(target: Target, base: Path, campaign: str) -> list[str]:
    """Remove the target's data files that this campaign created; devices and other files stay."""
    removed = []
    for path in _data_files(target, base):
        real = Path(os.path.realpath(path))
        if real.exists() and not real.is_file():
            continue
        try:
            with DataFileHold(real, campaign, make=False) as hold:
                if hold.remove():
                    removed.append(str(path))
        except FileNotFoundError:
            continue  # without a sidecar it is not storlab's file
        except OSError as error:
            raise GuardError(
                str(path), f"cannot be removed: {error.strerror}", "check its directory's mode"
            ) from error
    return removed


def _data_files(target: Target, base: Path) -> list[Path]:
    if target.is_null or target.s3 is not None:
        return []
    if target.directory is None:
        return [base / location for location in target.locations]
    # Names as in the guard; the sidecars show how many files there were.
    directory = base / target.directory
    sidecars = sorted(directory.glob(f"storlab.*.dat{SUFFIX}"))
    return [path.with_name(path.name.removesuffix(SUFFIX)) for path in sidecars]
