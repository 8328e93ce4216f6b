from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storlab.base.errors import StorlabError, StudyError
from storlab.cluster.hosts import expand, from_slurm, read_hostfile

_PREFIX = st.from_regex(r"[a-z][a-z0-9-]{0,6}[a-z]", fullmatch=True)
_NAME = st.from_regex(r"[a-z][a-z0-9.-]{0,9}", fullmatch=True)


@given(_PREFIX, st.integers(0, 5000), st.integers(0, 50), st.integers(0, 6))
def test_a_range_gives_every_number_once_in_order_and_width(
    prefix: str, low: int, more: int, width: int
) -> None:
    first, last = str(low).zfill(width), str(low + more).zfill(width)
    if len(first) != len(last) and "0" in (first[0], last[0]):
        with pytest.raises(StudyError, match="digits"):
            expand([f"{prefix}[{first}-{last}]"])
        return
    hosts = expand([f"{prefix}[{first}-{last}]"])
    assert [int(host.removeprefix(prefix)) for host in hosts] == list(range(low, low + more + 1))
    assert all(len(host) >= len(prefix) + len(first) for host in hosts)


@given(_PREFIX, st.sets(st.integers(1, 3000), min_size=1, max_size=60))
def test_a_folded_list_unfolds_to_what_it_was(prefix: str, chosen: set[int]) -> None:
    runs = itertools.groupby(enumerate(sorted(chosen)), key=lambda pair: pair[1] - pair[0])
    spans = [[number for _, number in run] for _, run in runs]
    folded = ",".join(f"{s[0]}-{s[-1]}" if len(s) > 1 else str(s[0]) for s in spans)
    names = [f"{prefix}{number}" for number in sorted(chosen)]
    assert expand([f"{prefix}[{folded}]"]) == names
    assert [h.name for h in read_hostfile(f"{prefix}[{folded}]")] == names
    assert [h.name for h in from_slurm({"SLURM_JOB_NODELIST": f"{prefix}[{folded}]"})] == names


@given(st.lists(st.tuples(_NAME, st.integers(1, 9)), min_size=1, unique_by=lambda h: h[0]))
def test_the_forms_of_host_files_agree(hosts: list[tuple[str, int]]) -> None:
    forms = ("{0}:{1}", "{0} slots={1}", "{0} {1}")
    read = [read_hostfile("\n".join(form.format(*host) for host in hosts)) for form in forms]
    read.append(read_hostfile("\n".join(f"{n}\n" * slots for n, slots in hosts)))
    for found in read:
        assert [(host.name, host.slots or 1) for host in found] == hosts


@given(st.text(st.sampled_from("c1[]-,: =#\tslotx09()"), max_size=30))
def test_any_text_gives_distinct_names_or_an_error_with_a_fix(text: str) -> None:
    for read in (lambda: expand([text]), lambda: [h.name for h in read_hostfile(text)]):
        try:
            hosts = read()
        except StorlabError as error:
            assert error.what
            assert error.fix
        else:
            assert hosts
            assert len(set(hosts)) == len(hosts)
            assert all(host[0].isalnum() and host.isascii() for host in hosts)
