"""fio's job files and command lines, written after the sections "Job file format" of its HOWTO."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from storlab.base.errors import UsageError
from storlab.engines.fio.job_files import JobSection, calculated, read_jobs


def given(section: JobSection) -> dict[str, str | None]:
    return {setting.name: setting.value for setting in section.settings}


def job_file(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_a_global_section_applies_to_the_sections_after_it(tmp_path: Path) -> None:
    text = """\
; a comment
[global]
bs=4k   # another comment
direct=1
[first]
rw=randread

[global]
bs=8k
[second]
stonewall
rw = write
"""
    first, second = read_jobs(job_file(tmp_path / "a.fio", text))
    assert (first.name, given(first)) == ("first", {"bs": "4k", "direct": "1", "rw": "randread"})
    assert given(second) == {"bs": "8k", "direct": "1", "stonewall": None, "rw": "write"}
    assert [s.where.rpartition(":")[2] for s in second.settings] == ["3", "4", "9", "11", "12"]
    assert (first.first, second.first) == (True, False)


def test_sections_of_one_name_are_separate_jobs(tmp_path: Path) -> None:
    jobs = read_jobs(job_file(tmp_path / "a.fio", "[job]\nrw=read\n[job]\nrw=write\n"))
    assert [given(job)["rw"] for job in jobs] == ["read", "write"]


def test_an_included_file_stands_in_place_of_its_line(tmp_path: Path) -> None:
    (tmp_path / "common").mkdir()
    job_file(tmp_path / "common" / "base.fio", "direct=1\ninclude more.fio\n")
    job_file(tmp_path / "common" / "more.fio", "iodepth=4\n")
    path = job_file(tmp_path / "a.fio", "[global]\ninclude common/base.fio\nbs=4k\n[x]\nrw=read\n")
    (job,) = read_jobs(path)
    assert given(job) == {"direct": "1", "iodepth": "4", "bs": "4k", "rw": "read"}
    assert job.settings[1].where == f"{tmp_path / 'common' / 'more.fio'}:1"


def test_variables_come_from_the_environment_and_the_machine(tmp_path: Path) -> None:
    text = "[x]\nfilename=${DISK}p1\niodepth=${DEPTH}\nsize=8*$mb_memory\nbs=$pagesize\n"
    text += "numjobs=2*$ncpus\nio_size=(2*(3+4)-2^2)\nruntime=(3*1000)\n"
    (job,) = read_jobs(job_file(tmp_path / "a.fio", text), {"DISK": "/dev/vdb"})
    pages = os.sysconf("SC_PAGESIZE")
    memory = os.sysconf("SC_PHYS_PAGES") * pages // 2**20
    assert given(job) == {
        "filename": "/dev/vdbp1",
        "iodepth": "",
        "size": str(8 * memory),
        "bs": str(pages),
        "numjobs": str(2 * (os.cpu_count() or 1)),
        "io_size": "10",
        "runtime": "3000us",
    }
    assert [s.missing for s in job.settings[:2]] == [(), ("DEPTH",)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2+3*4", "14"),
        ("(2+3)*4", "20"),
        ("7/2", "3"),
        ("7%4", "3"),
        ("2^3^2", "512"),
        ("4k*2", "4k*2"),
        ("1/0", "1/0"),
        ("(1+2", "(1+2"),
        ("9^9^9", "9^9^9"),
        ("", ""),
    ],
)
def test_expressions_of_whole_numbers(text: str, value: str) -> None:
    assert calculated(text) == value


def test_a_command_line_has_global_options_before_the_first_name() -> None:
    line = (
        "sudo DEPTH=9 fio --direct=1 --output=x.json --name=a --rw randread --time_based "
        "--iodepth='${DEPTH}' \\\n  --name b -bs=8k -thread --minimal > out.txt 2>&1"
    )
    first, second = read_jobs(line)
    assert (first.name, second.name) == ("a", "b")
    assert given(first) == {"direct": "1", "rw": "randread", "time_based": None, "iodepth": "9"}
    assert given(second) == {"direct": "1", "bs": "8k", "thread": None}


def test_what_a_shell_does_around_the_command_is_left_out() -> None:
    (job,) = read_jobs(
        "sync;/usr/bin/fio --name=a --filename=$DISK/f \u2013bs=4k 2>/dev/null | cat"
    )
    assert given(job) == {"filename": "/f", "bs": "4k"}
    assert job.settings[0].missing == ("DISK",)
    for line in ("fio --name=a; fio --name=b", "fio --name=a --numjobs=$(nproc)"):
        with pytest.raises(UsageError) as error:
            read_jobs(line)
        assert error.value.fix


def test_a_command_line_runs_chosen_sections_of_a_file(tmp_path: Path) -> None:
    path = job_file(tmp_path / "a.fio", "[a]\nrw=read\n[b]\nrw=write\n")
    (job,) = read_jobs(f"fio --bs=16k --section=b {path}")
    assert (job.name, given(job)) == ("b", {"bs": "16k", "rw": "write"})


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("rw=read\n", "1"),
        ("[x]\n\n[y\nrw=read\n", "3"),
        ("[x]\ninclude missing.fio\n", "2"),
        ("[x]\nrw=read\ninclude a.fio\n", "1"),  # itself, which has a section in line 1
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, text: str, line: str) -> None:
    path = job_file(tmp_path / "a.fio", text)
    with pytest.raises(UsageError) as error:
        read_jobs(path)
    assert error.value.where == f"{path}:{line}"
    assert error.value.fix


def test_what_is_no_job_file_is_refused(tmp_path: Path) -> None:
    binary = tmp_path / "b.fio"
    binary.write_bytes(b"\xff\xfe\x00[")
    for value in (str(tmp_path / "none.fio"), str(binary), "fio --name='x", "fio --name"):
        with pytest.raises(UsageError) as error:
            read_jobs(value)
        assert error.value.fix
