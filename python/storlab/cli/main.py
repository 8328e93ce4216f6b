"""Entry point of ``storlab``: load commands, turn errors into messages and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException
from typer.models import ParameterInfo

from storlab.base.errors import ExitCode, StorlabError, UsageError
from storlab.contracts.command import Verb
from storlab.contracts.hook import load
from storlab.contracts.registries import Registry

VERBS: dict[str, Verb] = {
    "try": Verb(
        "storlab.cli.try_:try_",
        "Measure paths, devices or buckets in short runs, and say which is better at what.",
    ),
    "init": Verb(
        "storlab.cli.init:init",
        "Write a commented study: a template, or one for the devices of this machine.",
    ),
    "schema": Verb("storlab.cli.schema:schema", "Print the JSON Schema of study files."),
    "plan": Verb("storlab.cli.plan:plan", "Show what a study will do, without doing it."),
    "doctor": Verb(
        "storlab.cli.doctor:doctor",
        "Check whether this machine can run a study, and what would distort its numbers.",
    ),
    "meters": Verb(
        "storlab.cli.meters:meters",
        "List the power meters of this machine: rate, accuracy, privilege, and how to get more.",
    ),
    "run": Verb(
        "storlab.cli.run:run",
        "Run a study: check, guard, prepare, measure, store, and write the brief.",
    ),
    "resume": Verb(
        "storlab.cli.resume:resume",
        "Continue an interrupted campaign at its first missing run.",
    ),
    "status": Verb(
        "storlab.cli.status:status",
        "Show how far a campaign is: finished, failed and missing runs, flags, time left.",
    ),
    "compare": Verb(
        "storlab.cli.compare:compare",
        "Print the table of the brief: every point with every target, and the ratios.",
    ),
    "report": Verb(
        "storlab.cli.report:report",
        "Write the brief: one offline HTML file, its figures as SVG files, and a PDF.",
    ),
    "export": Verb(
        "storlab.cli.export:export",
        "Write the results for other programs: a tidy table, or fio-compatible JSON.",
    ),
    "import": Verb(
        "storlab.cli.import_:import_",
        "Import results of other tools into a result directory, to compare and report them.",
    ),
    "crosscheck": Verb(
        "storlab.cli.crosscheck:crosscheck",
        "Run the same points by the native and a reference engine, and test whether they agree.",
    ),
    "gate": Verb(
        "storlab.cli.gate:gate",
        "Check results against rules: bounds that are absolute or multiples of a baseline.",
    ),
    "history": Verb(
        "storlab.cli.history:history",
        "Build a static site of many results: each point over time, with its changes.",
    ),
    "capacity": Verb(
        "storlab.cli.capacity:capacity",
        "Search for the most accelerators that each target keeps at a given utilisation.",
    ),
    "clean": Verb(
        "storlab.cli.clean:clean",
        "Remove what a campaign left on its targets: objects in S3 stores, and laid-out data "
        "files.",
    ),
    "purge": Verb(
        "storlab.cli.purge:purge",
        "Erase all data of an NVMe namespace (Format NVM), as the SNIA PTS asks before each test.",
    ),
    "verify": Verb(
        "storlab.cli.verify:verify",
        "Read back what verify-mode runs wrote: lost, torn, stale and misplaced blocks.",
    ),
    "audit": Verb(
        "storlab.cli.audit:audit",
        "Check printed numbers against each other and against physics.",
    ),
    "published": Verb(
        "storlab.cli.published:published",
        "List published results that ship with storlab as data, or show one of them.",
    ),
}
"""Commands of storlab itself, in the order of ``--help``."""
FURTHER: Registry[Verb] = Registry("storlab.commands")
"""Commands that workload families add; ``VERBS`` takes precedence for equal names."""


def verbs() -> dict[str, Verb]:
    """Return all commands by name; those that workload families add come last."""
    return VERBS | {name: verb for name, verb in FURTHER.items() if name not in VERBS}


EXIT_CODES = """\b
Exit codes (stable):
   0  done
   1  a defect of storlab itself
   2  the command line is wrong
   3  the study file is wrong, or cannot be read
   4  this machine cannot run the study unless something is changed
   5  refused: the target might hold somebody's data
   6  the campaign is complete, but at least one run failed
   7  interrupted; storlab resume continues
   8  a result directory is missing, unreadable, incomplete or damaged
   9  an engine is missing, too old, or cannot do what was asked
  10  the verdict is "no" (crosscheck, gate, verify, audit), or a run found
      wrong data
  11  storlab's own brief contradicts its runs, and was not written
  12  too few repeats to decide (crosscheck, gate)
  13  a target remained unavailable; storlab resume continues

\b
Example:
  storlab /mnt/a /mnt/b          (short for storlab try /mnt/a /mnt/b)
  storlab init study.toml
  storlab plan study.toml
  storlab run study.toml
"""

_TYPER_INTERRUPTED = 130  # exit code that Typer uses for KeyboardInterrupt


class VerbCommand(TyperCommand):
    """Command whose messages about wrong values lack pydantic's prefix, "Value error, "."""

    def make_context(self, info_name: Any, args: list[str], *arguments: Any, **more: Any) -> Any:
        """Parse the command line, as the base class does.

        Typer has no options whose value can be left out, so ``--from`` of ``init`` gets an empty
        one before another option and at the end: then ``init`` lists its templates.
        """
        if self.name == "init" and "--from" in args:
            after = args.index("--from") + 1
            if after == len(args) or args[after].startswith("-"):
                args = [*args[:after], "", *args[after:]]
        try:
            return super().make_context(info_name, args, *arguments, **more)
        except TyperException as error:
            error.message = error.message.replace("Value error, ", "")
            raise


class VerbGroup(TyperGroup):
    """Command group that imports the module of a command only when the command is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands in the order of ``--help``."""
        del ctx
        return list(verbs())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import and return the command of this name; None if the name is unknown."""
        del ctx
        verb = VERBS.get(cmd_name) or FURTHER.get(cmd_name)
        if verb is None:
            return None
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(cmd_name, cls=VerbCommand)(_without_access_checks(load(verb.place)))
        command = typer.main.get_command(single)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Add the list of commands with their summaries to the help text."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.summary) for name, verb in verbs().items()])


def _without_access_checks(verb: Callable[..., None]) -> Callable[..., None]:
    """Disable Typer's check that a path is readable; storlab's own error names a fix.

    Typer's error would have exit code 2 (usage), but for studies and results storlab has others.
    """
    hints = get_type_hints(verb, include_extras=True)
    for hint in hints.values():
        for info in getattr(hint, "__metadata__", ()):
            if isinstance(info, ParameterInfo):
                info.readable = False
    # Typer would evaluate annotations that are strings again, and so undo the change.
    verb.__annotations__ = hints
    return verb


app = typer.Typer(
    cls=VerbGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from storlab import __version__

        typer.echo(f"storlab {__version__}")
        raise typer.Exit


@app.callback()
def storlab(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """Which storage should this workload run on, by how much, and how sure are we?"""
    del version


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the given arguments (by default those of the process); return the exit code."""
    stdout = sys.stdout
    try:
        code = _code_of(_with_verb(list(sys.argv[1:] if arguments is None else arguments)))
        stdout.flush()
    except BrokenPipeError:
        return _leave_pipe()
    closed = sys.stdout is not stdout  # Typer has replaced stdout and would return 1
    return _leave_pipe() if closed else code


def _with_verb(given: list[str]) -> list[str]:
    """Insert the command ``try`` if the first argument is no command but looks like storage.

    It does if it contains a slash or is the name of an existing file. A mistyped command does not,
    so that Typer's suggestion is printed.
    """
    first = given[0] if given else ""
    is_place = "/" in first or os.path.lexists(first)
    if not is_place or first.startswith("-") or first in verbs():
        return given
    return ["try", *given]


def _code_of(given: list[str]) -> int:
    as_json = "--json" in given
    try:
        # Typer's standalone mode can report a wrong command line only as text, not as JSON.
        code = app(args=given, prog_name="storlab", standalone_mode=not as_json)
    except StorlabError as error:
        _report(error, as_json)
        return int(error.exit_code)
    except OSError as error:
        if error.filename is None:  # concerns no path of the user: a broken pipe, or a defect
            raise
        refused = _path_error(error)
        _report(refused, as_json)
        return int(refused.exit_code)
    except TyperException as error:
        _report(_usage_error(error, given), as_json)
        return int(ExitCode.USAGE)
    except KeyboardInterrupt:
        return _interrupted()
    except SystemExit as end:
        code = end.code
    if code == _TYPER_INTERRUPTED:
        return _interrupted()
    return code if isinstance(code, int) else int(ExitCode.OK)


def _path_error(error: OSError) -> StorlabError:
    """Make a StorlabError with a fix from an OSError about a path that a command did not handle."""
    from storlab.base.files import path_error
    from storlab.results.files import is_in_result, unreadable

    path = Path(os.fsdecode(error.filename))
    return unreadable(path, error) if is_in_result(path) else path_error(error)


def _report(error: StorlabError, as_json: bool) -> None:
    from storlab.cli.common import report_error

    report_error(error, as_json)


def _leave_pipe() -> int:
    from storlab.cli.consoles import leave_pipe

    return leave_pipe()


def _usage_error(error: TyperException, given: Sequence[str]) -> UsageError:
    verb = next((word for word in given if word in verbs()), "")
    help_of = " ".join(filter(None, ("storlab", verb, "--help")))
    what = error.format_message().strip()
    return UsageError("command line", what, f"see `{help_of}`")


def _interrupted() -> int:
    from storlab.cli.consoles import log

    log.print("interrupted")
    return int(ExitCode.INTERRUPTED)
