"""The TextMate grammar of the VS Code extension, compared with the grammar of the language."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grammar.syntax.parser import _lark, keywords
from grammar.tree.source import Source
from tests.editors.textmate import FILE, Piece, TextMate, coloured

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "deploy" / "editors" / "vscode"
GRAMMAR: dict[str, Any] = json.loads((EXTENSION / "placet.tmLanguage.json").read_text("utf-8"))
CONSTANTS = {"TRUE", "FALSE", "NULL"}
# The scopes that the tokens of each terminal may have; what is not here has only to have one.
SCOPES = {
    "STRING": ("string.",),
    "BYTES": ("string.",),
    "INT": ("constant.numeric",),
    "UINT": ("constant.numeric",),
    "FLOAT": ("constant.numeric",),
    "PERCENT": ("constant.numeric",),
    "AMOUNT": ("constant.numeric",),
    "SIGNED": ("constant.numeric", "keyword.operator"),
    "RELOP": ("keyword.operator",),
    "PLUS": ("keyword.operator",),
    "MINUS": ("keyword.operator",),
    "MULOP": ("keyword.operator",),
    "NOT": ("keyword.operator",),
    "QUESTION": ("keyword.operator",),
    "QUOTED": ("variable.other.member",),
    "NAME": ("entity.name.type", "constant.language"),
    "IDENT": ("variable.", "entity.name.function", "support.type"),
}


def texts() -> Iterator[Source]:
    """The policies of the library, and those of the docs: files, and examples in pages."""
    for folder in ("policies/library", "docs/examples", "cli/demo"):
        for file in sorted((ROOT / folder).rglob("*.policy")):
            yield Source(str(file.relative_to(ROOT)), file.read_text("utf-8"))
    for page in sorted((ROOT / "docs").rglob("*.md")):
        fences = re.findall(
            r"(?ms)^```(?:placet)?\n((?:cluster )?policy .*?)^```", page.read_text("utf-8")
        )
        for number, text in enumerate(fences, 1):
            yield Source(f"{page.name} {number}", text)


@pytest.fixture(scope="module")
def textmate() -> TextMate:
    return TextMate(GRAMMAR)


def scopes(pieces: list[Piece], start: int, end: int) -> set[str]:
    return {p.scope for p in pieces if p.start < end and start < p.end}


@pytest.mark.parametrize("source", [*texts()], ids=lambda source: source.name)
def test_each_token_of_the_parser_has_its_scope(source: Source, textmate: TextMate) -> None:
    pieces, words = textmate.pieces(source.text), set(keywords().values())
    wrong, before = [], ""
    for token in _lark().parse_interactive(source.text, start="file").exhaust_lexer():
        assert token.start_pos is not None
        assert token.end_pos is not None
        found = scopes(pieces, token.start_pos, token.end_pos)
        wanted = SCOPES.get(token.type, ("",))
        # The parser takes these words as names.
        of_range = before == "RANGE" and token in ("minmax", "greatest", "rank")
        before = token.type
        if token.type in CONSTANTS or of_range:
            wanted = ("constant.language",)
        elif token.type in keywords() or (token.type == "IDENT" and token in words):
            # A name that is also a word of clauses may look like one: only a parser knows.
            wanted = (
                "keyword.",
                "storage.type",
                *(SCOPES["IDENT"] if token.type == "IDENT" else ()),
            )
        if "" in found or not any(s.startswith(wanted) for s in found):
            line, _ = source.position(token.start_pos)
            wrong.append((line, token.type, str(token), found))
    assert wrong == []


def test_the_keywords_are_those_of_the_language() -> None:
    """`make colours` writes them."""
    text = FILE.read_text("utf-8")
    assert coloured(text) == text


def test_every_keyword_has_a_scope(textmate: TextMate) -> None:
    # Words that are variables, too, are keywords beside certain others.
    beside = {
        "cluster": "cluster policy p",
        "node": "per node",
        "pod": 'pod "shop/web-1"',
        "policy": 'policy "p"',
        "test": 'test "t"',
        "victim": "protect victim",
    }
    for word in keywords().values():
        text = beside.get(word, f"{word} x")
        start = text.index(word)
        found = scopes(textmate.pieces(text), start, start + len(word))
        assert len(found) == 1, word
        assert found.pop().startswith(("keyword.", "storage.", "constant.")), word


@pytest.mark.parametrize(
    ("text", "part", "scope"),
    [
        ("x # a comment", "# a comment", "comment."),
        ("x // a comment", "// a comment", "comment."),
        ('let a = r"C:\\"', 'r"C:\\"', "string."),
        ("let a = b'\\x00'", "b'\\x00'", "string."),
        ('let a = """two\nlines # no comment"""', "lines # no comment", "string."),
        ('message "on {node.zone}, {{so}}"', "node", "variable.language"),
        ('message "on {node.zone}, {{so}}"', "zone", "variable.other.member"),
        ('message "on {node.zone}, {{so}}"', "so", "string."),
        ('message "on {node.zone}, {{so}}"', "{{", "constant.character.escape"),
        ('require x == "node {zone}"', "zone", "string."),
        ("at most slots%", "slots%", "constant.numeric"),
        ("for at most 1m30s", "1m30s", "constant.numeric"),
        ("a.`b/c`", "`b/c`", "variable.other.member"),
        ("1.5e3 + 0xFFu", "0xFFu", "constant.numeric"),
        ("a ? .5 : -1", ".5", "constant.numeric"),
    ],
)
def test_what_the_policies_do_not_show(
    text: str, part: str, scope: str, textmate: TextMate
) -> None:
    start = text.index(part)
    found = scopes(textmate.pieces(text), start, start + len(part))
    assert all(s.startswith((scope, "constant.character")) for s in found), found


def test_pieces_are_the_text(textmate: TextMate) -> None:
    text = 'policy p {\n  filter "f" { message "{node.zone\n  let a = """\n}'
    pieces = textmate.pieces(text)
    ends = [0, *(p.end for p in pieces)]
    assert [text[a : p.start].strip("\n") for a, p in zip(ends, pieces, strict=False)] == [
        ""
    ] * len(pieces)


def test_the_files_of_the_extension_belong_together() -> None:
    manifest = json.loads((EXTENSION / "package.json").read_text("utf-8"))
    contributes = manifest["contributes"]
    (language,), (colours,) = contributes["languages"], contributes["grammars"]
    assert (language["id"], language["extensions"]) == ("placet", [".policy"])
    assert (colours["language"], colours["scopeName"]) == ("placet", GRAMMAR["scopeName"])
    named = (manifest["main"], language["configuration"], colours["path"])
    assert all((EXTENSION / name).is_file() for name in named)
    configuration = json.loads((EXTENSION / language["configuration"]).read_text("utf-8"))
    assert configuration["comments"] == {"lineComment": "#"}
    code = (EXTENSION / manifest["main"]).read_text("utf-8")
    read = set(re.findall(r'settings\.get\("(\w+)"\)', code))
    assert {f"placet.{name}" for name in read} == set(contributes["configuration"]["properties"])
    assert 'args: ["lsp", ' in code
