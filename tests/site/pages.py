"""The pages of the site, made from those of the repository, which are written to be read there.

A link that leads out of docs/ leads to a copy of the file, and a link to a folder to a page that
lists it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from posixpath import normpath, relpath
from urllib.parse import unquote, urlsplit

# Pages that have another place in the site, whose first page is the README.
ELSEWHERE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "docs/index.md": "documentation.md",
    "deploy/chart/README.md": "chart.md",
    "deploy/examples/README.md": "library-examples.md",
}
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")
# The second word says what tests do with an example; Markdown knows only the first.
FENCE = re.compile(r"(?m)^( *```[a-z]+) (?:example|mended|wrong)$")


def pages(root: Path) -> list[str]:
    """The paths of all pages, from the root of the repository."""
    found = [path.relative_to(root).as_posix() for path in (root / "docs").rglob("*.md")]
    return sorted({*ELSEWHERE, *found})


def place(path: str, root: Path) -> str:
    """Where a file or folder of the repository is in the site."""
    if path in ELSEWHERE:
        return ELSEWHERE[path]
    within = path.removeprefix("docs/") if path.startswith("docs/") else f"files/{path}"
    return f"{within}/index.md" if (root / path).is_dir() else within


def prepare(root: Path, target: Path) -> None:
    """Writes the pages, and all that they lead to, into an empty folder."""
    linked: set[str] = set()
    for page in pages(root):
        text = FENCE.sub(r"\1", (root / page).read_text(encoding="utf-8"))
        _write(target / place(page, root), _relink(text, page, root, linked))
    for path in linked - set(pages(root)):
        found = [root / path]
        if (root / path).is_dir():
            found = sorted(file for file in (root / path).rglob("*") if file.is_file())
        files = [file.relative_to(root).as_posix() for file in found]
        if (root / path).is_dir():
            _write(target / place(path, root), _listing(path, files, root))
        for file in files:
            copy = target / place(file, root)
            if not copy.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes((root / file).read_bytes())


def _relink(text: str, page: str, root: Path, linked: set[str]) -> str:
    """A page with links to places of the site; what they lead to is added to `linked`."""
    folder = Path(place(page, root)).parent.as_posix()

    def link(found: re.Match[str]) -> str:
        path = normpath(f"{Path(page).parent.as_posix()}/{found[1]}")
        linked.add(path)
        return f"]({relpath(place(path, root), folder)}{found[2] or ''})"

    return LINK.sub(link, text)


def _listing(folder: str, files: Iterable[str], root: Path) -> str:
    here = Path(place(folder, root)).parent.as_posix()
    links = (
        f"- [{file.removeprefix(folder)[1:]}]({relpath(place(file, root), here)})\n"
        for file in files
        if "__pycache__" not in file
    )
    return f"# {folder}\n\n" + "".join(links)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


# ---- the links of built pages: each leads to a file and an anchor, and no page loads from a host


# Attributes whose value the browser fetches by itself.
LOADED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("link", "href")}


@dataclass
class _Page(HTMLParser):
    """What the check needs of one page: its anchors, what it leads to, and what it loads."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name in {"id", "name"}:
                self.anchors.add(value)
            elif (tag, name) in LOADED:
                self.loads.append(value)
            elif name == "href":
                self.links.append(value)


def read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def broken(site: Path) -> list[str]:
    """Every link and every loaded file of the site that cannot work, with its page."""
    pages = {path: read(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        found += [f"{name} loads {url}" for url in page.loads if _host(url)]
        for url in [*page.links, *page.loads]:
            parts = urlsplit(url)
            if _host(url) or parts.scheme:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            known = pages[file].anchors if file in pages else set()
            if not file.is_file() or (anchor and file in pages and anchor not in known):
                found.append(f"{name} leads to {url}")
    return found


def _host(url: str) -> bool:
    return bool(urlsplit(url).netloc)
