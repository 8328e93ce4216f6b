"""S3 targets of a study file: what is refused, and that no secret gets in."""

from __future__ import annotations

import pytest

from storlab.base.errors import StudyError
from storlab.lab.study_file import parse_study
from storlab.model.study import Target

STUDY = """
[study]
name = "s"
[[target]]
name = "t"
{target}
[[workload]]
kind = "object"
"""


def target(lines: str) -> Target:
    return parse_study(STUDY.format(target=lines)).target[0]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('s3 = "s3.example.com/bucket"', "neither an http(s) address"),
        ('s3 = "ftp://h/bucket"', "neither an http(s) address"),
        ('s3 = "https://h:port/bucket"', "is not an address"),
        ('s3 = "https://h"', "names no bucket"),
        ('s3 = "https://h/Bucket_1"', "names no bucket"),
        ('s3 = "https://h/bucket/key"', "names no bucket"),
        ('s3 = "https://h/bucket?x=1"', "a query"),
        ('s3 = "embedded:"', "needs a directory"),
        ('s3 = "https://h/bucket"\npath = "x"', "a target has one of path"),
        ('s3 = "https://h/bucket"\nsize = "1GiB"', "size says nothing of an s3 target"),
        ('s3 = "https://h/bucket"\ndirect = false', "direct says nothing of an s3 target"),
        ('s3 = "https://h/bucket"\npower_state = 1', "not of this machine"),
        ('s3 = "embedded:d"\ns3_options = { region = "r" }', "its own address, keys and bucket"),
        ('path = "x"\ns3_options = { region = "r" }', "only an s3 target has them"),
        ('s3 = "https://h/bucket"\ns3_options = { adressing = "path" }', "addressing"),
    ],
)
def test_what_a_store_cannot_be_is_refused_by_field(lines: str, words: str) -> None:
    with pytest.raises(StudyError) as caught:
        target(lines)
    assert words in f"{caught.value.what} {caught.value.fix}"


@pytest.mark.parametrize(
    "lines",
    [
        's3 = "https://AKIAEXAMPLE:very-secret@h/bucket"',
        's3 = "https://h/bucket"\ns3_options = { secret_key = "very-secret" }',
        's3 = "https://h/bucket"\ns3_options = { access_key = "very-secret" }',
    ],
)
def test_credentials_in_a_study_are_refused_and_not_repeated(lines: str) -> None:
    with pytest.raises(StudyError) as caught:
        target(lines)
    said = f"{caught.value} {caught.value.where} {caught.value.what} {caught.value.fix}"
    assert "very-secret" not in said


def test_an_embedded_store_may_have_facts_of_its_drive() -> None:
    found = target('s3 = "embedded:d"\npower_state = 0\ncapacity = "1TB"\nkeep_data = true')
    assert found.is_embedded
    assert found.locations == []
