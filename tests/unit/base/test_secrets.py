"""Secrets come from the environment or a keyring, never from studies or into messages."""

from __future__ import annotations

from collections.abc import Iterator

import keyring
import keyring.backend
import pytest
from keyring.errors import KeyringLocked

from storlab.base.errors import PreflightError, StudyError
from storlab.base.secrets import hide, secret, secret_problems
from storlab.lab.study.file import parse_study

NAME = "STORLAB_TEST_SECRET"
STUDY = """\
[study]
name = "s"

[[target]]
name = "a"
path = "null:"
meters = [{ kind = "redfish", url = "https://bmc", %s }]

[[workload]]
kind = "block"
"""


class Memory(keyring.backend.KeyringBackend):
    """In-memory keyring."""

    priority = 1  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[tuple[str, str], str] = {}
        self.is_locked = False

    def get_password(self, service: str, username: str) -> str | None:
        if self.is_locked:
            raise KeyringLocked("locked")
        return self.held.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.held[service, username] = password


@pytest.fixture
def ring(monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    monkeypatch.delenv(NAME, raising=False)
    before = keyring.get_keyring()
    memory = Memory()
    keyring.set_keyring(memory)
    yield memory
    keyring.set_keyring(before)


def test_the_environment_comes_first(ring: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    ring.held["storlab", NAME] = "from the keyring"
    assert secret(NAME) == "from the keyring"
    monkeypatch.setenv(NAME, "")
    assert secret(NAME) == "from the keyring"  # an empty variable does not count
    monkeypatch.setenv(NAME, "from the environment")
    assert secret(NAME) == "from the environment"


@pytest.mark.parametrize("is_locked", [False, True])
def test_a_secret_that_is_nowhere(ring: Memory, is_locked: bool) -> None:
    ring.held["another program", NAME] = "not ours"
    ring.is_locked = is_locked
    with pytest.raises(PreflightError) as caught:
        secret(NAME)
    assert f"export {NAME}=" in caught.value.fix
    assert f"keyring set storlab {NAME}" in caught.value.fix


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        ({"password": "x"}, True),
        ({"priv_password": "x"}, True),
        ({"Password": "x"}, True),
        ({"community": "public"}, True),
        ({"api_key": "x"}, True),
        ({"secret_key": "x"}, True),
        ({"aws_access_key_id": "x"}, True),
        ({"keys": "uniform"}, False),
        ({"url": "https://root:calvin@bmc/redfish"}, True),
        ({"password_env": "BMC_PASSWORD"}, False),
        ({"url": "https://root@bmc"}, False),
        ({"url": "https://[fe80::1]:443/"}, False),
        ({"url": "https://[broken"}, False),
        ({"share_rule": "bypass: 8 of 24"}, False),
        ({"bypass": 1}, False),
        ({"url": "http://node:9100/metrics?token=s3cr3t"}, True),
        ({"url": "http://node:9100/metrics?a=b&X-Amz-Signature=s3cr3t"}, True),
        ({"url": "http://node:9100/metrics?apiKey=s3cr3t"}, True),
        ({"url": "http://node:9100/metrics#access_token=s3cr3t"}, True),
        ({"url": "http://node:9100/metrics?collect[]=hwmon&signal=7&token="}, False),
        ({"labels": {"chip": "ina226", "sensor": "power1"}}, False),
        ({"headers": {"Accept": "text/plain", "Host": "node7:9100"}}, False),
        ({"scrape": ["http://a/metrics", "time: 10"]}, False),
    ],
)
def test_which_fields_hold_secrets(fields: dict[str, object], refused: bool) -> None:
    problems = secret_problems(fields)
    assert bool(problems) == refused
    assert all(problem.field == (next(iter(fields)),) for problem in problems)
    assert not any(str(v) in p.what + p.fix for p in problems for v in fields.values())


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"headers": {"Accept": "x", "Authorization": "s3cr3t"}}, ("headers", "Authorization")),
        ({"headers": {"X-Api-Key": "s3cr3t"}}, ("headers", "X-Api-Key")),
        ({"headers": {"X-Mine": "Bearer s3cr3t"}}, ("headers", "X-Mine")),
        ({"headers": ["Accept: x", "Cookie: id=s3cr3t"]}, ("headers", 1)),
        ({"deep": {"er": [{"password": "s3cr3t"}]}}, ("deep", "er", 0, "password")),
        ({"more": {"url": "https://me:s3cr3t@bmc"}}, ("more", "url")),
    ],
)
def test_secrets_in_tables_and_lists_are_found(
    fields: dict[str, object], place: tuple[str | int, ...]
) -> None:
    (problem,) = secret_problems(fields)
    assert problem.field == place
    assert "s3cr3t" not in problem.what + problem.fix


@pytest.mark.parametrize(
    "field",
    [
        'url = "http://node7/metrics?token=calvin"',
        'headers = { Authorization = "Bearer calvin" }',
    ],
)
def test_a_study_with_a_secret_below_a_field_is_refused_too(field: str) -> None:
    with pytest.raises(StudyError) as caught:
        parse_study(STUDY % field, "s.toml")
    assert "calvin" not in str(caught.value)


@pytest.mark.parametrize("field", ['password = "calvin"', 'proxy = "http://me:calvin@proxy"'])
def test_a_study_with_a_secret_is_refused_before_anything_is_written(field: str) -> None:
    with pytest.raises(StudyError) as caught:
        parse_study(STUDY % field, "s.toml")
    assert "password_env" in str(caught.value)
    assert "calvin" not in str(caught.value)
    assert caught.value.problems[0]["line"] == 7


def test_messages_are_cleaned_of_the_longest_secret_first() -> None:
    assert hide("tried abc and abcdef", ["abc", "", "abcdef"]) == "tried *** and ***"
