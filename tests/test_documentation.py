"""Documents that can go stale: what they must name, what they must not say, and links and paths."""

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from cli.command import module_of
from cli.commands import COMMANDS
from cli.version import RELEASE
from grammar.meaning.schema import load_schema
from grammar.tree.source import Source
from policies.validation import Validator, check_source
from tests.support.books import BOOKS, DOCS, book, pages, section
from tests.support.release_version import COPIES, named
from tests.support.release_version import SOURCE as SOURCE_OF_VERSION

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
CHANGES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
LINK = re.compile(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)")
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
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
    "more than halves the number of pods",
    "Placet moves none of them",
    "Placet places new pods; the descheduler evicts",
    "nothing: the descheduler evicts",
    "that is reported, not repaired",
)


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


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


def test_make_targets_are_explained_by_make_help() -> None:
    phony = re.findall(r"(?ms)^\.PHONY: (.*?[^\\])$", MAKEFILE)[0].replace("\\", "").split()
    helped = subprocess.run(
        ["make", "help"],  # noqa: S607 - make of the path
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    explained = set(re.findall(r"(?m)^([a-z0-9-]+) +\S", helped))
    assert set(phony) - explained == set()
    assert (
        set(re.findall(r"(?m)(?:^|`)make ([a-z0-9-]+)", README + CONTRIBUTING)) - explained == set()
    )


def test_contributing_is_short() -> None:
    assert len(CONTRIBUTING.encode()) <= 12 * 1024


def test_every_command_is_documented() -> None:
    modules = (ROOT / "cli" / "commands").glob("[a-z]*.py")
    commands = (path.stem.replace("_", "-") for path in modules)
    assert [name for name in commands if f"placet {name}" not in book("operations")] == []


def test_every_flag_is_documented() -> None:
    flags = words(r'"(--[a-z][a-z-]+)"', "cli/commands", "cli/main.py")
    flags += words(r"(?m)^  (?:-\w )?(--[a-z][a-z-]+)", "cli/commands")
    named = set(re.findall(r"--[a-z][a-z-]+", book("operations")))
    assert set(flags) - named == set()


def test_commands_that_pages_name_exist() -> None:
    """With their flags; what stands behind a sign of the shell is another program's."""
    called = (
        r"`(?:kubectl )?placet ([a-z][a-z-]*)([^`\n|>]*)`|^\$ (?:kubectl )?placet (\S+)([^|>\n]*)"
    )
    wrong = []
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for found in re.finditer(called, page.read_text(encoding="utf-8"), re.MULTILINE):
            name, rest = found[1] or found[3], found[2] or found[4] or ""
            flags = re.findall(r"(?<![\w-])--[a-z][a-z-]*", rest.partition(" -- ")[0])
            known = {"--help", "--version"}
            if name in COMMANDS:
                known |= {flag for each in module_of(name).ARGUMENTS for flag in each.names}
            if name not in COMMANDS | {"--help": "", "--version": ""} or not known.issuperset(
                flags
            ):
                wrong.append(f"{page.name}: {found[0]}")
    assert wrong == []


# Rows of docs/language/names.md, and what expressions of each name read.
_NUMBERS = {
    "`require`, `value`, `range`, a bound `per node`, the `when` of a filter or bind, every "
    "`detail`": 'limit "l" { per node at most {} strict }',
    "a bound of a limit per another place": 'limit "l" { per rack at most {} strict }',
    "`skew`": 'spread "l" { over rack skew at most {} strict }',
    "a bound per cluster, or of used and empty places": 'limit "l" { used rack at most {} strict }',
    "`at least` of a spread, a bound of a share": (
        'share "l" { of replicas on nodes where true at most {} strict }'
    ),
}
_READS = {
    r"\bpod\b": 'int(pod.labels["n"])',
    r"\bnode\b": 'int(node.labels["n"])',
    r"\bnode\b|\bgroup (?!by)": "int(rack.value)",
    r"\bcounts of the cluster\b": "all_of_them",
}


def test_what_bounds_read_is_what_the_page_says() -> None:
    page = (ROOT / "docs" / "language" / "names.md").read_text(encoding="utf-8")
    head = 'group rack by node.labels["rack"] count all_of_them = pods where true '
    for number, clause in _NUMBERS.items():
        (said,) = re.findall(rf"^\| {re.escape(number)} \| (.*) \|$", page, re.MULTILINE)
        for name, expression in _READS.items():
            text = f'policy p in namespace "s" {{ {head}{clause.replace("{}", expression, 1)} }}'
            checked = check_source(Source("a.policy", text), load_schema())
            wrong = [d for d in checked.diagnostics if d.severity == "error"]
            may = re.search(name, said) is not None
            assert bool(wrong) != may, f"{number} and {name}: {wrong}"


def test_every_endpoint_is_documented() -> None:
    endpoints = words(r'"(/[a-z][a-z/]*)"', "server/app.py", "server/http/health.py")
    listed = section("operations", "Endpoints")
    assert [path for path in endpoints if f"`{path}`" not in listed] == []


def test_every_contract_number_in_a_comment_is_explained() -> None:
    cited = words(r"\b(C\d{1,2})\b", *SOURCE)
    assert [number for number in cited if f"**{number}**" not in page("extender.md")] == []


def test_every_release_has_its_changes() -> None:
    """A tag `v0.2.0` needs a heading `## [0.2.0] - date`; a version is released once."""
    listed = re.findall(r"(?m)^## \[(.+?)\]", CHANGES)
    dated = re.findall(r"(?m)^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", CHANGES)
    assert listed == ["Unreleased", *dated]
    tags = (ROOT / ".git").exists() and subprocess.run(
        ["git", "-C", ROOT, "tag", "--list", "v*"],  # noqa: S607 - git of the path
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert {tag.removeprefix("v") for tag in tags or []} - set(dated) == set()


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_of_the_version_is_that_of_the_release(copy: str) -> None:
    assert set(named((ROOT / copy).read_text(encoding="utf-8"))) == {RELEASE}


def test_the_version_stands_nowhere_else() -> None:
    """So `python -m tests.support.release_version` writes it everywhere."""
    files = (file for folder in ("cli", "deploy", "docs") for file in (ROOT / folder).rglob("*"))
    found = {file for file in files if file.suffix in TEXTS and named(file.read_text("utf-8"))}
    assert found - {ROOT / copy for copy in COPIES} == {SOURCE_OF_VERSION}


def test_the_release_is_the_newest_of_the_changelog() -> None:
    assert re.findall(r"(?m)^## \[(\d.+?)\]", CHANGES)[0] == RELEASE


def test_an_entry_of_the_changelog_is_one_short_line_and_stands_once() -> None:
    """So it is read, and a line that two merges brought is found."""
    _, *releases = re.split(r"(?m)^## .*\n", CHANGES)
    lines = [line for release in releases for line in release.splitlines()]
    entries = [line for line in lines if line.startswith("- ")]
    assert entries
    assert [line for line in entries if len(line) > 100] == []
    assert sorted(set(entries)) == sorted(entries)
    assert [line for line in lines if line.startswith((" ", "*"))] == [], (
        "a second line of an entry"
    )


def test_the_first_release_is_one_page() -> None:
    assert len(CHANGES.partition("## [0.1.0]")[2].splitlines()) <= 60


# ---- what must lead somewhere


def test_links_lead_somewhere() -> None:
    """To a file that exists, and in a page to one of its headings."""
    anchors = cache(lambda to: {*map(anchor, headings(to.read_text(encoding="utf-8")))})
    broken = [
        (path, file, fragment)
        for path in PAGES
        for file, fragment in LINK.findall(path.read_text(encoding="utf-8"))
        if not (to := path.parent / file if file else path).exists()
        or (fragment and fragment not in anchors(to))
    ]
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
            for cited, heading in re.findall(r"\(docs/([\w/-]+\.md), ([^)\"]+)\)", text):
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


def test_pages_that_are_named_exist() -> None:
    """By their path from the root, in any text of the repository: in messages and manifests too."""
    named = r"(?<![\w/])docs/[\w/-]+\.(?:md|yaml|toml)\b"
    found = [(path, name) for path, text in texts() for name in re.findall(named, text)]
    assert found
    assert [(path.name, name) for path, name in found if not (ROOT / name).exists()] == []


def test_index_of_all_pages_has_every_page_once() -> None:
    """The pages of a book are in the index of that book; choosing leads to the checklist."""
    of_books = [f"{name}/index.md" for name in BOOKS]
    elsewhere = {"index.md", "checklist.md"}
    wanted = {path.name for path in DOCS.glob("*.md")} - elsewhere | {*of_books}
    *_, lists = page("index.md").partition("## You write policies")
    listed = LINK.findall(lists)
    assert len(listed) == len(set(listed))
    assert {link for link, _ in listed if not link.startswith("../")} == wanted
    assert "](checklist.md)" in page("choosing.md")


def test_index_answers_twenty_questions() -> None:
    rows = re.findall(r"(?m)^\| (.+\?.*) \| (.+) \|$", page("index.md"))
    assert len(rows) == 20
    assert [question for question, answer in rows if not LINK.search(answer)] == []


def test_readme_ends_with_three_short_paths() -> None:
    """And with the index, which has all that is on no path."""
    end = README.partition("## Read on")[2]
    assert "](docs/index.md)" in end
    paths = re.findall(r"(?ms)^- .*?(?=^- |^$)", end)
    assert [path.count("](") <= 5 for path in paths] == [True] * 3


# ---- books


@pytest.mark.parametrize("name", [*BOOKS, "decisions"])
def test_index_of_a_book_lists_its_pages(name: str) -> None:
    assert sorted(pages(name)) == sorted((DOCS / name).iterdir())


def test_a_page_is_short() -> None:
    """At most 500 lines, except for the changelog, which grows with each release."""
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in PAGES}
    assert [path.name for path in PAGES if lines[path] > 500] in ([], ["CHANGELOG.md"])


def test_all_pages_together_are_read_in_a_day() -> None:
    """A new page pays with one that goes, and a fact stands on one page."""
    found = [*DOCS.rglob("*.md")]
    assert len(found) <= 90
    assert sum(len(path.read_text("utf-8").splitlines()) for path in found) <= 13_000


def test_the_language_reference_is_short() -> None:
    """A new form pays with one that goes."""
    lines = [line for path in pages("language") for line in path.read_text("utf-8").splitlines()]
    assert len(lines) <= 2_000


# ---- decisions


def test_a_decision_is_a_section_with_a_number_of_its_own_and_a_date() -> None:
    """Their pages are by topic, so a new decision is no new page."""
    folder = sorted((DOCS / "decisions").iterdir())
    assert len(folder) <= 10, "a decision is a section: see docs/decisions/index.md"
    numbers: list[str] = []
    for path in folder:
        text = path.read_text(encoding="utf-8")
        found = re.findall(r"(?m)^## (\d{4}): .* \(20\d\d-\d\d-\d\d\)$", text)
        assert len(found) == len(re.findall(r"(?m)^## ", text)), path.name
        assert found == sorted(found), path.name
        numbers += found
    assert len(numbers) > 40
    assert len(numbers) == len(set(numbers))
    cited = {
        (file.name, number)
        for file, text in texts()
        for number in re.findall(r"[Dd]ecisions? (00\d\d)\b", plain(text))
    }
    cited |= {
        (path.name, number)
        for path in folder
        for number in re.findall(r"\b(00\d\d)\b", path.read_text(encoding="utf-8"))
    }
    assert [each for each in sorted(cited) if each[1] not in numbers] == []


# ---- what must not be said, and what must hold


@pytest.mark.parametrize("name", ["README.md", "docs/choosing.md"])
def test_measured_ratios_stand_in_performance_alone(name: str) -> None:
    """A figure on two pages is true on one of them at most: here is a link instead.

    Other decimal numbers are the versions of Kubernetes, Python and the licence.
    """
    prose = re.sub(r"(?ms)^```.*?^```$", "", (ROOT / name).read_text(encoding="utf-8"))
    assert set(re.findall(r"\b\d+\.\d+\b", prose)) <= {"1.36", "3.11", "2.0"}


def test_what_an_extender_costs_is_what_was_measured() -> None:
    """The page about the choice says it in words; the figures stand in performance alone."""
    rows = re.findall(
        r"(?m)^\| pods/s, .* Placet / no extender \| +\| ([\d.]+) \|", page("performance.md")
    )
    assert len(rows) == 2
    assert [row for row in rows if not 0.4 <= float(row) <= 0.6] == []
    assert "places about half as many pods in a second" in plain(page("choosing.md"))


@pytest.mark.parametrize("name", ["choosing.md", "coming-from.md", "policy-api.md", "gitops.md"])
def test_a_page_about_pods_that_run_names_repair(name: str) -> None:
    """Which pods are moved is said by one page: docs/drift.md."""
    assert "](drift.md#repair)" in page(name)


def test_definitions_are_applied_in_one_way() -> None:
    """Server-side, because the other way copies a whole definition into an annotation."""
    commands = (line for _, text in texts() for line in re.findall(r"kubectl apply [^`\n]*", text))
    named = [line for line in commands if "files/crds" in line]
    assert named
    assert [line for line in named if "--server-side" not in line] == []
    piped = [
        file.name
        for file, text in texts()
        if re.search(r"placet (crds|manifests).*\| kubectl apply -f", text)
    ]
    assert piped == []


def texts() -> Iterator[tuple[Path, str]]:
    """Yield the text of every file of the repository but this one."""
    files = [ROOT / "Makefile", ROOT / "Dockerfile", ROOT / "pyproject.toml", *ROOT.glob("*.md")]
    files += [file for folder in FOLDERS for file in (ROOT / folder).rglob("*")]
    for file in files:
        if file != Path(__file__) and (file.suffix in TEXTS or not file.suffix) and file.is_file():
            yield file, file.read_text(encoding="utf-8")


def test_no_stale_sentence_is_left() -> None:
    lines = ((file, plain(text)) for file, text in texts())
    assert [(file.name, s) for file, text in lines for s in STALE if s in text] == []


def test_whole_policies_in_a_page_are_legal() -> None:
    """A fence that starts a policy is a file of its own, unless it says that it is a sketch."""
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        for example in re.findall(r"(?ms)^```(?:placet)?\n((?:cluster )?policy .*?)^```", text):
            validation = Validator(load_schema()).validate([Source(path.name, example)])
            assert [d.message for d, _ in validation.findings()] == [], (path, example)
