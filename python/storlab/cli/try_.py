"""Implementation of the ``storlab try`` command."""

from __future__ import annotations

from typing import Annotated

import typer

from storlab.cli import terminal
from storlab.cli.common import (
    JsonOption,
    LiveOption,
    LivePortOption,
    NoReportOption,
    OutOption,
    QuietOption,
)


def try_(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="PLACE...",
            help="Directory, file, block device or bucket (s3://NAME, https://HOST/NAME).",
        ),
    ],
    seconds: Annotated[
        int,
        typer.Option("--seconds", metavar="S", min=1, max=86_400, help="Time for each place."),
    ] = 30,
    published: Annotated[
        list[str] | None,
        typer.Option(
            "--published",
            metavar="TABLE",
            help="Numbers of a data sheet, as a CSV file or a name of `storlab published`, to show "
            "beside the measured ones; may be repeated.",
        ),
    ] = None,
    out: OutOption = None,
    no_report: NoReportOption = False,
    live: LiveOption = False,
    live_port: LivePortOption = 0,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure paths, devices or buckets in short runs, and say which is better at what.

    Paths get random 4 KiB I/O (reads, 70 % reads, writes; 1 and 32 in flight) and sequential 1 MiB
    I/O, buckets GETs and PUTs of 64 KiB and 4 MiB. In a directory storlab makes a data file and
    removes it; in a bucket it uses a prefix of its own. Block devices and existing files are only
    read. One place alone is measured; of several, each is compared with the last. The study that
    ran is stored with the results, to be edited and run again. `storlab A B` is short for
    `storlab try A B`. S3 addresses and keys are those of the AWS tools: AWS_ENDPOINT_URL,
    AWS_ACCESS_KEY_ID, profiles.

    Example: storlab try /mnt/a /mnt/b --seconds 60
    """
    from storlab.cli.campaign import execute, new_directory
    from storlab.cli.compare import print_short
    from storlab.lab.plan.plan import make_plan
    from storlab.lab.study.short_study import short_study

    directory = out or new_directory(f"try {' '.join(places)}")
    file = directory / "study.toml"
    is_new = not file.exists()
    loaded = short_study(places, seconds, file, published or ())
    try:
        execute(
            loaded,
            make_plan(loaded),
            directory,
            clean=True,
            report=not no_report,
            live=live,
            live_port=live_port,
            quiet=quiet,
            as_json=as_json,
            tables=lambda comparison: print_short(comparison, comparison),
        )
    finally:
        if is_new and file.exists() and not as_json:
            terminal.out.print(f"study: {file}, ready to edit and run again", soft_wrap=True)
