"""Credentials come from the AWS tools' places, in their order, and are never printed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from storlab.base.errors import PreflightError
from storlab.model.s3 import Credentials
from storlab.model.target import Target
from storlab.stores.s3.credentials import read_profile, resolve

SECRET = "wJalr/XUtnFEMI+K7=MDENG%bPxRfiCY:EX;AMPLE#KEY"


@pytest.fixture(autouse=True)
def nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("AWS_", "SSD_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")  # no network requests in tests


def target(**options: object) -> Target:
    fields = {"name": "SSD", "s3": "https://s3.example.com/bench", "s3_options": options or None}
    return Target.model_validate({key: value for key, value in fields.items() if value is not None})


def write(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / ".aws" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def keys_of(access: str, secret: str = SECRET, token: str | None = None) -> Credentials:
    return Credentials(access, secret, token)


def found(tmp_path: Path, **options: object) -> tuple[Credentials | None, str]:
    return resolve(target(**options), tmp_path)


def refused(tmp_path: Path, **options: object) -> str:
    with pytest.raises(PreflightError) as caught:
        found(tmp_path, **options)
    assert caught.value.where == "target SSD"
    assert caught.value.fix
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_a_token_says_where_it_belongs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSD_ACCESS_KEY_ID", "SSD_SECRET_ACCESS_KEY", "SSD_SESSION_TOKEN"):
        monkeypatch.setenv(name, "x")
    keys, _ = found(tmp_path, credentials_env="SSD")
    assert keys is not None
    assert keys.token_place == "SSD_SESSION_TOKEN"
    write(tmp_path, "credentials", "[p]\naws_access_key_id=a\naws_secret_access_key=b\n")
    keys, _ = found(tmp_path, profile="p")
    assert keys is not None
    assert keys.token_place == 'aws_session_token of profile "p"'
    assert "token_place" not in keys.as_dict()


def test_the_variables_of_aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", f"{SECRET}\n")
    assert found(tmp_path) == (keys_of("AKID"), "us-east-1")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    assert found(tmp_path) == (keys_of("AKID", token="token"), "eu-west-1")
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    assert found(tmp_path)[1] == "eu-north-1"
    assert found(tmp_path, region="local")[1] == "local"


def test_variables_of_a_prefix_of_ones_own_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "other")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "other")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "other")
    reason = refused(tmp_path, credentials_env="SSD")
    assert "SSD_ACCESS_KEY_ID" in reason
    assert "SSD_SECRET_ACCESS_KEY" in reason
    monkeypatch.setenv("SSD_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("SSD_SECRET_ACCESS_KEY", SECRET)
    assert found(tmp_path, credentials_env="SSD") == (keys_of("AKID"), "us-east-1")
    monkeypatch.setenv("SSD_SESSION_TOKEN", "token")
    monkeypatch.setenv("SSD_REGION", "here")
    assert found(tmp_path, credentials_env="SSD") == (keys_of("AKID", token="token"), "here")


PROFILES = f"""\
# a comment
[default]
aws_access_key_id = AKIDDEFAULT
aws_secret_access_key={SECRET}

[store]
AWS_ACCESS_KEY_ID = AKIDSTORE
aws_secret_access_key = {SECRET}
aws_session_token = token
"""
CONFIG = """\
[default]
region = eu-west-1
s3 =
    max_concurrent_requests = 10
[profile store]
region = eu-west-2
aws_access_key_id = hidden behind the credentials file
[profile "two words"]
region = eu-west-3
[store]
region = not a profile of the config file
"""


def test_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "credentials", PROFILES)
    write(tmp_path, "config", CONFIG)
    assert found(tmp_path) == (keys_of("AKIDDEFAULT"), "eu-west-1")
    store = (keys_of("AKIDSTORE", token="token"), "eu-west-2")
    assert found(tmp_path, profile="store") == store
    monkeypatch.setenv("AWS_PROFILE", "store")
    assert found(tmp_path) == store
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "from the environment")
    assert found(tmp_path)[0] == keys_of("AKID", "from the environment")
    assert found(tmp_path)[1] == "eu-west-2"
    assert found(tmp_path, profile="default")[0] == keys_of("AKIDDEFAULT")


def test_files_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keys").write_text(PROFILES, encoding="utf-8-sig")
    (tmp_path / "conf").write_text(CONFIG)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "keys")  # relative to the study's base
    monkeypatch.setenv("AWS_CONFIG_FILE", "~/conf")
    assert found(tmp_path, profile="store")[1] == "eu-west-2"
    assert found(tmp_path)[0] == keys_of("AKIDDEFAULT")


def test_the_sections_of_each_file(tmp_path: Path) -> None:
    write(tmp_path, "credentials", PROFILES)
    write(tmp_path, "config", CONFIG)
    place = tmp_path / ".aws"

    def read(name: str) -> dict[str, str]:
        return read_profile(name, place / "credentials", place / "config", "target SSD")

    assert read("two words") == {"region": "eu-west-3"}
    assert read("store")["aws_access_key_id"] == "AKIDSTORE"
    assert read("profile store") == {}
    assert read("nobody") == {}


def test_nothing_anywhere_names_all_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "mine")
    reason = refused(tmp_path)
    places = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", '"mine"')
    for place in (*places, str(tmp_path / ".aws/credentials"), str(tmp_path / ".aws/config")):
        assert place in reason
    assert '"store"' in refused(tmp_path, profile="store")


@pytest.mark.parametrize("prefix", ["AWS", "SSD"])
@pytest.mark.parametrize("half", ["ACCESS_KEY_ID", "SECRET_ACCESS_KEY"])
def test_half_a_pair_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str, half: str
) -> None:
    write(tmp_path, "credentials", PROFILES)
    monkeypatch.setenv(f"{prefix}_{half}", SECRET)
    other = {"ACCESS_KEY_ID": "SECRET_ACCESS_KEY", "SECRET_ACCESS_KEY": "ACCESS_KEY_ID"}[half]
    options = {} if prefix == "AWS" else {"credentials_env": prefix}
    reason = refused(tmp_path, **options)
    assert f"has {prefix}_{half} but not {prefix}_{other}" in reason


def test_half_a_pair_in_a_profile(tmp_path: Path) -> None:
    write(tmp_path, "credentials", f"[default]\naws_secret_access_key = {SECRET}\n")
    assert "aws_access_key_id" in refused(tmp_path)


@pytest.mark.parametrize(
    ("text", "line"),
    [(f"{SECRET}\n", "line 1"), (f"[default]\n= {SECRET}\n", "line 2")],
)
def test_a_broken_file_is_named_without_its_content(tmp_path: Path, text: str, line: str) -> None:
    write(tmp_path, "credentials", text)
    reason = refused(tmp_path)
    assert str(tmp_path / ".aws/credentials") in reason
    assert line in reason


def test_no_exception_behind_the_error_holds_the_secret(tmp_path: Path) -> None:
    write(tmp_path, "credentials", f"{SECRET}\n")
    with pytest.raises(PreflightError) as caught:
        found(tmp_path)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    write(tmp_path, "credentials", "")
    (tmp_path / ".aws/credentials").write_bytes(b"[default]\n\xff\xfe = 1\n")
    assert "UTF-8" in refused(tmp_path)


def test_without_botocore_a_profile_that_needs_it_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    write(tmp_path, "config", "[profile corp]\nsso_session = corp\nregion = eu-west-1\n")
    reason = refused(tmp_path, profile="corp")
    assert "sso_session" in reason
    assert "aws configure export-credentials --profile corp" in reason
    assert "storlab[aws]" in reason


PROGRAM = """\
#!/bin/sh
echo "$1" >> "$(dirname "$0")/calls"
echo 'no word of this: {secret}' >&2
{prints}
"""
KEYS = """cat <<'END'
{{"Version": 1, "AccessKeyId": "AKPROCESS", "SecretAccessKey": "{secret}", "SessionToken": "t/1+="}}
END"""


def program(tmp_path: Path, prints: str, profile: str = "profile corp") -> Path:
    """Write a profile's credential_process; return the file that records its calls."""
    script = tmp_path / "keys of corp"
    script.write_text(PROGRAM.format(secret=SECRET, prints=prints.format(secret=SECRET)))
    script.chmod(0o755)
    lines = f"credential_process = '{script}' ssd\nregion = eu-west-3\n"
    write(tmp_path, "config", f"[{profile}]\n{lines}")
    return tmp_path / "calls"


def test_a_profiles_program_gives_its_keys(tmp_path: Path) -> None:
    calls = program(tmp_path, KEYS)
    keys, region = found(tmp_path, profile="corp")
    assert keys == keys_of("AKPROCESS", token="t/1+=")
    assert keys is not None
    assert "corp" in keys.token_place
    assert region == "eu-west-3"
    assert calls.read_text() == "ssd\n"


def test_the_default_profiles_program_is_asked_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = program(tmp_path, KEYS, "default")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    assert found(tmp_path) == (keys_of("AKENV"), "eu-west-3")
    assert not calls.exists()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert found(tmp_path) == (keys_of("AKPROCESS", token="t/1+="), "eu-west-3")


def test_keys_in_a_profile_are_taken_before_its_program(tmp_path: Path) -> None:
    calls = program(tmp_path, KEYS)
    write(tmp_path, "credentials", f"[corp]\naws_access_key_id=A\naws_secret_access_key={SECRET}\n")
    assert found(tmp_path, profile="corp")[0] == keys_of("A")
    assert not calls.exists()


def test_files_of_other_names_reach_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, KEYS)
    (tmp_path / ".aws/config").rename(tmp_path / "mine")
    monkeypatch.setenv("AWS_CONFIG_FILE", "mine")  # relative to the study
    assert found(tmp_path, profile="corp")[0] == keys_of("AKPROCESS", token="t/1+=")


@pytest.mark.parametrize(
    "prints", ["exit 3", "echo '{secret}'", 'echo \'{{"Version": 1, "AccessKeyId": "{secret}"}}\'']
)
def test_a_program_that_fails_is_told_without_its_words(tmp_path: Path, prints: str) -> None:
    program(tmp_path, prints)
    with pytest.raises(PreflightError) as caught:
        found(tmp_path, profile="corp")
    assert caught.value.__cause__ is None
    reason = refused(tmp_path, profile="corp")
    assert 'profile "corp"' in reason
    assert "aws sts get-caller-identity --profile corp" in reason


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    program(tmp_path, KEYS)
    (tmp_path / "keys of corp").unlink()
    assert "its program failed" in refused(tmp_path, profile="corp")


def test_a_login_that_is_missing_is_told(tmp_path: Path) -> None:
    write(
        tmp_path,
        "config",
        "[profile corp]\nsso_session = corp\nsso_account_id = 1\nsso_role_name = r\n"
        "[sso-session corp]\nsso_region = eu-west-1\nsso_start_url = https://corp.example.com\n",
    )
    assert "aws sso login" in refused(tmp_path, profile="corp")


def test_no_command_imports_botocore(tmp_path: Path) -> None:
    code = "import sys, storlab.stores.s3.target; sys.exit('botocore' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_storlabs_own_server_needs_none(tmp_path: Path) -> None:
    embedded = Target(name="SSD", s3="embedded:objects")
    assert resolve(embedded, tmp_path) == (None, "us-east-1")
