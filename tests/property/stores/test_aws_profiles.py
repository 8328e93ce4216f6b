"""Any values in AWS files are read back unchanged, and no error message contains one."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from storlab.base.errors import PreflightError
from storlab.stores.s3.credentials import read_profile

NAMES = st.text("abcdefghijklmnopqrstuvwxyzABCXYZ0123456789-_.@", min_size=1, max_size=20)
# Any character that a secret, token or foreign setting may have, without surrounding blanks.
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=60)
SETTINGS = st.dictionaries(
    st.sampled_from(["aws_access_key_id", "aws_secret_access_key", "aws_session_token", "region"]),
    VALUES,
    max_size=4,
)
PROFILES = st.dictionaries(NAMES, SETTINGS, min_size=1, max_size=4)
SPACE = st.sampled_from(["", " ", "  ", "\t"])
NOISE = st.sampled_from(["", "\n", "# note = 1\n", "; [x]\n"])


def read(place: Path, name: str) -> dict[str, str]:
    return read_profile(name, place / "credentials", place / "config", "target")


@given(PROFILES, PROFILES, st.data())
def test_both_files_give_back_what_was_written(
    keys: dict[str, dict[str, str]], config: dict[str, dict[str, str]], data: st.DataObject
) -> None:
    def text_of(profiles: dict[str, dict[str, str]], word: str) -> str:
        lines = []
        for name, settings in profiles.items():
            is_plain = word == "" or name == "default"
            lines.append(f"[{name}]\n" if is_plain else f"[{word} {name}]\n")
            for key, value in settings.items():
                spelled = data.draw(st.sampled_from([key, key.upper()]))
                gap = data.draw(SPACE)
                lines.append(f"{spelled}{gap}={gap}{value}{gap}\n{data.draw(NOISE)}")
        return "".join(lines)

    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "credentials").write_text(text_of(keys, ""))
        (place / "config").write_text(text_of(config, "profile"))
        for name in {*keys, *config}:
            assert read(place, name) == {**config.get(name, {}), **keys.get(name, {})}


@given(st.text(max_size=200), st.text("abc=[]\n\t #:%", max_size=200))
def test_any_text_is_read_or_refused_without_a_word_of_it(first: str, other: str) -> None:
    marked = "TheSecretItself"
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "credentials").write_bytes(
            f"{first}{marked}{other}".encode(errors="surrogatepass")
        )
        try:
            read(place, "default")
        except PreflightError as error:
            assert marked not in str(error)
            assert str(place) in str(error)
            assert error.__suppress_context__
