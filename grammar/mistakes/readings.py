"""Readings: what a whole item of plain English or of another language is as a clause.

`readings.txt` is their grammar. An item is read only if a pattern has each of its words, so that no
clause leaves out a part.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files

from grammar.messages import plain_words
from grammar.mistakes.misplaced import WORDS
from grammar.mistakes.rewrites import LABEL, denied, domain_of, label_or_empty, place_of, printed
from grammar.syntax.parser import Lexemes, parse_expression
from grammar.tree.printer import print_string
from grammar.tree.source import Source

# No item that is read is as long, or has so many words and signs.
_LONGEST, _MOST = 400, 150
# Signs that say nothing in a row that begins with `~`.
_SIGNS = frozenset(":=-{}[](),;")
# What joins the words of a value.
_JOINS = frozenset("-./@")
# What patterns and placeholders have in them.
_NO_VALUES = frozenset("*?{}$<>!|")
# What goes on with an expression.
_ON = frozenset(". .? [ [? ( == != < <= > >= && || + * / % ? in".split())
# What ends an expression.
_ENDS = frozenset(", ; = := => ->".split()) | WORDS
_PART = re.compile(r"<(\w+)(?::(\w+))?(?:\|([^>]*))?>")

_Parts = Mapping[str, str]


def clause_of(text: str) -> str | None:
    """The clause, or the `for`, that says what an item means; None unless all of it is read."""
    return None if len(text) > _LONGEST else _read(text)


@functools.lru_cache(maxsize=256)
def _read(text: str) -> str | None:
    """The answer to an item; an editor asks for it again at each keystroke."""
    reader = _Reader(text)
    read = reader.of("start", 0, loose=False) if reader.is_whole else ()
    made = next((said for end, said in read if reader.ends(end)), None)
    return None if made == " ".join(text.split()) else made


@functools.cache
def _rows() -> Mapping[str, Sequence[tuple[bool, Sequence[str], str]]]:
    """The rows of each kind: whether signs say nothing there, the pattern, and the text here."""
    found, kind = dict[str, list[tuple[bool, Sequence[str], str]]](), ""
    for line in files("grammar.mistakes").joinpath("readings.txt").read_text("utf-8").splitlines():
        if line.startswith("//") or not line.strip():
            continue
        head, row = ("", line) if line.startswith(" ") else line.split(":", 1)
        kind = head or kind
        pattern, _, made = row.rpartition(" => ") if " => " in row else (row, "", "")
        tokens = pattern.split()
        loose = tokens[0] == "~"
        found.setdefault(kind, []).append((loose, tokens[loose:], made.strip()))
    return found


@functools.cache
def _words() -> frozenset[str]:
    """The words of plain patterns, none of which is a value."""
    tokens = (t for rows in _rows().values() for loose, each, _ in rows if not loose for t in each)
    words = (w for t in tokens if "<" not in t for w in t.removesuffix("?").split("|"))
    return frozenset(w for w in words if len(w) > 1)


_TEAM = '.labels["team"]'
_ZONE = re.compile(r'node\.(zone|region) == (?="[^"]*"\Z)')


def _negated(condition: str) -> str | None:
    """The opposite of a condition; a label that is not there is no other value."""
    plain = _ZONE.sub(r'node.labels["topology.kubernetes.io/\1"] == ', condition)
    return _denied(plain if LABEL.fullmatch(plain) is not None else condition)


def _denied(condition: str) -> str | None:
    """The opposite of a condition, with no more brackets than it needs."""
    said, lexemes = denied(condition), Lexemes(condition)
    if said is None or lexemes.operand_after(0) != len(lexemes.items) - 1:
        return said
    if not condition.startswith("!"):
        return f"!{condition}"
    inner = condition[1:]
    return inner[1:-1] if inner.startswith("(") else inner


def _runs(lexemes: Lexemes, at: int) -> Iterator[int]:
    """The ends of words, numbers and signs that touch: `eu-1a`, `kubernetes.io/arch`, `web-*`."""
    while lexemes[at].kind in ("word", "number") or lexemes[at].text in _JOINS:
        at += 1
        if lexemes[at - 1].text not in _JOINS:
            yield at
        if not lexemes.touches(at):
            return


def _values(lexemes: Lexemes, at: int) -> Iterator[tuple[int, str]]:
    """A value as a text; a pattern or a placeholder is none."""
    if lexemes[at].kind == "string" and (said := lexemes[at].text.strip("\"'")).isprintable():
        if not set(said) & _NO_VALUES:
            yield at + 1, print_string(said)
    elif lexemes[at].text not in WORDS and (ends := [*_runs(lexemes, at)]):
        yield ends[-1], print_string(lexemes.slice(at, ends[-1] - 1))


def _all_values(lexemes: Lexemes, at: int) -> Iterator[tuple[int, str]]:
    """The values of one list, or a value alone."""
    found = list[str]()
    while (one := next(_values(lexemes, at), None)) is not None:
        at = one[0]
        found.append(one[1])
        if lexemes[at].text not in (",", "-"):
            yield at, ", ".join(found)
            return
        at += 1


def _all_pairs(lexemes: Lexemes, at: int) -> Iterator[tuple[int, str]]:
    """Keys of labels with their values: in braces, with commas, or in lines one below another."""
    end = lexemes.partner.get(at - 1) if lexemes[at - 1].text == "{" else None
    column = _column(lexemes, at)
    said = ""
    while (key := next(_values(lexemes, at), None)) is not None:
        at = key[0] + (lexemes[key[0]].text in (":", "="))
        if (value := next(_values(lexemes, at), None)) is None:
            return
        at, said = value[0], f"{said} && §.labels[{key[1]}] == {value[1]}".removeprefix(" && ")
        if end is None or at == end:
            yield at, said
        at += lexemes[at].text == ","
        is_below = "\n" in lexemes.text[lexemes[at - 1].end : lexemes[at].start]
        is_next = lexemes[at - 1].text == "," or (is_below and _column(lexemes, at) == column)
        if end is None and not is_next:
            return


def _column(lexemes: Lexemes, at: int) -> int:
    return lexemes[at].start - lexemes.text.rfind("\n", 0, lexemes[at].start)


def _prefixes(lexemes: Lexemes, at: int) -> Iterator[tuple[int, str]]:
    """What stands before the `*` of a pattern."""
    said = lexemes[at].text.strip("\"'")
    if lexemes[at].kind == "string" and said.endswith("*") and not set(said[:-1]) & _NO_VALUES:
        yield at + 1, print_string(said[:-1])


def _values_like(pattern: str) -> Callable[[Lexemes, int], Iterator[tuple[int, str]]]:
    return lambda lexemes, at: (v for v in _values(lexemes, at) if re.fullmatch(pattern, v[1]))


def _plain_values(lexemes: Lexemes, at: int) -> Iterator[tuple[int, str]]:
    for end, said in _values(lexemes, at):
        if said.strip('"').lower() not in _words():
            yield end, said


_OBJECTS = re.compile(
    r"""(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|\s*\n\s*"""
    r"|(?<![\w.])(?P<pod>(?:request\.)?object\.(?=(?:spec|metadata|status)\b))"
    r"|(?<![\w.])(?P<input>input\.(?=(?:node|pod)\b))"
)
_INSTEAD = {"pod": "pod.", "input": "", None: " "}


def _expression(text: str) -> str | None:
    """An expression of this language, on one line; admission has other names for the objects."""
    said = _OBJECTS.sub(lambda found: found["text"] or _INSTEAD[found.lastgroup], text)
    return said if parse_expression(Source("", said))[0] is not None else None


def _expressions(lexemes: Lexemes, at: int) -> Iterator[tuple[int, str]]:
    """The expressions of this language that begin at a place."""
    end, operands = at, ("word", "number", "string")
    while end < len(lexemes.items) and not lexemes[end].closes and lexemes[end].text not in _ENDS:
        two = lexemes[end - 1], lexemes[end]
        if end > at and all(i.kind in operands and i.text != "in" for i in two):
            return
        end = lexemes.partner.get(end, end) + 1
        if lexemes[end].text not in _ON:
            said = _expression(lexemes.slice(at, end - 1))
            if said is not None:
                yield end, said


def _raw(lexemes: Lexemes, at: int) -> Iterator[tuple[int, str]]:
    """All that stands up to the end of a block."""
    end = lexemes.expression_end(at, frozenset())
    if end >= at:
        yield end + 1, lexemes.slice(at, end)


def _quoted(lexemes: Lexemes, at: int) -> Iterator[tuple[int, str]]:
    """An expression in quotes."""
    if lexemes[at].kind == "string" and (said := _expression(lexemes[at].text[1:-1])) is not None:
        yield at + 1, said


def _paths(lexemes: Lexemes, at: int) -> Iterator[tuple[int, str]]:
    """What a text of Kyverno takes from an object."""
    path = re.fullmatch(r"[\"']\{\{\s*([^{}]+?)\s*\}\}[\"']", lexemes[at].text)
    if path is not None and (said := _expression(path[1])) is not None:
        yield at + 1, said


def _of_kind(kind: str) -> Callable[[Lexemes, int], Iterator[tuple[int, str]]]:
    def one(lexemes: Lexemes, at: int) -> Iterator[tuple[int, str]]:
        if lexemes[at].kind == kind:
            yield at + 1, lexemes[at].text

    return one


_KINDS: Mapping[str, Callable[[Lexemes, int], Iterator[tuple[int, str]]]] = {
    "string": _of_kind("string"),
    "number": _of_kind("number"),
    "word": _of_kind("word"),
    "any": _values,
    "all_values": _all_values,
    "all_pairs": _all_pairs,
    "key": lambda lexemes, at: _values(lexemes, at) if lexemes[at].kind == "word" else iter(()),
    "value": _plain_values,
    "place_name": _values_like(r'"([A-Za-z]|[A-Za-z].*\d.*)"'),
    "memory": _values_like(r'"\d+(\.\d+)?[KMGT]i?"'),
    "expr": _expressions,
    "raw": _raw,
    "path": _paths,
    "prefix": _prefixes,
    "quoted": _quoted,
}


def _domain(key: str) -> str | None:
    """A place, or the label of a node with this key; None for a word that is neither."""
    key = key.strip('"')
    return domain_of(key) if key in plain_words.DOMAINS or re.search(r"[./]", key) else None


def _per(key: str) -> str | None:
    domain = _domain(key)
    return domain and f"per {place_of(domain)}"


_FORMS: Mapping[str, Callable[[str], str | None]] = {
    "when": lambda said: f" when {said.replace('§', 'pod')}" if said else "",
    "counted": lambda said: f"pods where {said.replace('§', 'peer')}",
    # A team can have pods in other namespaces, which are not counted.
    "where": lambda said: None if _TEAM in said else said and _FORMS["counted"](f"{said} "),
    "pod": lambda said: said.replace("§", "pod"),
    "node": lambda said: said.replace("§", "node"),
    # A pod without the label is none of them.
    "victim": lambda said: LABEL.sub(
        lambda m: f"{label_or_empty(m)} == {m[3]}", said.replace("§", "victim")
    ),
    "denied": _denied,
    "first": lambda said: re.findall(r"\w+", said)[0],
    # The pods that a limit with a name counts need not be those that it is for.
    "block": lambda said: said[said.index("{") :],
    "more": lambda said: f" {said}" if said else "",
    "notpod": lambda said: _negated(said.replace("§", "pod")),
    "notvictim": lambda said: _negated(said.replace("§", "victim")),
    "of_peer": lambda said: said.replace("peer.", "§."),
    "last": lambda said: said.split()[-1],
    "second": lambda said: f'{said[:-1]} 2"',
    "not": _negated,
    "among": lambda said: f"in [{said}]" if '", ' in said else f"== {said}",
    "less": lambda said: str(int(said) - 1),
    "over": lambda said: said.removeprefix("per "),
    "kind": lambda said: plain_words.WORDS_OF_NODES[said.lower()],
    "bare": lambda said: said.strip("\"'"),
    "domain": _domain,
    "per": _per,
    "printed": printed,
}


def _filled(made: str, parts: _Parts) -> str | None:
    """What a row makes of its parts; None if a part has not the form that is meant."""

    def part(found: re.Match[str]) -> str:
        said, form = parts.get(found[1], ""), found[2]
        if form == "others":
            (read, _, value), (own, _, other) = (parts[n].rpartition(" == ") for n in "op")
            if read != own or value == other:
                raise ValueError(form)
            wide = "all " * (read in ("§.namespace", f"§{_TEAM}"))
            return f"{wide}{_FORMS['counted'](said)} "
        if form in parts:
            # The clause has a name.
            return said.replace("¤", parts[form])
        if (formed := _FORMS[form](said) if form else said) is None:
            raise ValueError(form)
        return formed or found[3] or ""

    try:
        return _PART.sub(part, made)
    except ValueError:
        return None


class _Reader:
    """A reader of one item, which knows what each kind of part can be at each place."""

    def __init__(self, text: str) -> None:
        self._lexemes = lexemes = Lexemes(text)
        self._all = print_string(" ".join(text.split()))
        self._known: dict[tuple[str, int, bool], list[tuple[int, str]]] = {}
        # A bracket without its partner is another mistake.
        is_short = len(lexemes.items) <= _MOST and not lexemes.unclosed and not lexemes.surplus
        # In a comment something is said.
        self.is_whole = is_short and not lexemes.comments

    def ends(self, at: int) -> bool:
        return all(item.closes or item.text == ";" for item in self._lexemes.items[at:])

    def of(self, kind: str, at: int, *, loose: bool) -> list[tuple[int, str]]:
        """Where a part of a kind ends that begins at a place, each with what it is here."""
        key = kind, at, loose
        if key not in self._known:
            self._known[key] = []
            found: dict[int, str] = {}
            if kind in _KINDS:
                found.update(_KINDS[kind](self._lexemes, at))
            for row_loose, tokens, made in _rows().get(kind, ()):
                for end, parts in self._sides(tokens, at, {"all": self._all}, loose or row_loose):
                    whole = {**parts, "0": self._lexemes.slice(at, end - 1)}
                    said = None if end in found else _filled(made, whole)
                    if said is not None:
                        found[end] = said
            self._known[key] = list(found.items())
        return self._known[key]

    def _sides(
        self, tokens: Sequence[str], at: int, parts: _Parts, loose: bool
    ) -> Iterator[tuple[int, _Parts]]:
        """Where a pattern ends that begins at a place, each with its parts."""
        if not tokens:
            yield at, parts
            return
        lexemes, token, rest = self._lexemes, tokens[0], tokens[1:]
        plain = token.removesuffix("?")
        word = lexemes[at]
        while loose and word.text in _SIGNS:
            if word.text == "-" and lexemes.touches(at + 1) and not lexemes.touches(at):
                break
            at += 1
            word = lexemes[at]
        if (named := _PART.fullmatch(plain)) is not None:
            for end, said in self.of(named[2], at, loose=loose):
                yield from self._sides(rest, end, {**parts, named[1]: said}, loose)
        # Among signs that say nothing, keys stand in quotes too.
        elif word.text.lower().strip("\"'" if loose else "") in plain.lower().split("|"):
            yield from self._sides(rest, at + 1, parts, loose)
        if plain != token:
            yield from self._sides(rest, at, parts, loose)
