"""Parser: text to syntax tree. Only this module imports lark.

The parse tables are built once and kept beside the compiled modules; callbacks build the tree
while lark parses. After an error the item around it is blanked and the rest is parsed again, so
that one run reports every item.

Lexemes are a text that cannot be parsed, cut into words, numbers, strings and signs. A sign of
another language, such as `=>` or `=~`, is one lexeme. Brackets know their partner.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.resources import files
from importlib.util import cache_from_source
from itertools import pairwise, takewhile
from pathlib import Path
from typing import cast

from lark import Lark
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from grammar.clauses import CLAUSE_WORDS, SHAPES, SHAPES_OF_SOURCES
from grammar.messages import catalogue
from grammar.messages.catalogue import ParseError
from grammar.messages.diagnostics import Diagnostic, Fix, Helper, Leads, answered
from grammar.syntax.clause_builder import Builder
from grammar.tree.ast import Expr, Literal
from grammar.tree.policy import File, Item
from grammar.tree.source import Source, Span
from grammar.tree.types import INT
from grammar.tree.walk import children

_PATTERN = re.compile(
    r"[ \t\r\n\f]+|(?P<comment>(?:#|//)[^\n]*)"
    r'|(?P<string>[rR](?:"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\'|"[^"\n]*"|\'[^\'\n]*\')'
    r'|"""(?:\\[\s\S]|[^\\])*?"""|"(?:\\.|[^"\\\n])*"'
    r"|'''(?:\\[\s\S]|[^\\])*?'''|'(?:\\.|[^'\\\n])*')"
    r"|(?P<number>\d+(?:\.\d+)?|\.\d+)|(?P<word>[A-Za-z_]\w*|`[\w.\-/ ]+`)"
    r"|(?P<sign>===|!==|=~|!~\*|!~|~\*|~=|==|!=|<=|>=|<>|=>|->|&&|\|\||\?\?|\?:|:=|\.\?|\[\?|\*\*|\.\.|\\.|[\s\S])"
)
_OPENERS = {"{": "}", "(": ")", "[": "]", "[?": "]"}
_CLOSERS = frozenset("})]")


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A lexeme: one word, number, string or sign, with its place."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def opens(self) -> bool:
        return self.text in _OPENERS

    @property
    def closes(self) -> bool:
        return self.text in _CLOSERS


_END = Lexeme("end", "", 0, 0)


class Lexemes:
    """The lexemes of one text. A position is the number of a lexeme."""

    def __init__(self, text: str) -> None:
        self.text = text
        found = [
            Lexeme(m.lastgroup, m.group(), m.start(), m.end())
            for m in _PATTERN.finditer(text)
            if m.lastgroup is not None
        ]
        self.items = [each for each in found if each.kind != "comment"]
        self.comments = [each for each in found if each.kind == "comment"]
        self.partner: dict[int, int] = {}
        # The brackets that no other closes, outermost first; and closing ones without a partner.
        self.unclosed: list[int] = []
        self.surplus: list[int] = []
        for number, item in enumerate(self.items):
            if item.opens:
                self.unclosed.append(number)
            elif item.closes:
                self._close(number)

    def _close(self, number: int) -> None:
        """Finds the partner of a closing bracket: a brace also ends what is open inside of it."""
        sign = self.items[number].text
        for place in reversed(range(len(self.unclosed))):
            opener = self.unclosed[place]
            if _OPENERS[self.items[opener].text] == sign:
                self.partner[number], self.partner[opener] = opener, number
                del self.unclosed[place]
                return
            if self.items[opener].text == "{":
                break
        self.surplus.append(number)

    def __getitem__(self, position: int) -> Lexeme:
        """The lexeme; an empty one before the first and behind the last."""
        return self.items[position] if 0 <= position < len(self.items) else _END

    def at(self, offset: int) -> int:
        """The position of the lexeme at an offset, or behind it; the number of all at the end."""
        return next((n for n, i in enumerate(self.items) if i.end > offset), len(self.items))

    def slice(self, first: int, last: int) -> str:
        """The text from one lexeme to another, both included."""
        return self.text[self[first].start : self[last].end] if first <= last else ""

    def span(self, first: int, last: int) -> Span:
        return Span(self[first].start, self[last].end)

    def touches(self, position: int) -> bool:
        """Whether nothing stands between a lexeme and the one before it."""
        return position > 0 and self[position - 1].end == self[position].start

    def opener(self, position: int) -> int | None:
        """The innermost bracket that is open at a position."""
        at = min(position, len(self.items)) - 1
        while at >= 0 and not self[at].opens:
            # What is in closed brackets is passed over.
            at = self.partner.get(at, at) - 1
        return at if at >= 0 else None

    def around(self, position: int) -> list[int]:
        """The brackets that are open at a position, outermost first."""
        found = list[int]()
        while (opener := self.opener(found[0] if found else position)) is not None:
            found.insert(0, opener)
        return found

    # ---- operands: names with their fields, indexes and calls; literals; parentheses

    def operand_before(self, position: int) -> int | None:
        """The first lexeme of the operand that ends before a position."""
        at = position - 1
        while True:
            item = self[at]
            if item.closes and item.text != "}":
                if (opener := self.partner.get(at)) is None:
                    return None
                before = self[opener - 1]
                if before.kind == "word" or before.text in (")", "]"):
                    at = opener - 1
                    continue
                return opener
            if item.kind not in ("word", "string", "number"):
                return None
            if self[at - 1].text in (".", ".?"):
                if not self.touches(at - 1):
                    # `.spec.taints` of jq
                    return at - 1
                at -= 2
                continue
            return at

    def operand_after(self, position: int) -> int | None:
        """The last lexeme of the operand that starts at a position."""
        at = position
        while self[at].text in ("!", "-"):
            at += 1
        item = self[at]
        if item.opens:
            if (closer := self.partner.get(at)) is None:
                return None
            at = closer
        elif item.kind not in ("word", "string", "number"):
            return None
        while True:
            following = self[at + 1]
            if following.text in (".", ".?") and self[at + 2].kind == "word":
                at += 2
            elif following.text in ("(", "[", "[?") and (closer := self.partner.get(at + 1)):
                at = closer
            else:
                return at

    def expression_end(self, position: int, stops: frozenset[str]) -> int:
        """The last lexeme of the text from a position to a stop word or to the bracket around."""
        at = position
        while at < len(self.items):
            item = self.items[at]
            if item.closes or (item.text in stops and self[at - 1].text not in (".", ".?")):
                break
            at = self.partner.get(at, at) + 1
        return at - 1


# A name with quotes or without them.
_WRITTEN_NAME = re.compile(r"\"([^\"\\\n`]{1,100})\"|([A-Za-z_][\w.-]{0,99})(?![\w.\"'-])")


def shape_at(text: str, offset: int) -> str | None:
    """How the item around an offset is written, with the author's name for it, else a filter."""
    lexemes = Lexemes(text)
    stop = lexemes.at(offset)
    around = lexemes.around(stop)
    for end in (*around, stop):
        head = takewhile(lambda n: lexemes[n].text not in ("{", "}"), range(end - 1, -1, -1))
        for at in head:
            shape, name = SHAPES.get(lexemes[at].text), lexemes[at + 1]
            is_item = name.kind in ("word", "string") or at + 1 == stop
            if shape is not None and is_item and lexemes[at - 1].text not in (".", "policy"):
                pairs = pairwise(each.text for each in lexemes.items[at:stop])
                source = next((b for a, b in pairs if a == "from"), "")
                return _named(SHAPES_OF_SOURCES.get(source, shape), name, text)
    return SHAPES["filter"] if around else None


def _named(shape: str, name: Lexeme, text: str) -> str:
    """The shape of an item with the name that is written there, if it can be that of the item."""
    found = _WRITTEN_NAME.match(text, name.start) if name.kind != "end" else None
    quoted, plain = found.groups("") if found is not None else ("", "")
    if '"x"' not in shape:
        quoted, plain = "", re.sub(r"\W", "_", quoted or plain)
    if not quoted and (not plain or plain[0].isdigit() or plain in keywords().values()):
        return shape
    return re.sub(r"\bx\b", lambda _: quoted or plain, shape, count=1)


def closed(found: Diagnostic, text: str) -> str | None:
    """The text with the bracket that an error asks for, where this moves no other character."""
    edit = found.remedy
    if found.code != "P0140" or edit is None:
        return None
    at = edit.span.start
    if at >= len(text.rstrip()):
        return text.rstrip() + edit.text.strip()
    # A blank behind the place gives way, rather one that is no line break.
    blanks = range(at, at + len(text[at:]) - len(text[at:].lstrip()))
    place = next((n for n in blanks if text[n] != "\n"), next(iter(blanks), None))
    if place is not None:
        return text[:place] + edit.text.strip()[:1] + text[place + 1 :]
    return None


_BLOCKS = frozenset({"policy", "cluster", "test"})
# What declares a name in a policy, and all words that begin an item of one.
DECLARING = frozenset({"let", "def", "data", "group", "count", "cards"})
ITEMS = DECLARING.union(
    CLAUSE_WORDS, "use description weight mode missing portable repair for".split()
)
_ITEMS = ITEMS | frozenset("namespace node pod at expect".split())
_TOKEN = re.compile(
    r"(?P<skip>[ \t\r\f]+|(?:#|//)[^\n]*)|(?P<line>\n)|(?P<open>[\[({])|(?P<close>[\])}])"
    r'|"""(?:\\[\s\S]|(?!""")[^\\])*"""|\'\'\'(?:\\[\s\S]|(?!\'\'\')[^\\])*\'\'\''
    r'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(?P<word>[A-Za-z_]\w*)|\w+|\\.|[\s\S]'
)


@dataclass(frozen=True, slots=True)
class _Mark:
    """A mark in a text: the start of a block or item (depth 0 or 1), or a block's closing brace."""

    offset: int
    depth: int
    closes: bool = False


def stretch(text: str, offset: int, *, in_block: bool) -> Span:
    """The part to leave out so that the rest can be parsed: the item at the offset, else the block.

    `in_block` is true for a text that is the inside of a policy. Only the first word of a line, or
    after a brace, starts an item; so names inside expressions do not.
    """
    marks = _marks(text, 1 if in_block else 0)
    before = [m for m in marks if m.offset <= offset and not m.closes]
    if not before:
        return Span(0, marks[0].offset if marks else len(text))
    start = before[-1]
    after = (
        m.offset for m in marks if m.offset >= offset and m is not start and m.depth <= start.depth
    )
    return Span(start.offset, next(after, len(text)))


def starts(text: str) -> list[int]:
    """The offsets where the policies and tests of a text begin."""
    return [m.offset for m in _marks(text, 0) if m.depth == 0 and not m.closes]


@dataclass(frozen=True, slots=True)
class OffsetContext:
    """The context of an offset: the parts of a text that decide what may follow there.

    `head` is the start of the block around it, up to its brace, or to the offset if there is none;
    it is empty outside of blocks. `item` goes from the start of the item, or of the head, to the
    offset.
    """

    head: Span
    item: Span

    def code(self, text: str) -> str:
        """The begun item in the begun block: other items of the block may have errors."""
        head = text[self.head.start : min(self.head.end, self.item.start)]
        return head + text[self.item.start : self.item.end]


def place(text: str, offset: int) -> OffsetContext:
    """The place of an offset."""
    marks = _marks(text[:offset], 0)
    if not marks or marks[-1].closes:
        start = marks[-1].offset + 1 if marks else 0
        return OffsetContext(Span(start, start), Span(start, offset))
    number = next((n for n, m in reversed([*enumerate(marks)]) if m.depth == 0), None)
    if number is None:
        return OffsetContext(Span(0, 0), Span(marks[-1].offset, offset))
    block = marks[number].offset
    depth = 0
    for match in _TOKEN.finditer(text, block):
        depth += (match.group() in ("(", "[")) - (match.group() in (")", "]"))
        if match.group() == "{" and depth <= 0:
            break
    else:
        return OffsetContext(Span(block, offset), Span(block, offset))
    if offset < match.end():
        return OffsetContext(Span(block, match.end()), Span(block, offset))
    start = marks[-1].offset if number + 1 < len(marks) else match.end()
    return OffsetContext(Span(block, match.end()), Span(start, offset))


def blank(text: str, span: Span) -> str:
    """The text with a span replaced by spaces, which keeps every offset and line."""
    hole = re.sub(r"[^\n]", " ", text[span.start : span.end])
    return text[: span.start] + hole + text[span.end :]


def _marks(text: str, base: int) -> list[_Mark]:
    marks: list[_Mark] = []
    depth, fresh = base, True
    for match in _TOKEN.finditer(text):
        kind, sign = match.lastgroup, match.group()
        if kind == "skip":
            continue
        if kind == "word" and fresh:
            words = _BLOCKS if depth == 0 else _ITEMS if depth == 1 else frozenset[str]()
            # `policy` at the start of a line starts a policy at any depth: a brace is missing.
            if sign == "policy" and text[match.start() - 1 : match.start()] in ("", "\n"):
                depth, words = 0, _BLOCKS
            if sign in words:
                marks.append(_Mark(match.start(), depth))
        if sign == "}":
            depth -= 1
            if depth <= 0:
                depth = 0
                # The closing brace belongs to the block, not to its last item.
                marks.append(_Mark(match.start(), 1, closes=True))
        elif sign == "{":
            depth += 1
        fresh = sign in ("\n", "{", "}")
    return marks


# ---- parsing

# The parser stops after this many errors, or when it has parsed so many characters for them.
MAX_MISTAKES, _MOST_PARSED = 20, 512 * 1024

# So many words say little without an example.
_MANY_WORDS = 4
_NAMED = {
    "NAME": "a name",
    "IDENT": "a name",
    "STRING": "a string",
    "SIGNED": "a number",
    "INT": "a whole number",
    "PERCENT": "a percentage",
    "AMOUNT": "a length of time such as `90s`",
    "RELOP": "a comparison",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "EQUAL": "`=`",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "RSQB": "`]`",
    "COLON": "`:`",
    "COMMA": "`,`",
    "QUOTED": "a name",
    "__ANON_1": "`..`",
}
# Where all of these are allowed, any item of a policy is.
_ITEM_RULES = frozenset(word.upper() for word in ITEMS)
# Terminals that begin or continue an expression; messages do not list them one by one.
_STARTERS = frozenset({"FLOAT", "UINT", "BYTES", "TRUE", "FALSE", "NULL", "NOT"})
# And these, which stand elsewhere, too.
_ALSO_STARTERS = frozenset("IDENT STRING INT AMOUNT LPAR LSQB LBRACE MINUS DOT".split())
_OPERATORS = frozenset(
    {"PLUS", "MINUS", "MULOP", "RELOP", "IN", "LSQB", "DOT", "QMARK", "QUESTION"}
)
# Where one of these is allowed, an expression has begun.
_IN_EXPRESSIONS = _STARTERS | _OPERATORS | {"QUOTED", "RPAR", "RSQB", "COMMA"}


def parse_file(source: Source) -> tuple[File, list[Diagnostic]]:
    """The policies and tests that could be parsed, and the errors of the rest."""
    tree, found = _parse(source, "file")
    return cast("File", tree) if tree is not None else File(()), found


def parse_rules(source: Source) -> tuple[tuple[Item, ...], list[Diagnostic]]:
    """The items of a text that is the inside of a policy (a PlacementPolicy's `rules`)."""
    tree, found = _parse(source, "rules")
    return cast("tuple[Item, ...]", tree) if tree is not None else (), found


def parse_expression(source: Source) -> tuple[Expr | None, list[Diagnostic]]:
    """The expression, or None and its errors."""
    tree, found = _parse(source, "expression")
    return (cast("Expr", tree) if not found else None), found


def accepts(text: str, start: str = "file") -> set[str]:
    """The terminals that may follow a text: for completion, and to recognise unfinished input."""
    interactive = _lark().parse_interactive(text, start=start)
    try:
        interactive.exhaust_lexer()
    except (UnexpectedToken, UnexpectedCharacters, ParseError):
        return set()
    return set(interactive.accepts())  # type: ignore[no-untyped-call]


@functools.cache
def keywords() -> Mapping[str, str]:
    """The keywords of the language by terminal, as `accepts` returns them."""
    end = "(?![A-Za-z0-9_])"
    patterns = ((t.name, t.pattern.value) for t in _lark().terminals)
    return {name: text.removesuffix(end) for name, text in patterns if text.endswith(end)}


@dataclass(frozen=True, slots=True)
class _Stop:
    """A stop of the parser: the error that ended it, and the offset of its word.

    `built` is true for what could be parsed, but is wrong: it is found behind its place.
    """

    at: int
    said: Diagnostic
    built: bool = False


def _parse(source: Source, start: str) -> tuple[object | None, list[Diagnostic]]:
    if (refused := scan(source)) is not None:
        return None, [refused]
    in_block = start == "rules"
    text, found = source.text, list[Diagnostic]()
    most = min(MAX_MISTAKES, max(1, _MOST_PARSED // max(1, len(text))))
    while True:
        tried = Source(source.name, text)
        end = _attempt(tried, start)
        if not isinstance(end, _Stop):
            wrong = list(problems(end))
            # Functions that recurse over a tree rely on the depth limit.
            whole = end if all(p.code != "P0011" for p in wrong) else None
            return whole, sorted([*found, *wrong], key=lambda d: d.span.start)
        found.append(end.said)
        last = found[-1]
        if len(found) > 1 and last.code == "P0001" and source.slice(last.span) == "}":
            # The brace of a block that an earlier error is about.
            found.pop()
        if start == "expression" or len(found) >= most:
            return None, found
        blanked = closed(last, text)
        if blanked is None:
            hole = stretch(text, last.span.start, in_block=in_block)
            blanked = blank(text, hole)
        if blanked == text:
            return None, sorted(found, key=lambda d: d.span.start)
        text = blanked


def _attempt(source: Source, start: str) -> object | _Stop:
    """The tree of a text, or the error that ends the parse, with its hint if somebody looks."""
    try:
        return _lark().parse(source.text, start=start)
    except ParseError as error:
        plain = error.diagnostic
        at = plain.span.start
        if plain.code == "P0202":
            # All parts of the clause that are there could be read.
            at = stretch(source.text, at, in_block=start == "rules").end
        found = answered(
            plain,
            len(source.text),
            lambda asked: asked.built(plain, source, _further(asked, source, start, at)),
        )
        return _Stop(at, found, built=True)
    except UnexpectedToken as error:
        is_end = error.token.type == "$END"
        at = len(source.text) if is_end else min(error.token.start_pos or 0, len(source.text))
        end = len(source.text.rstrip())
        span = Span(end, end) if is_end else Span(at, error.token.end_pos or 0)
        return _wrong(source, start, at, span, error.accepts or set())
    except UnexpectedCharacters as error:
        at = cast("int", error.pos_in_stream)
        span = Span(at, at + 1)
        if source.text[at] in "\"'":
            return _Stop(at, catalogue.unclosed_string(span))
        return _wrong(source, start, at, span, error.allowed or set(), unknown=True)


def _wrong(
    source: Source, start: str, at: int, span: Span, accepted: set[str], *, unknown: bool = False
) -> _Stop:
    """The stop at a wrong word, with what to write in its place if somebody looks for hints.

    The terminals are accepted instead. `unknown` is a character that the language has not.
    """

    def ask(asked: Helper) -> Diagnostic | None:
        return asked.unexpected(source, span, accepted, _further(asked, source, start, at))

    answer, word = answered(None, len(source.text), ask), source.slice(span)
    if answer is None and unknown:
        return _Stop(at, catalogue.bad_character(word, span))
    hint = _expectation(accepted, source, span)
    if answer is None:
        return _Stop(at, catalogue.unexpected(word, span, hint))
    return _Stop(at, replace(answer, other_hint=answer.other_hint or hint))


def _further(asked: Helper, source: Source, start: str, at: int) -> Leads:
    """What says of an edit whether the parse gets further with it than to an offset.

    A block that an edit writes is read to its end, or the edit is no hint. Only the policy around
    the offset is parsed again, as far as the helper affords it.
    """
    text = source.text

    def leads(edit: Fix) -> bool:
        first, last = min(at, edit.span.start), max(at, edit.span.end)
        blocks = starts(text) if start == "file" else []
        begin = max((s for s in blocks if s <= first), default=0)
        end = min((s for s in blocks if s > last), default=len(text))
        changed = text[begin : edit.span.start] + edit.text + text[edit.span.end : end]
        if not asked.affords(len(changed)):
            return False
        stop = _attempt(Source(source.name, changed), start)
        read = max(at + 1, edit.span.end if "{" in edit.text else 0)
        if not isinstance(stop, _Stop) or len(changed) - stop.at <= end - read:
            return True
        # What was not reached before.
        return stop.built and stop.said.span.end <= edit.span.start - begin

    return leads


@functools.cache
def _lark() -> Lark:
    """The parse tables with the builder's callbacks; they are stateless and serve all threads."""

    def parse_hole(text: str, offset: int) -> Expr:
        # Leading spaces give each token its offset in the whole text.
        return cast("Expr", lark.parse(" " * offset + text, start="expression"))

    grammar = files("grammar.syntax").joinpath("policy.lark").read_text(encoding="utf-8")
    lark = Lark(
        grammar,
        parser="lalr",
        lexer="contextual",
        start=["file", "rules", "expression"],
        maybe_placeholders=False,
        keep_all_tokens=True,
        transformer=Builder(parse_hole),
        cache=_cache_file(),
    )
    return lark


def _cache_file() -> str:
    """The file that keeps the parse tables between runs, beside what Python keeps of this module.

    Whoever may write it may write this module, too. Nothing is kept where it cannot be written.
    """
    file = Path(cache_from_source(__file__)).with_suffix(".tables")
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
    return str(file)


def _expectation(accepted: set[str], source: Source, span: Span) -> str | None:
    """The hint that says what may stand in a place, and how the clause there is written."""
    if not (words := _expected(accepted)):
        return None
    hint = f"expected {catalogue.listed(words)}"
    is_shown = len(words) >= _MANY_WORDS or not accepted & _IN_EXPRESSIONS
    shape = shape_at(source.text, span.start) if is_shown else None
    return hint if shape is None else f"{hint}, as in `{shape}`"


def _expected(accepted: set[str]) -> list[str]:
    """The accepted terminals in words; all beginnings of an expression are one of them."""
    words = []
    if accepted & _STARTERS:
        words.append("an expression")
        accepted = accepted - _STARTERS - _ALSO_STARTERS
    elif accepted & _OPERATORS:
        accepted = accepted - _OPERATORS
    names = {t for t in accepted if t.isalpha() and t not in _NAMED}
    words.extend(sorted(_NAMED[t] for t in accepted if t in _NAMED))
    if names >= _ITEM_RULES:
        words.append("a clause")
        names -= _ITEM_RULES
    words.extend(f"`{t.lower()}`" for t in sorted(names) if t not in _OPERATORS)
    return words


# ---- limits

MAX_BYTES = 64 * 1024
MAX_TOKENS = 20_000
MAX_DEPTH = 100
# The name of an object in Kubernetes has at most as many characters.
MAX_NAME = 253
# No number needs more digits, and each number with these still fits in a double.
MAX_DIGITS = 250


def scan(source: Source) -> Diagnostic | None:
    """The reason to refuse a text before it is parsed, or None."""
    size = len(source.text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        return catalogue.too_large("bytes", size, MAX_BYTES)
    tokens = depth = 0
    for match in _TOKEN.finditer(source.text):
        kind = match.lastgroup
        if kind in ("skip", "line"):
            continue
        tokens += 1
        if match.end() - match.start() > MAX_DIGITS and match.group()[0].isdigit():
            return catalogue.bad_literal("the number has too many digits", Span(*match.span()))
        if kind == "open":
            depth += 1
            if depth > MAX_DEPTH:
                return catalogue.too_deep(MAX_DEPTH, Span(*match.span()))
        elif kind == "close":
            depth -= 1
    return catalogue.too_large("tokens", tokens, MAX_TOKENS) if tokens > MAX_TOKENS else None


def problems(root: object) -> Iterator[Diagnostic]:
    """Errors of a parsed tree: too deep (reported once), and ints beyond 64 bits."""
    stack = [(expr, 1) for expr in ([root] if isinstance(root, Expr) else children(root))]
    while stack:
        expr, depth = stack.pop()
        if depth > MAX_DEPTH:
            yield catalogue.too_deep(MAX_DEPTH, expr.span)
            return
        match expr:
            case Literal(int() as number, type_) if type_ == INT and not -(2**63) <= number < 2**63:
                yield catalogue.int_out_of_range(str(number), expr.span)
            case _:
                stack.extend((child, depth + 1) for child in children(expr))
