"""A publisher's additions to a brief: byline, logo, text, components, and omissions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typst
from playwright.sync_api import Browser

from integration.brief.brief_fixture import build_store
from integration.conftest import LIMIT_MS
from storlab.base.errors import ExitCode, StudyError
from storlab.brief.build import build_brief
from storlab.brief.html import render_html
from storlab.brief.pdf import _workplace, render_pdf
from storlab.brief.publisher import publisher_of
from storlab.cli.main import main
from storlab.lab.study.file import load_publisher, load_study
from storlab.model.publisher import BriefTable, Components
from storlab.model.target import Target
from storlab.results.store import ResultStore

OWN = """
[brief]
author = "A. Writer"
organisation = "Example Labs"
logo = "logo.svg"
introduction = '''
Why we <measured>,
in one paragraph.

And for whom.'''
conclusion = "Take the disk."
footnotes = ["Prices without tax.", "Firmware as shipped."]
legal = "No warranty."
leave_out = ["ratios", "configuration"]
"""
PNG_END = b"\0\0\0\0IEND\xaeB`\x82"
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"/>'


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    return build_store(tmp_path_factory.mktemp("publisher") / "few", mixes=(70,), repeats=2)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "logo.svg").write_text(SVG)
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    return path


def test_a_publisher_stands_in_page_and_pdf(store: ResultStore, own: Path) -> None:
    brief = build_brief(
        store, beside=store.directory, published_by=(load_publisher(own), own.parent)
    )
    brief.publisher.components.append(("CPU", ["2 x 32 cores", "not stated"]))
    page = render_html(brief)
    assert '<span class="byline">A. Writer, Example Labs</span>' in page
    assert 'src="data:image/svg+xml;base64,' in page
    assert 'alt="Example Labs"' in page
    words = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    for text in (
        "Introduction Why we &lt;measured&gt;, in one paragraph. And for whom.",
        "Conclusion Take the disk. In the words of Example Labs. Nothing here is computed or "
        "checked by storlab.",
        "Prices without tax. Firmware as shipped. No warranty. Left out by the publisher: "
        "configuration, ratios.",
        "Components As the study declares them component Disk Memory CPU 2 x 32 cores not stated",
    ):
        assert text in words
    assert 'id="ratios"' not in page
    assert 'id="configuration"' not in page and 'href="#configuration"' not in page
    for name in ("findings", "method", "audit", "runs"):
        assert f'id="{name}"' in page
    assert page.index('id="findings"') < page.index('id="introduction"')
    assert render_pdf(brief).startswith(b"%PDF")


BOXES = """fill => {
  const places = (root, name) => [...root.querySelectorAll(name)].map(e => {
    const box = e.getBoundingClientRect();
    return [box.left, box.top, box.right, box.bottom];
  });
  const inside = e => ({
    pictures: places(e, 'image'),
    words: places(e, 'use'),
    cards: places(e, `path[fill="${fill}"]`),
  });
  return [...document.querySelectorAll('body > svg')].map(inside);
}"""


@pytest.mark.browser
def test_the_cover_of_the_pdf_has_room_for_logo_title_and_cards(
    browser: Browser, tmp_path: Path
) -> None:
    names = ("A directory on a disk (ext4)", "A directory in memory (tmpfs)")
    stores = [
        build_store(tmp_path / place, mixes=(70,), repeats=2, names=names) for place in ("x", "y")
    ]
    (tmp_path / "logo.svg").write_text(SVG.replace('width="8"', 'width="32"'))
    brief = build_brief(
        *(stores[0], stores[1:]),
        title="Which of these directories should the shuffle stage of the nightly ingest have?",
        beside=tmp_path,
        published_by=(BriefTable(logo="logo.svg"), tmp_path),
    )
    assert len(brief.targets) == 4
    with _workplace(brief) as source:
        pages = typst.compile(source, root=str(Path(source).parent), format="svg")
    page = browser.new_page()
    page.set_default_timeout(LIMIT_MS)
    page.set_content(b"".join(pages).decode())
    first, *others = page.evaluate(BOXES, "#1c3d59")
    (logo,) = first["pictures"]
    assert not [w for w in first["words"] if w[0] < logo[2] and logo[0] < w[2]
                and w[1] < logo[3] and logo[1] < w[3]]  # fmt: skip
    assert len(first["cards"]) == 4
    assert not any(other["cards"] for other in others)
    page.close()


def test_without_a_publisher_nothing_of_it_stands(store: ResultStore) -> None:
    page = render_html(build_brief(store, beside=store.directory))
    for word in ('class="byline"', 'class="publisher"', "In the words of", 'id="components"'):
        assert word not in page


@pytest.mark.parametrize("section", ["method", "flags", "audit", "findings", "runs"])
def test_what_a_brief_rests_on_cannot_be_left_out(section: str, tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(
        f'[study]\nname = "x"\n[brief]\nleave_out = ["power", "{section}"]\n'
        '[[target]]\nname = "t"\npath = "null:"\n[[workload]]\nkind = "block"\n'
    )
    with pytest.raises(StudyError, match=f"the section {section} cannot be left out") as caught:
        load_study(study)
    assert "[brief] leave_out #2" in str(caught.value)


def test_logos_are_known_by_their_content(tmp_path: Path) -> None:
    table = BriefTable(logo="logo")
    with pytest.raises(StudyError, match="does not exist"):
        publisher_of(table, [tmp_path], [])
    logo = tmp_path / "logo"
    for content, kind in (
        (b"\x89PNG\r\n\x1a\n" + PNG_END, "png"),
        (b"\xff\xd8\xff\xe0\xff\xd9", "jpeg"),
        (b"GIF89a;", "gif"),
        (b"RIFF0000WEBPVP8 ", "webp"),
        (b'<?xml version="1.0"?>\n<svg/>', "svg"),
    ):
        logo.write_bytes(content)
        found = publisher_of(table, [tmp_path / "nowhere", tmp_path], []).logo
        assert found is not None and found.kind == kind
    logo.write_bytes(b"<html>")
    with pytest.raises(StudyError, match="not an image"):
        publisher_of(table, [tmp_path], [])
    logo.write_bytes(b"\x89PNG" + bytes(1_000_000))
    with pytest.raises(StudyError, match="1,000,004 bytes"):
        publisher_of(table, [tmp_path], [])


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"\x89PNG\r\n\x1a\n", "is incomplete"),
        (b"\xff\xd8\xff\xe0", "is incomplete"),
        (b'<svg><image href="http://example.com/x"/></svg>', "loads other files"),
        (b"<svg><style>a{fill:url(other.svg#x)}</style></svg>", "loads other files"),
    ],
)
def test_what_page_or_pdf_would_lose_is_no_logo(content: bytes, word: str, tmp_path: Path) -> None:
    logo = tmp_path / "logo"
    logo.write_bytes(content)
    with pytest.raises(StudyError, match=word):
        publisher_of(BriefTable(logo="logo"), [tmp_path], [])
    logo.write_bytes(b"<svg><use href='#a'/><style>a{fill:url(#x)}</style></svg>")
    assert publisher_of(BriefTable(logo="logo"), [tmp_path], []).logo is not None
    logo.unlink()
    logo.mkdir()
    with pytest.raises(StudyError, match="is not a regular file"):
        publisher_of(BriefTable(logo="logo"), [tmp_path], [])


def test_a_missing_logo_is_found_before_the_campaign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "studies"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    study = folder / "study.toml"
    study.write_text(
        '[study]\nname = "x"\nrepeats = 1\nramp = 0\nruntime = "100ms"\ninterval = "50ms"\n'
        '[brief]\nlogo = "logo.svg"\n[[target]]\nname = "t"\npath = "null:"\n'
        '[[workload]]\nkind = "block"\n'
    )
    out = tmp_path / "out"
    for verb in (["doctor", str(study)], ["run", str(study), "--out", str(out), "--quiet"]):
        assert main(verb) == ExitCode.PREFLIGHT
        told = capsys.readouterr()
        assert "[brief] logo logo.svg: does not exist" in told.out + told.err
    assert not out.exists()
    (folder / "logo.svg").write_text(SVG)  # next to the study; the command runs elsewhere
    assert main(["run", str(study), "--out", str(out), "--quiet"]) == ExitCode.OK
    assert "data:image/svg+xml" in (out / "brief.html").read_text()


def test_components_stand_by_target() -> None:
    targets = [
        Target(name="a", path="null:", components=Components(cpu="C", nic="2 x 100 Gb/s")),
        Target(name="b", path="null:", components=Components(cpu="D", software="Linux 6.12")),
        Target(name="c", path="null:"),
    ]
    assert publisher_of(None, [], targets).components == [
        ("CPU", ["C", "D", "not stated"]),
        ("NIC", ["2 x 100 Gb/s", "not stated", "not stated"]),
        ("Software", ["not stated", "Linux 6.12", "not stated"]),
    ]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[study]", "add a [brief] table"),
        ("[brief", "own.toml:1: not valid TOML"),
        ('[brief]\nauthr = "x"', 'authr is not a field of [brief]\n  fix: did you mean "author"?'),
        ("[brief]\nleave_out = ['ratio']", 'fix: did you mean "ratios"?'),
    ],
)
def test_a_wrong_file_of_a_publisher_is_named(text: str, word: str, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(StudyError, match=re.escape(word)):
        load_publisher(path)
