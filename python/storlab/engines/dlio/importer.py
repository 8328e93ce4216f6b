"""Importer of result directories of the DLIO benchmark, also from trees of MLPerf Storage.

A run is a directory with ``summary.json``, and usually with files per rank. ``layout`` describes
the trees. Training results are recomputed from each rank's step times if they are complete;
otherwise they are those that the summary states.
"""

from __future__ import annotations

from pathlib import Path

from storlab.base.errors import ResultError
from storlab.base.files import read_input
from storlab.contracts.exchange import ImportedRun
from storlab.engines.dlio import layout
from storlab.engines.dlio import result as dlio_result
from storlab.engines.dlio.hosts import merged_results
from storlab.engines.dlio.import_checkpoint import checkpoint_bytes, import_checkpoint
from storlab.engines.dlio.import_summary import has_training, import_summary
from storlab.engines.dlio.import_training import import_training
from storlab.engines.dlio.result import DlioFormatError, Results
from storlab.engines.dlio.settings import Settings, read_settings


class DlioImport:
    """Importer of DLIO's result directories.

    Implements ``storlab.contracts.exchange.DirectoryImporter``.
    """

    name = "dlio"
    names_targets = True

    def directories(self, place: Path) -> list[Path]:
        """Return the run directories at or below ``place``, sorted by path."""
        return layout.run_directories(place)

    def files(self, directory: Path) -> dict[str, bytes]:
        """Return the content of a run's result files by name, or by ``<host>/<name>``.

        Raises OSError if a file is unreadable.
        """
        hosts = layout.host_directories(directory)
        if not hosts:
            names = sorted(p for p in directory.iterdir() if dlio_result.is_result_file(p.name))
            return {path.name: read_input(path) for path in names}
        kept = {
            f"{host.name}/{path.name}": read_input(path)
            for host in hosts
            for path in sorted(host.iterdir())
            if dlio_result.is_result_file(path.name) and not dlio_result.is_rank_file(path.name)
        }
        return {**kept, layout.SUMMARY: kept[f"{hosts[0].name}/{layout.SUMMARY}"]}

    def read(self, directory: Path, files: dict[str, bytes]) -> list[ImportedRun]:
        """Return up to two runs: one of the training steps, one of the checkpoints.

        Raises:
            ResultError: The files are incomplete or not in DLIO's format.
        """
        hosts = layout.host_directories(directory)
        try:
            settings = read_settings(hosts[0] if hosts else directory)
            if hosts:
                results = merged_results(files)
                why = (
                    f"each of {len(hosts)} hosts ran its own DLIO: accelerators, files and "
                    "rates are sums over hosts, and AU is the mean of the values that DLIO states"
                )
                return [import_summary(directory, results, settings, why)]
            return _runs(directory, files, settings)
        except DlioFormatError as error:
            raise ResultError(
                f"{directory}: {error.field}",
                error.what,
                f"give an unchanged result directory of DLIO, with {layout.SUMMARY}",
            ) from error


def _runs(directory: Path, files: dict[str, bytes], settings: Settings) -> list[ImportedRun]:
    results, why = _results(files)
    runs = []
    if why is None:
        runs.append(import_training(directory, results, settings))
    elif has_training(results):
        runs.append(import_summary(directory, results, settings, why))
    if checkpoint_bytes(results) is not None or (results.checkpoints and not runs):
        runs.append(import_checkpoint(directory, results, settings))
    if not runs:
        what = "has neither steps nor checkpoints: DLIO did not measure, or was stopped early"
        raise DlioFormatError("metric", what)
    return runs


def _results(files: dict[str, bytes]) -> tuple[Results, str | None]:
    """Return the results, and the reason why they have no steps; None if they have steps."""
    summary = dlio_result.read_results({layout.SUMMARY: files[layout.SUMMARY]}).summary
    wanted = summary.get("num_accelerators")
    ranks = [name for name in files if dlio_result.is_rank_file(name)]
    stated = "AU and rates are means over epochs as DLIO states them, not computed from steps: "
    if ranks and isinstance(wanted, int) and len(ranks) != wanted:
        left = {name: data for name, data in files.items() if name not in ranks}
        why = f"there are step times of only {len(ranks)} of {wanted} accelerators"
        return dlio_result.read_results(left), stated + why
    results = dlio_result.read_results(files)
    if any(results.ranks):
        return results, None
    return results, f"{stated}there is no <rank>_output.json with step times"
