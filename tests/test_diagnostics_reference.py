"""The book of diagnostics: every code has a section with the checker's real output."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.command import CommandError, Exit
from cli.commands.check import section as explained
from cli.main import main
from grammar.meaning.schema import load_schema
from grammar.messages.diagnostics import mend
from grammar.tree.source import Source
from policies.validation import check_source
from tests.support.books import book, pages

ROOT = Path(__file__).parents[1]
# Their examples would fill the page, or need a server.
WITHOUT_EXAMPLE = ("P0010", "P0011", "P0121", "P0504")
_HEADING = re.compile(r"(?m)^## (P\d{4}): (.+)$")
_FENCE = re.compile(r"(?ms)^```(\w[a-z ]*)\n(.*?)^```$")
_FIXED = "Fixed by `--fix`."
# A section with this needs a cluster.
_AGAINST_CLUSTER = "`placet check --cluster`"


@dataclass(frozen=True, slots=True)
class Section:
    """The section of one code: what it means, what is printed, and a text with its changes."""

    code: str
    meaning: str
    text: str

    def fence(self, info: str) -> str:
        """The only fence of that kind."""
        found: list[str] = [text for kind, text in _FENCE.findall(self.text) if kind == info]
        assert len(found) == 1, f"{self.code} has {len(found)} of `{info}`"
        return found[0]

    @property
    def file(self) -> str:
        return self.said.partition(":")[0]

    @property
    def said(self) -> str:
        return self.fence("text")

    def _without(self, sign: str) -> str:
        lines = self.fence("diff").splitlines(keepends=True)
        return "".join(line[1:] or line for line in lines if not line.startswith(sign))

    @property
    def wrong(self) -> str:
        return self._without("+")

    @property
    def mended(self) -> str:
        return self._without("-")


SECTIONS = tuple(
    sorted(
        (
            Section(code, meaning, explained(code).partition("\n")[2])
            for page in pages("diagnostics")
            for code, meaning in _HEADING.findall(page.read_text(encoding="utf-8"))
        ),
        key=lambda each: each.code,
    )
)
EXAMPLES = tuple(s for s in SECTIONS if s.code not in WITHOUT_EXAMPLE)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the nodes of the language reference."""
    (nodes,) = (text for kind, text in _FENCE.findall(book("language")) if kind == "yaml")
    (tmp_path / "nodes.yaml").write_text(nodes, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(section: Section, text: str) -> int:
    """Run `placet check` on a text, as the section does, and return its exit code."""
    Path(section.file).write_text(text, encoding="utf-8")
    cluster = ["--cluster", "nodes.yaml"] if _AGAINST_CLUSTER in section.text else []
    return main(["check", "-o", "plain", *cluster, section.file])


# ---- examples


@pytest.mark.parametrize("section", EXAMPLES, ids=lambda s: s.code)
def test_wrong_text_gives_what_is_printed(
    section: Section, capsys: pytest.CaptureFixture[str]
) -> None:
    code = check(section, section.wrong)
    assert capsys.readouterr().out == section.said
    assert f"[{section.code}]" in section.said
    assert code == (Exit.FINDINGS if " error[" in section.said else Exit.OK)


@pytest.mark.parametrize("section", EXAMPLES, ids=lambda s: s.code)
def test_nothing_is_wrong_with_the_mended_text(
    section: Section, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(section, section.mended) == Exit.OK
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("section", EXAMPLES, ids=lambda s: s.code)
def test_certain_fix_gives_the_mended_text(section: Section) -> None:
    """And the page mentions every fix."""
    schema = load_schema()
    wrong = Source(section.file, section.wrong)
    mended = mend(wrong, lambda source: check_source(source, schema).diagnostics)
    assert bool(mended.applied) == (_FIXED in section.text)
    if mended.applied:
        assert {diagnostic.code for diagnostic, _ in mended.applied} == {section.code}
        assert mended.source.text == section.mended


# ---- in a terminal


@pytest.mark.parametrize("section", SECTIONS, ids=lambda s: s.code)
def test_explain_prints_the_section_for_a_terminal(
    section: Section, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without marks of Markdown; fences are indented, and the text of links stays."""
    assert main(["check", "--explain", section.code.lower()]) == Exit.OK
    printed = capsys.readouterr().out
    assert printed.startswith(f"{section.code}: {section.meaning}\n")
    assert "```" not in printed
    assert "](" not in _FENCE.sub("", printed)
    lines = [line for _, fence in _FENCE.findall(section.text) for line in fence.splitlines()]
    assert [line for line in lines if line and f"\n  {line}\n" not in printed] == []
    others = {each.code for each in SECTIONS} - {section.code}
    assert [code for code in others if f"\n{code}: " in printed] == []


def test_what_is_no_code_is_said() -> None:
    with pytest.raises(CommandError, match="no diagnostic has the code `P9999`"):
        explained("P9999")
    with pytest.raises(CommandError, match="no diagnostic has the code"):
        explained("P0")


# ---- nothing is left out


def test_every_code_has_a_section_and_no_other() -> None:
    assert [s.code for s in SECTIONS] == sorted(codes())


def codes() -> set[str]:
    """Every code in the source of the checker."""
    return {code for text in programs() for code in re.findall(r"P0\d{3}", text)}


def programs() -> Iterator[str]:
    for package in ("cli", "grammar", "policies"):
        for path in (ROOT / package).rglob("*.py"):
            yield path.read_text(encoding="utf-8")


def test_every_section_says_something_besides_its_fences() -> None:
    prose = (_FENCE.sub("", s.text).replace(_FIXED, "") for s in SECTIONS)
    assert [s.code for s, text in zip(SECTIONS, prose, strict=True) if not text.strip()] == []
