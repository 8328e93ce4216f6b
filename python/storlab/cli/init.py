"""Implementation of the ``storlab init`` command."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, get_type_hints

import typer

from storlab.base.errors import UsageError
from storlab.base.files import shell_word
from storlab.cli import completion, terminal
from storlab.cli.common import JsonOption, emit_json
from storlab.contracts.registry import TRANSLATORS

_STDOUT = Path("-")


def _with_translators(verb: Callable[..., None]) -> Callable[..., None]:
    """Add an option ``--from-NAME`` for each registered translator to the verb's signature."""
    hints = get_type_hints(verb, include_extras=True)
    parameters = [
        parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(verb).parameters.items()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    for name, translator in TRANSLATORS.items():
        option = typer.Option(f"--from-{name}", metavar=translator.metavar, help=translator.help)
        parameters.append(
            inspect.Parameter(
                f"from_{name}",
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[list[str] | None, option],
            )
        )
    signature = inspect.Signature(parameters, return_annotation=None)
    # Typer reads both: the order and defaults from the signature, the options from annotations.
    verb.__signature__ = signature  # type: ignore[attr-defined]
    verb.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
    return verb


@_with_translators
def init(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="File to write; - is stdout. Missing folders are made.",
            show_default=True,
        ),
    ] = Path("study.toml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    template: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="NAME",
            help="Write this template, such as nvme; without NAME, list all templates.",
            autocompletion=completion.among("storlab.lab.study.templates:template_names"),
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Write the short form: runs of seconds, little data.")
    ] = False,
    as_json: JsonOption = False,
    **jobs: list[str] | None,
) -> None:
    """Write a commented study: a template, or one for the devices of this machine.

    The study for this machine can be run unchanged: its targets are a file on the file system with
    the most free space, and a file in memory. Block devices are listed in comments and are not
    written to. A template, by --from NAME, needs your paths in place of FILL-IN. `storlab init
    --from` lists all: common tasks, and published studies.

    With an option --from-... the study holds the jobs of another tool instead. What a study cannot
    express is printed, and stands at the top of the study.

    Example: storlab init --from nvme study.toml
    """
    given = {name.removeprefix("from_"): values for name, values in jobs.items() if values}
    if given and (template is not None or quick):
        option = "--quick" if template is None else "--from"
        what = f"does not apply to jobs of other tools (--from-{next(iter(given))})"
        raise UsageError(option, what, f"remove {option}")
    if template == "":
        _list_templates(as_json)
        return
    if file != _STDOUT:
        _check_free(file, force)
    elif as_json:
        what = "the study and JSON would both be written to stdout"
        raise UsageError("--json", what, "omit --json, or name a file for the study")
    if given:
        _write_translated(file, given, as_json, force=force)
    elif template is not None:
        _write_template(file, template, as_json, quick=quick)
    else:
        _write_starter(file, as_json, quick=quick)


def _list_templates(as_json: bool) -> None:
    from storlab.lab.study.templates import template_names, template_title

    titles = {name: template_title(name) for name in template_names()}
    if as_json:
        from storlab.cli.documents import TemplateListDocument

        emit_json(TemplateListDocument(templates=titles))
        return
    table = terminal.table("template", "study")
    for name, title in titles.items():
        table.add_row(name, title)
    terminal.out.print(table)
    terminal.out.print("next: storlab init --from NAME study.toml")


def _write(file: Path, text: str) -> bool:
    """Write a study to a file, or to stdout if its name is ``-``; return whether it is a file."""
    from storlab.base.files import write_output

    if file == _STDOUT:
        typer.echo(text, nl=False)
        return False
    write_output(file, text.encode())
    return True


def _write_template(file: Path, name: str, as_json: bool, *, quick: bool) -> None:
    from storlab.lab.study.templates import template_text

    if not _write(file, template_text(name, quick=quick)):
        return
    if as_json:
        from storlab.cli.documents import InitDocument

        emit_json(InitDocument(file=file, targets=[], devices=[]))
        return
    terminal.out.print(f"wrote {file}", soft_wrap=True)
    terminal.out.print(
        "next: write your devices, directories or addresses in place of FILL-IN, then",
        soft_wrap=True,
    )
    terminal.out.print(f"  storlab plan {shell_word(file)}", soft_wrap=True)


def _check_free(file: Path, force: bool) -> None:
    """Raise UsageError if the study would overwrite something."""
    if file.is_dir():
        raise UsageError(str(file), "is a directory", f"name a file, such as {file / 'study.toml'}")
    if not force and os.path.lexists(file):
        raise UsageError(
            str(file), "exists already", "name another file, or overwrite it with --force"
        )


def _write_translated(
    file: Path, given: Mapping[str, Sequence[str]], as_json: bool, *, force: bool
) -> None:
    from storlab.base.files import write_output
    from storlab.lab.study.translated import study_text, translate

    translation = translate(given)
    titles = [
        Path(value).name if " " not in value else f"a {name} command line"
        for name, values in given.items()
        for value in values
    ]
    text = study_text(translation, ", ".join(dict.fromkeys(titles)))
    for name in translation.files:
        _check_free(Path(name), force)
    for name, content in translation.files.items():
        write_output(Path(name), content.encode())
    if not _write(file, text):
        return
    names = [str(table.fields["name"]) for table in translation.targets]
    if as_json:
        from storlab.cli.documents import TranslatedJob, TranslatedStudyDocument, TranslationRemark

        emit_json(
            TranslatedStudyDocument(
                file=file,
                targets=names,
                workloads=[
                    TranslatedJob(name=str(table.fields["name"]), origin=table.origin)
                    for table in translation.workloads
                ],
                remarks=[TranslationRemark.model_validate(r) for r in translation.remarks],
            )
        )
        return
    for path in (str(file), *translation.files):
        terminal.out.print(f"wrote {path}", soft_wrap=True)
    for name in names:
        terminal.out.print(f"  target {name}", soft_wrap=True)
    for table in translation.workloads:
        terminal.out.print(f"  workload {table.fields['name']}: {table.origin}", soft_wrap=True)
    for remark in translation.remarks:
        terminal.out.print(f"  note: {remark.text}", soft_wrap=True)
    terminal.out.print(f"next: storlab plan {shell_word(file)}", soft_wrap=True)


def _write_starter(file: Path, as_json: bool, *, quick: bool) -> None:
    from storlab.lab.study.starter import file_targets, found_devices, starter_study, summary
    from storlab.lab.study.templates import chosen_form

    devices = found_devices()
    targets = file_targets(Path.cwd())
    text = chosen_form(starter_study(devices, targets), quick=quick)
    if not _write(file, text):
        return
    if as_json:
        from storlab.cli.documents import InitDocument, StarterDevice, StarterTarget

        emit_json(
            InitDocument(
                file=file,
                targets=[StarterTarget.model_validate(target) for target in targets],
                devices=[StarterDevice.model_validate(device) for device in devices],
            )
        )
        return
    terminal.out.print(f"wrote {file}", soft_wrap=True)
    for target in targets:
        terminal.out.print(f"  target {target.name}: {target.path}, {target.where}", soft_wrap=True)
    for line in summary(devices):
        terminal.out.print(f"  listed as a comment: {line}", soft_wrap=True)
    terminal.out.print(f"next: storlab plan {shell_word(file)}", soft_wrap=True)
