"""The pages of the site, made from those of the repository, which are written to be read there.

A link that leads out of docs/ leads to a copy of the file, and a link to a folder to a page that
lists it.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from posixpath import normpath, relpath

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
