"""Documents that can go stale: commands, flags, metrics, diagnostics and links they must name."""

import re
from pathlib import Path

import pytest

from grammar.environment import FUNCTIONS
from grammar.schema import load_schema
from grammar.source import Source
from policies.validation import Validator

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def words(pattern: str, *paths: str) -> list[str]:
    """Return what a pattern finds in these Python files, or those below these folders, sorted."""
    files = (file for path in paths for file in [ROOT / path, *(ROOT / path).rglob("*.py")])
    texts = (file.read_text(encoding="utf-8") for file in files if file.is_file())
    return sorted({word for text in texts for word in re.findall(pattern, text)})


def test_make_targets_are_those_that_are_explained() -> None:
    explained = set(re.findall(r"(?m)(?:^|`)make ([a-z0-9]+)", README + CONTRIBUTING))
    assert explained == set(re.findall(r"(?m)^([a-z0-9]+):.*##", MAKEFILE))


def test_every_command_is_documented() -> None:
    modules = (ROOT / "cli" / "commands").glob("[a-z]*.py")
    commands = (path.stem.replace("_", "-") for path in modules)
    assert [name for name in commands if f"placet {name}" not in page("operations.md")] == []


def test_every_flag_is_documented() -> None:
    flags = words(r'"(--[a-z][a-z-]+)"', "cli/commands", "cli/main.py")
    named = set(re.findall(r"--[a-z][a-z-]+", page("operations.md")))
    assert set(flags) - named == set()


def test_every_metric_is_documented() -> None:
    metrics = words(r'"(placet_[a-z_]+)"', "server/metrics.py")
    assert [metric for metric in metrics if f"`{metric}`" not in page("operations.md")] == []


def test_every_endpoint_is_documented() -> None:
    endpoints = words(r'"(/[a-z][a-z/]*)"', "server/app.py", "server/health.py")
    assert [path for path in endpoints if f"`{path}`" not in page("operations.md")] == []


def test_every_diagnostic_is_documented() -> None:
    codes = words(r'"(P0\d{3})"', "grammar", "policies")
    assert [code for code in codes if code not in page("language.md")] == []


def test_every_function_is_documented() -> None:
    names = (name for name in FUNCTIONS if name[0].isalpha() and name != "in")
    assert [name for name in names if f"`{name}`" not in page("language.md")] == []


def test_every_contract_number_in_a_comment_is_explained() -> None:
    cited = words(r"\b(C\d{1,2})\b", "cli", "engine", "grammar", "policies", "server", "tests")
    assert [number for number in cited if f"**{number}**" not in page("extender.md")] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    assert [target for target in targets if not (path.parent / target).exists()] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_whole_policies_in_a_page_are_legal(path: Path) -> None:
    """A fence that starts a policy is a file of its own, unless it says that it is a sketch."""
    text = path.read_text(encoding="utf-8")
    for example in re.findall(r"(?ms)^```(?:placet)?\n((?:cluster )?policy .*?)^```", text):
        validation = Validator(load_schema()).validate([Source(path.name, example)])
        assert [diagnostic.message for diagnostic, _ in validation.findings()] == [], example
