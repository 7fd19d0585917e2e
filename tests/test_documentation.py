"""Documents that can go stale: what they must name, what they must not say, and links and paths."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from grammar.meaning.environment import FUNCTIONS
from grammar.meaning.schema import load_schema
from grammar.tree.source import Source
from policies.validation import Validator

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SOURCE = ("cli", "engine", "grammar", "policies", "server", "tests")
FOLDERS = (*SOURCE, "deploy", "docs")
TEXTS = (".lark", ".md", ".policy", ".py", ".toml", ".txt", ".yaml")
# Each was true once. None may come back, in any wording of the white space around its words.
STALE = (
    "`preempt` is checked by this version and not acted on yet.",
    "This version checks it when it filters.",
    "they are retried with the next event that wakes them, at the latest after five minutes.",
    "Their wording is in `grammar/mistakes.py`, all on one page.",
    "Then `docs/language.md`, a case in `tests/golden/`, and an entry in the changelog.",
    "A file is one thing. Its first line says which in a sentence; 60 to 200 lines",
    "| `placet_bypasses_total` | counter | pods that bypassed policies by their annotation |",
    "which placement is written down, not programmed",
    "governs nothing: no version of it has held",
    "the node that it was sent to did not take it",
    "may be absent, and then this is missing, not true",
    "The text is the reason, and one that is blank is none",
    "is no time at all",
    "about to take over",
)


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def words(pattern: str, *paths: str) -> list[str]:
    """Return what a pattern finds in these Python files, or those below these folders, sorted."""
    files = (file for path in paths for file in [ROOT / path, *(ROOT / path).rglob("*.py")])
    texts = (file.read_text(encoding="utf-8") for file in files if file.is_file())
    found = sorted({word for text in texts for word in re.findall(pattern, text)})
    assert found, f"nothing like {pattern} in {paths}"
    return found


def headings(text: str) -> list[str]:
    """The headings of a page, without fences and without backticks."""
    prose = re.sub(r"(?ms)^```.*?^```$", "", text)
    return [heading.replace("`", "") for heading in re.findall(r"(?m)^#+ (.+)$", prose)]


def anchor(heading: str) -> str:
    """The fragment that leads to a heading, as GitHub forms it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def plain(text: str) -> str:
    """A text on one line: without comment signs at the start of its lines."""
    return " ".join(re.sub(r"\n\s*(?:#|//)+ ?", " ", text).split())


# ---- what must be documented


def test_make_targets_are_those_that_are_explained() -> None:
    explained = set(re.findall(r"(?m)(?:^|`)make ([a-z0-9-]+)", README + CONTRIBUTING))
    assert explained == set(re.findall(r"(?m)^([a-z0-9-]+):.*##", MAKEFILE))


def test_every_command_is_documented() -> None:
    modules = (ROOT / "cli" / "commands").glob("[a-z]*.py")
    commands = (path.stem.replace("_", "-") for path in modules)
    assert [name for name in commands if f"placet {name}" not in page("operations.md")] == []


def test_every_flag_is_documented() -> None:
    flags = words(r'"(--[a-z][a-z-]+)"', "cli/commands", "cli/main.py")
    named = set(re.findall(r"--[a-z][a-z-]+", page("operations.md")))
    assert set(flags) - named == set()


def test_every_endpoint_is_documented() -> None:
    endpoints = words(r'"(/[a-z][a-z/]*)"', "server/app.py", "server/http/health.py")
    assert [path for path in endpoints if f"`{path}`" not in page("operations.md")] == []


def test_every_diagnostic_is_documented() -> None:
    codes = words(r'"(P0\d{3})"', "grammar", "policies")
    assert [code for code in codes if code not in page("language.md")] == []


def test_every_function_is_documented() -> None:
    names = (name for name in FUNCTIONS if name[0].isalpha() and name != "in")
    assert [name for name in names if f"`{name}`" not in page("language.md")] == []


def test_every_contract_number_in_a_comment_is_explained() -> None:
    cited = words(r"\b(C\d{1,2})\b", *SOURCE)
    assert [number for number in cited if f"**{number}**" not in page("extender.md")] == []


def test_every_release_has_its_changes() -> None:
    """A tag `v0.2.0` needs a heading `## [0.2.0] - date`; a version is released once."""
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    listed = re.findall(r"(?m)^## \[(.+?)\]", changes)
    dated = re.findall(r"(?m)^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", changes)
    assert listed == ["Unreleased", *dated]
    tags = (ROOT / ".git").exists() and subprocess.run(
        ["git", "-C", ROOT, "tag", "--list", "v*"],  # noqa: S607 - git of the path
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert {tag.removeprefix("v") for tag in tags or []} - set(dated) == set()


# ---- what must lead somewhere


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    """To a file that exists, and in a page to one of its headings."""
    broken = []
    for file, fragment in re.findall(
        r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", path.read_text(encoding="utf-8")
    ):
        target = path.parent / file if file else path
        if not target.exists():
            broken.append(file)
        elif fragment and fragment not in map(anchor, headings(target.read_text(encoding="utf-8"))):
            broken.append(f"{file}#{fragment}")
    assert broken == []


@pytest.mark.parametrize("name", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_paths_in_pages_about_the_source_exist(name: str) -> None:
    """A `.py` file may be named by the end of its path, a folder is named from the root."""
    text = (ROOT / name).read_text(encoding="utf-8")
    known = {f"/{path}" for folder in SOURCE for path in (ROOT / folder).rglob("*.py")}
    files = re.findall(r"(?<![\w/.])[\w/]+\.py\b", text)
    folders = re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w/.-]*)`", text)
    assert files
    assert folders
    lost = [file for file in files if not any(path.endswith(f"/{file}") for path in known)]
    lost += [folder for folder in folders if not (ROOT / folder).exists()]
    assert [path for path in lost if "NAME" not in path] == []


def citations() -> Iterator[tuple[str, str, str]]:
    """Yield each heading that a comment or docstring cites, as `docs/PAGE.md, Heading`."""
    for folder in SOURCE:
        for path in (ROOT / folder).rglob("*.py"):
            text = plain(path.read_text(encoding="utf-8"))
            for cited, heading in re.findall(r"\(docs/([\w-]+\.md), ([^)\"]+)\)", text):
                yield path.relative_to(ROOT).as_posix(), cited, heading


def test_headings_that_the_source_cites_exist() -> None:
    cited = list(citations())
    assert cited
    assert [c for c in cited if c[2] not in headings(page(c[1]))] == []


def test_pages_are_cited_by_their_path() -> None:
    """Another name of a page, before a heading, would not be checked."""
    named = r"\b(?:[Ll]anguage reference|[Pp]olicy API),? [(,A-Z]"
    files = (path for folder in SOURCE for path in (ROOT / folder).rglob("*.py"))
    texts = ((path, plain(path.read_text(encoding="utf-8"))) for path in files)
    assert [path.name for path, text in texts if re.search(named, text)] == []


# ---- what must not be said, and what must hold


def test_no_stale_sentence_is_left() -> None:
    found = []
    files = [ROOT / "Makefile", ROOT / "Dockerfile", ROOT / "pyproject.toml", *ROOT.glob("*.md")]
    files += [file for folder in FOLDERS for file in (ROOT / folder).rglob("*")]
    for file in files:
        if file == Path(__file__) or (file.suffix not in TEXTS and file.suffix):
            continue
        if file.is_file():
            text = plain(file.read_text(encoding="utf-8"))
            found += [(file.name, sentence) for sentence in STALE if sentence in text]
    assert found == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_whole_policies_in_a_page_are_legal(path: Path) -> None:
    """A fence that starts a policy is a file of its own, unless it says that it is a sketch."""
    text = path.read_text(encoding="utf-8")
    for example in re.findall(r"(?ms)^```(?:placet)?\n((?:cluster )?policy .*?)^```", text):
        validation = Validator(load_schema()).validate([Source(path.name, example)])
        assert [diagnostic.message for diagnostic, _ in validation.findings()] == [], example
