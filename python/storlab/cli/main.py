"""The ``storlab`` command: finds the verbs, and turns errors into messages and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from storlab import __version__
from storlab.base.errors import ExitCode, StorlabError, UsageError
from storlab.cli.common import leave_pipe, log, report_error

VERBS: dict[str, str] = {
    "init": "storlab.cli.init:init",
    "schema": "storlab.cli.schema:schema",
    "plan": "storlab.cli.plan:plan",
    "doctor": "storlab.cli.doctor:doctor",
    "meters": "storlab.cli.meters:meters",
    "run": "storlab.cli.run:run",
    "resume": "storlab.cli.resume:resume",
    "status": "storlab.cli.status:status",
    "compare": "storlab.cli.compare:compare",
    "report": "storlab.cli.report:report",
    "export": "storlab.cli.export:export",
    "import": "storlab.cli.import_:import_",
    "crosscheck": "storlab.cli.crosscheck:crosscheck",
    "capacity": "storlab.cli.capacity:capacity",
    "preprocess": "storlab.cli.preprocess:preprocess",
    "clean": "storlab.cli.clean:clean",
    "verify": "storlab.cli.verify:verify",
    "audit": "storlab.cli.audit:audit",
    "published": "storlab.cli.published:published",
}
"""Name of each verb, in the order of ``--help``, and the function that does it."""

EXIT_CODES = """\b
Exit codes (stable):
   0  done
   1  a defect of storlab itself
   2  the command line is wrong
   3  the study file is wrong
   4  this machine cannot run the study as it stands
   5  refused: the target might hold somebody's data
   6  the campaign went to its end, and at least one run failed
   7  interrupted; storlab resume goes on
   8  a result directory is missing, incomplete or damaged
   9  an engine is missing, too old, or cannot do what was asked
  10  the verdict is "no" (crosscheck, verify, audit), or a run found wrong data
  11  storlab's own brief contradicts its runs, and was not written

\b
Example:
  storlab init study.toml
  storlab plan study.toml
  storlab run study.toml
"""

_TYPER_INTERRUPTED = 130  # what Typer makes of KeyboardInterrupt


class VerbGroup(TyperGroup):
    """Imports a verb when it is used, so that a light verb does not load what a heavy one needs."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The verbs, in the order of the table."""
        del ctx
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a verb, or None for a name that is not in the table."""
        del ctx
        place = VERBS.get(cmd_name)
        if place is None:
            return None
        module, _, function = place.partition(":")
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(cmd_name)(getattr(import_module(module), function))
        command = typer.main.get_command(single)
        command.name = cmd_name
        return command


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
    """Run the command; returns its exit code. ``arguments`` are those of the process by default."""
    stdout = sys.stdout
    try:
        code = _code_of(list(sys.argv[1:] if arguments is None else arguments))
        stdout.flush()
    except BrokenPipeError:
        return leave_pipe()
    closed = sys.stdout is not stdout  # Typer has put something else there, and says 1
    return leave_pipe() if closed else code


def _code_of(given: list[str]) -> int:
    as_json = "--json" in given
    try:
        # By itself Typer tells a wrong command line as text only.
        code = app(args=given, prog_name="storlab", standalone_mode=not as_json)
    except StorlabError as error:
        report_error(error, as_json)
        return int(error.exit_code)
    except TyperException as error:
        report_error(_usage_error(error, given), as_json)
        return int(ExitCode.USAGE)
    except KeyboardInterrupt:
        return _interrupted()
    except SystemExit as end:
        code = end.code
    if code == _TYPER_INTERRUPTED:
        return _interrupted()
    return code if isinstance(code, int) else int(ExitCode.OK)


def _usage_error(error: TyperException, given: Sequence[str]) -> UsageError:
    verb = next((word for word in given if word in VERBS), "")
    help_of = " ".join(filter(None, ("storlab", verb, "--help")))
    what = error.format_message().strip()
    return UsageError("command line", what, f"see `{help_of}`")


def _interrupted() -> int:
    log.print("interrupted")
    return int(ExitCode.INTERRUPTED)
