"""The pages of the site: all are in its navigation, and their links lead where they should."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.site.pages import LINK, broken, pages, place, prepare

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("pages")
    prepare(ROOT, target)
    return target


def navigation(entry: Any) -> Iterator[str]:
    match entry:
        case str():
            yield entry
        case dict():
            for inner in entry.values():
                yield from navigation(inner)
        case _:
            for inner in entry:
                yield from navigation(inner)


def test_navigation_lists_every_page_once() -> None:
    settings = tomllib.loads((ROOT / "docs" / "zensical.toml").read_text(encoding="utf-8"))
    listed = sorted(navigation(settings["project"]["nav"]))
    assert listed == sorted(place(page, ROOT) for page in pages(ROOT))


def test_prepared_pages_lead_to_prepared_files(prepared: Path) -> None:
    lost = []
    for page in prepared.rglob("*.md"):
        links = [found[1] for found in LINK.finditer(page.read_text(encoding="utf-8"))]
        lost += [(page.name, link) for link in links if not (page.parent / link).is_file()]
    assert lost == []


def test_links_out_of_the_pages_lead_to_copies(prepared: Path) -> None:
    home = (prepared / "index.md").read_text(encoding="utf-8")
    assert "](files/LICENSE)" in home
    assert "](operations/index.md)" in home
    assert (prepared / "files/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_link_to_a_folder_leads_to_a_list_of_its_files(prepared: Path) -> None:
    listing = (prepared / "files/deploy/admission/index.md").read_text(encoding="utf-8")
    assert "- [validating.yaml](validating.yaml)" in listing


def test_fences_keep_only_their_language(prepared: Path) -> None:
    clauses = (prepared / "language" / "clauses.md").read_text(encoding="utf-8")
    assert "```placet\n" in clauses
    assert "```placet example" not in clauses


@pytest.mark.parametrize(
    ("body", "mistakes"),
    [
        ('<a href="b.html">b</a><a href="#here" id="here">here</a>', []),
        ('<a href="b.html#there">b</a><a href="https://example.com">elsewhere</a>', []),
        ('<a href="c.html">c</a>', ["a.html leads to c.html"]),
        ('<a href="b.html#lost">b</a>', ["a.html leads to b.html#lost"]),
        ('<img src="lost.svg">', ["a.html leads to lost.svg"]),
        (
            '<script src="https://example.com/x.js"></script>',
            ["a.html loads https://example.com/x.js"],
        ),
        (
            '<link href="//example.com/x.css" rel="stylesheet">',
            ["a.html loads //example.com/x.css"],
        ),
    ],
)
def test_broken_links_are_found(body: str, mistakes: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(body, encoding="utf-8")
    (tmp_path / "b.html").write_text('<h2 id="there">there</h2>', encoding="utf-8")
    assert broken(tmp_path) == mistakes
