"""S3 targets of a study file: refusals, and no secrets."""

from __future__ import annotations

import pytest

from storlab.base.errors import StudyError
from storlab.lab.study.file import parse_study
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


def options(lines: str, address: str = "https://h") -> str:
    return f's3 = "{address}/bucket"\ns3_options = {{ {lines} }}'


def test_virtual_addressing_needs_a_name_and_endpoints_one_scheme() -> None:
    given = options('addressing = "virtual", endpoints = ["https://h2:9000/"]')
    assert target(given).s3_options is not None
    assert target(options('addressing = "path"', "http://10.0.0.1:9000")).s3_options is not None


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('s3 = "s3.example.com/bucket"', "neither an http(s) address"),
        ('s3 = "ftp://h/bucket"', "neither an http(s) address"),
        ('s3 = "https://h:port/bucket"', "is not an address"),
        ('s3 = "https://h"', "no valid bucket name"),
        ('s3 = "https://h/Bucket_1"', "no valid bucket name"),
        ('s3 = "https://h/bucket/key"', "no valid bucket name"),
        ('s3 = "https://h/bucket?x=1"', "a query"),
        ('s3 = "embedded:"', "needs a directory"),
        ('s3 = "https://h/bucket"\npath = "x"', "a target has one of path"),
        ('s3 = "https://h/bucket"\nsize = "1GiB"', "size does not apply to an s3 target"),
        ('s3 = "https://h/bucket"\ndirect = false', "direct does not apply to an s3 target"),
        ('s3 = "https://h/bucket"\npower_state = 1', "in other machines"),
        ('s3 = "embedded:d"\ns3_options = { region = "r" }', "address, keys and bucket"),
        ('path = "x"\ns3_options = { region = "r" }', "only apply to an s3 target"),
        ('s3 = "https://h/bucket"\ns3_options = { adressing = "path" }', "addressing"),
        (options('addressing = "virtual"', "https://10.0.0.1:9000"), "10.0.0.1 is an IP address"),
        (options('addressing = "virtual"', "http://[::1]"), "::1 is an IP address"),
        (options('addressing = "virtual", endpoints = ["https://10.0.0.2"]'), "s3_options.address"),
        (options('endpoints = ["https://h2", "http://h3"]'), "s3_options.endpoints #2"),
        (options('endpoints = ["http://h2"]'), "is http, and s3 is https"),
        (options('endpoints = ["http://h2"]'), "write it like https://h"),
        (options('endpoints = ["h2"]'), "not an http"),
        (options('endpoints = ["https://h2/bucket"]'), "more than host and port"),
        (options('endpoints = ["https://h2:port"]'), "not an address"),
    ],
)
def test_what_a_store_cannot_be_is_refused_by_field(lines: str, words: str) -> None:
    with pytest.raises(StudyError) as caught:
        target(lines)
    assert words in f"{caught.value.where} {caught.value.what} {caught.value.fix}"


@pytest.mark.parametrize(
    "lines",
    [
        's3 = "https://AKIAEXAMPLE:very-secret@h/bucket"',
        's3 = "https://h/bucket"\ns3_options = { secret_key = "very-secret" }',
        's3 = "https://h/bucket"\ns3_options = { access_key = "very-secret" }',
        's3 = "https://h/bucket"\ns3_options = { endpoints = ["https://a:very-secret@h2"] }',
    ],
)
def test_credentials_in_a_study_are_refused_and_not_repeated(lines: str) -> None:
    with pytest.raises(StudyError) as caught:
        target(lines)
    text = f"{caught.value} {caught.value.where} {caught.value.what} {caught.value.fix}"
    assert "very-secret" not in text


def test_an_embedded_store_may_have_facts_of_its_drive() -> None:
    found = target('s3 = "embedded:d"\npower_state = 0\ncapacity = "1TB"\nkeep_data = true')
    assert found.is_embedded
    assert found.locations == []


@pytest.mark.parametrize(
    "field",
    [
        *("access_key", "access_key_id", "aws_access_key_id", "secret_key", "secret_access_key"),
        *("session_token", "aws_session_token", "password", "secret", "token"),
    ],
)
def test_of_a_key_in_a_study_it_is_said_where_keys_come_from(field: str) -> None:
    with pytest.raises(StudyError) as caught:
        target(f's3 = "https://h/bucket"\ns3_options = {{ {field} = "x", region = "r" }}')
    assert caught.value.where.endswith(f"s3_options.{field}")
    assert "must not hold keys" in caught.value.what
    for word in (f"remove {field}", "AWS_SECRET_ACCESS_KEY", "credentials_env", "profile"):
        assert word in caught.value.fix
