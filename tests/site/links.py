"""The links of built pages: each leads to a file and an anchor, and no page loads from a host."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

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
