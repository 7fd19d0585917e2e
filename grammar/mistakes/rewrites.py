"""Rewrites: rows of a wrong text around the word that the parser stopped at, and what it is here.

A row is a pattern of lexemes with names for operands and expressions. The rows are in
`rewrites.txt` by the order in which they are asked, and those that the table of habits makes are
here, with what finds them in a text and fills them in. The first row that leads the parser further
is the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import pairwise

from grammar.clauses import CLAUSE_WORDS, CLAUSES_ARE
from grammar.messages import habits, plain_words
from grammar.messages.diagnostics import Diagnostic, Remedy
from grammar.messages.texts import filled, template_of
from grammar.mistakes.misplaced import ITEMS, PARTS, STOPS, WORDS, Misplaced
from grammar.tree.printer import print_string
from grammar.tree.source import Span


@dataclass(frozen=True, slots=True)
class Rewrite:
    r"""A rewrite of a wrong text into what stands for it here.

    In `wrong`, `a|b` is one of two lexemes, and `(a)` may be left out. `{a}` is an operand, and
    `{a:kind}` a part of a kind, such as a word. `\(` is a bracket. The parser stopped at the lexeme
    behind `^`; without a `^`, at any lexeme. The text between `<` and `>` is replaced, else the
    whole. `{a:form}` in `instead` is the part in a form. A part without this form is not meant.
    The terminals of `needs` must be accepted, and no others than those in `only`.
    """

    wrong: str
    instead: str
    hint: str = ""
    needs: str = ""
    only: str = ""
    certain: bool = False
    # Whether the hint is an edit.
    edits: bool = True


# ---- kinds of parts in a wrong text

_ENDS = STOPS | {"&&", "||", "and", "or", ""}
_ENDS_ARGUMENT = STOPS | {",", "for", "if", "else", ";", "in"}
# Words that are of pods, and no places.
_OF_PODS = frozenset(
    "namespace ns team app tenant user label deployment workload statefulset job pod pods replica"
    " container service".split()
)
WORD_KINDS: Mapping[str, Callable[[str], object]] = {
    "word": re.compile(r"[A-Za-z_]\w*").fullmatch,
    "item": ITEMS.__contains__,
    "part": WORDS.__contains__,
    "clause": CLAUSE_WORDS.__contains__,
    "number": re.compile(r"\d+(?:\.\d+)?").fullmatch,
    "string": re.compile(r"[rR]?[\"'].*[\"']", re.DOTALL).fullmatch,
    "unit": lambda text: habits.unit(text) is not None,
    "foreign": ("$", "@").__contains__,
    "place": lambda text: text.strip("\"'") not in _OF_PODS,
    "mode": ("enforce", "audit").__contains__,
    "zone": plain_words.DOMAINS.__contains__,
    "needless": habits.NEEDLESS.__contains__,
    "head": ("{", "when", "weight").__contains__,
    "closes": lambda text: text in WORDS or text == "}",
    "noamount": lambda text: text not in ("sum", "at", "range", ".."),
    "any": re.compile(r".+", re.DOTALL).fullmatch,
}
# ---- forms of parts in what is written instead


def _optional(read: str) -> str | None:
    """The read of a field or key as an optional."""
    if (key := re.fullmatch(r"(.+)\[([^\[\]]+)\]", read, re.DOTALL)) is not None:
        return f"{key[1]}[?{key[2]}]"
    field = re.fullmatch(r"(.+)\.(\w+)", read, re.DOTALL)
    return f"{field[1]}.?{field[2]}" if field is not None else None


def _as_list(text: str) -> str:
    """A list of SQL in parentheses as one in brackets; a text alone as a list of one."""
    if text[:1] + text[-1:] in ("()", "{}"):
        return f"[{text[1:-1]}]"
    if text[:1] in "\"'" and "," in text and text.count(text[:1]) == 2:
        return f"[{', '.join(print_string(part.strip()) for part in text[1:-1].split(','))}]"
    return f"[{text}]" if text[:1] in "\"'" else text


def _like(pattern: str) -> str | None:
    """What follows a text for a pattern of SQL with a `%` at an end, and no other sign."""
    inner = pattern[1:-1] if "%" in pattern else pattern[1:-1].replace("*", "%")
    found = re.fullmatch(r"(%?)([^%_]+)(%?)", inner)
    if found is None or not (found[1] or found[3]):
        return None
    method = "contains" if found[1] and found[3] else "startsWith" if found[3] else "endsWith"
    return f'.{method}("{found[2]}")'


def domain_of(key: str) -> str:
    """A place, or the label of a node with this key."""
    key = key.strip("\"'")
    label = key if re.match(r"node\.", key) else f"node.labels[{print_string(key)}]"
    return plain_words.DOMAINS.get(key.lower(), label)


_NAMED = {"node.name": "node", "node.zone": "zone", "node.region": "region"}


def place_of(domain: str) -> str:
    """What stands behind `per` for a domain."""
    return _NAMED.get(domain, domain)


def _macro(word: str) -> str | None:
    row = habits.find(habits.MACROS, word)
    here = "sortBy" if word == "sort" else row.here if row is not None else word
    return None if here.startswith("!") else here


def _allocatable(read: str) -> str | None:
    found = re.fullmatch(r"node\.(?:free|requested)(\[[^\]]*\])", read)
    return f"node.allocatable{found[1]}" if found is not None else None


def printed(text: str) -> str | None:
    """What `sprintf("no %v", [a])` is given as a text with the expressions in braces."""
    written, _, values = text.partition(",")
    if written[:1] not in "\"'":
        return None
    return filled(written, [value.strip(" []") for value in values.split(",")])


LABEL = re.compile(r'(\S+\.labels)\["([^"]*)"\] == ("[^"]*")')
_READ_LABEL = re.compile(r"\.(?:labels|annotations)(?:\[[^?]|\.\w)")


def label_or_empty(label: re.Match[str]) -> str:
    """The read of a label that may not be there."""
    return f'{label[1]}[?"{label[2]}"].orValue("")'


def denied(condition: str) -> str | None:
    """The opposite of a condition; None if it reads a label, which may not be there."""
    if (label := LABEL.fullmatch(condition)) is not None:
        return f"{label_or_empty(label)} != {label[3]}"
    if _READ_LABEL.search(re.sub(r"has\([^()]*\)", "", condition)) is not None:
        return None
    return "!(" + re.sub(r"\s*\n\s*", " ", condition) + ")"


def _of_owner(condition: str) -> str | None:
    """A condition on the object of admission as one on the pod; None for none on an object."""
    said = re.sub(r"\Aobject\b", "pod", " ".join(condition.split()))
    return said if re.match(r"(?:node|pod)\.", said) else None


def _strength(word: str) -> str | None:
    row = habits.find(habits.PARTS, word.strip("\"'"))
    return None if row is None else row.here


def _quoted(word: str) -> str:
    """A word that is no name that anything gives, as a text."""
    known = habits.find(habits.NAMES, word) or word in ("node", "pod", "peer", "victim", "victims")
    return print_string(word) if re.fullmatch(r"[A-Za-z]\w*", word) and not known else word


_FORMS: Mapping[str, Callable[[str], str | None]] = {
    "optional": _optional,
    "list": _as_list,
    "quoted": _quoted,
    "text": print_string,
    "bare": lambda text: text.strip("\"'"),
    "digits": lambda text: text.strip("\"'") if text.strip("\"'").isdigit() else None,
    "domain": domain_of,
    "per": lambda key: place_of(domain_of(key)),
    "last": lambda text: (re.findall(r"[A-Za-z]\w*", text) or ["group"])[-1],
    "plain": lambda text: re.sub(r"\W+", "_", text.strip("\"'")),
    "dashed": lambda text: "-".join(text.split()),
    "macro": _macro,
    "unit": habits.unit,
    "ticked": lambda text: f'"{text[1:-1]}"' if text.startswith("`") else None,
    "percent": lambda number: f"{float(number) / 100:g}",
    "allocatable": _allocatable,
    "like": _like,
    "empty": lambda read: f"!has({read})" if read.endswith("]") else f"size({read}) == 0",
    "filled": lambda read: f"has({read})" if read.endswith("]") else f"size({read}) > 0",
    "template": lambda text: template_of(text) if "+" in text else None,
    "formatted": lambda text: printed(",".join(re.split(r"\.format\(|\)\Z", text)[:2])),
    "digits_alone": lambda text: text.replace("_", ""),
    "unmarked": lambda text: re.sub(r"\?\.(?=\[)|\?(?=[.\[])", "", text) if "?." in text else None,
    "sign": lambda text: text if text in (":", "=") else None,
    "comma": lambda text: text if text in (",", ";") else None,
    "printed": printed,
    "denied": denied,
    "denied_rule": lambda said: denied(said) if _FORMS["of_rule"](said) else None,
    "of_rule": lambda said: _of_owner(said) if re.search(r"\bnode\.", said) else None,
    "of_pods": _of_owner,
    "place": lambda read: place_of(domain_of(read)) if re.match(r"node(\.|\Z)", read) else None,
    "part": lambda text: text[1:-1] if text[1:-1] in PARTS else None,
    "needless": habits.NEEDLESS.get,
    "strength": _strength,
    "joined": lambda text: template_of(text[1:-1]),
    "hours": lambda read: read if re.search(r"(?i)hours?(\(\))?\Z", read) else None,
    "read": lambda text: text if re.match(r"(?:node|pod|peer|victim)\b", text) else None,
    "line": lambda text: " ".join(text.split()),
}


class WrittenPart(str):
    """A part of a text, which `{a:form}` changes."""

    __slots__ = ()

    def __format__(self, form: str) -> str:
        made = _FORMS[form](str(self)) if form else str(self)
        if made is None:
            raise ValueError(form)
        return made


_NUMBER = re.compile(r"[\"']?(-?\d+(?:\.\d+)?)(?::\d+)?([A-Za-z]*)[\"']?")


def _is_range(low: str, high: str) -> bool:
    """Whether something can be between two bounds, as far as their numbers tell."""
    one, two = _NUMBER.fullmatch(low), _NUMBER.fullmatch(high)
    return not (one and two and one[2] == two[2]) or float(one[1]) < float(two[1])


# ---- where a row is in a text


@dataclass(frozen=True, slots=True)
class _Token:
    """A token of a pattern: a lexeme, a part or a mark."""

    texts: frozenset[str] = frozenset()
    name: str = ""
    kind: str = ""
    optional: bool = False
    mark: str = ""


def _tokens(wrong: str) -> tuple[tuple[_Token, ...], int | None]:
    """The tokens of a pattern, and which of them the parser stopped at, if it says so."""
    found, stop = list[_Token](), None
    for word in wrong.split():
        text = word.removeprefix("^")
        stop = len(found) if text != word else stop
        if text in ("<", ">", "$", "~"):
            found.append(_Token(mark=text))
        elif re.fullmatch(r"\{\w+(?::\w+)?\}", text):
            name, _, kind = text[1:-1].partition(":")
            found.append(_Token(name=name, kind=kind))
        else:
            optional = text.startswith("(") and text.endswith(")") and len(text) > 1
            texts = re.split(r"(?<!\\)\|(?=.)", text[1:-1] if optional else text)
            known = frozenset(re.sub(r"\\(.)", r"\1", each) for each in texts)
            found.append(_Token(known, optional=optional))
    return tuple(found), stop


class _Found:
    """A found row at one place of a text, with the parts of the text."""

    def __init__(self, place: Misplaced, tokens: tuple[_Token, ...]) -> None:
        self.place = place
        self.lexemes = place.lexemes
        self.tokens = tokens
        self.parts: dict[str, WrittenPart] = {}
        self.marks: dict[str, int] = {}
        self.literal: set[int] = set()
        self.parts["this"] = WrittenPart(place.item.text)

    def at(self, anchor: int, position: int) -> bool:
        """Whether the row is where its token `anchor` stands at a position."""
        first: int | None = position
        for token in reversed(self.tokens[:anchor]):
            if first is None or (first := self._back(token, first)) is None:
                return False
        last: int | None = position
        for token in self.tokens[anchor:]:
            if last is None or (last := self._on(token, last)) is None:
                return False
        assert first is not None
        assert last is not None
        self.marks.setdefault("<", first)
        self.marks.setdefault(">", last)
        return first <= self.place.at <= last + 1

    def is_one(self, token: _Token, position: int) -> bool:
        text = self.lexemes[position].text
        return text in token.texts or (len(text) > 1 and text.lower() in token.texts)

    def _bound(self, name: str, first: int, last: int) -> bool:
        """Whether a part can be what stands there: not nothing, and the same in both places."""
        part = WrittenPart(self.lexemes.slice(first, last))
        return bool(part) and self.parts.setdefault(name, part) == part

    def _on(self, token: _Token, position: int) -> int | None:
        """The position behind a token that begins at a position."""
        if token.mark:
            return self._marked(token.mark, position)
        if token.texts:
            if self.is_one(token, position):
                self.literal.add(position)
                return position + 1
            return position if token.optional else None
        if token.kind in ("", "amount", "rest"):
            behind = self._made(token, position)
            if behind is not None or token.kind:
                return behind
        last = self._last(token.kind, position)
        return last + 1 if last is not None and self._bound(token.name, position, last) else None

    def _made(self, token: _Token, position: int) -> int | None:
        """The position behind a part that is made of some lexemes, which are bound otherwise."""
        lexemes, behind = self.lexemes, position + 2
        first, second = lexemes[position], lexemes[position + 1]
        match token.kind:
            case "amount" if first.kind == "number" and second.text in habits.PERCENT | {"%"}:
                made = f"{first.text}%"
            case "amount" if first.kind == "number":
                made, behind = first.text, position + 1
            case "rest":
                behind = lexemes.partner.get(lexemes.opener(position) or -1, position)
                made = lexemes.slice(position, behind - 1)
                if "require" in made.split():
                    return None
                made = f"{made} " if made else ""
            case "" if (
                first.kind == "number" and second.kind == "word" and habits.unit(second.text)
            ):
                made = f'"{first.text}{habits.unit(second.text)}"'
            case _:
                return None
        self.parts[token.name] = WrittenPart(made)
        return behind

    def _last(self, kind: str, position: int) -> int | None:
        """The last lexeme of a part of a kind that begins at a position."""
        lexemes, last = self.lexemes, position
        match kind:
            case "":
                return lexemes.operand_after(position)
            case "expr":
                return lexemes.expression_end(position, STOPS)
            case "argument":
                return lexemes.expression_end(position, _ENDS_ARGUMENT)
            case "texts":
                while lexemes[last + 1].text == "," and lexemes[last + 2].kind == "string":
                    last += 2
                return last
            case "condition" | "alone":
                last = lexemes.expression_end(position, STOPS | {"then", "pods", "nodes"})
                is_other = self._tells(position, position + 1) or self._is_code(position, last)
                if is_other or lexemes.operand_after(position) is None:
                    return None
                is_prose = self.place.behind or self._tells(position, last)
                return None if kind == "alone" and is_prose else last
            case "before_block":
                last = lexemes.expression_end(position, frozenset("{"))
                is_block = lexemes[last + 1].text == "{" and "return" not in lexemes.text
                return last if is_block and not self._is_code(position, last - 1) else None
            case "inside":
                return (lexemes.partner.get(lexemes.opener(position) or -1) or 0) - 1
            case "words":
                while lexemes[last].kind == "word" and lexemes[last].text not in ITEMS | {"in"}:
                    last += 1
                return last - 1
            case _:
                return last if WORD_KINDS[kind](lexemes[last].text) else None

    def _is_code(self, first: int, last: int) -> bool:
        """Whether an assignment, a block or a statement of another language is no condition."""
        said = {self.lexemes[n].text for n in range(first, last + 2)}
        return bool(said & {"=", "{", ":=", ";", "else"}) or (":" in said and "?" not in said)

    def _tells(self, first: int, last: int) -> bool:
        """Whether words stand side by side, and the first of them is no object with a field."""
        lexemes = self.lexemes
        words = [lexemes[n].kind in ("word", "number") for n in range(first, last + 1)]
        return lexemes[first + 1].text != "." and any(map(all, pairwise(words)))

    def _back(self, token: _Token, position: int) -> int | None:
        """The position of a token that ends before a position."""
        lexemes = self.lexemes
        if token.mark:
            return self._marked(token.mark, position)
        if token.texts:
            if self.is_one(token, position - 1):
                self.literal.add(position - 1)
                return position - 1
            return position if token.optional else None
        if token.kind == "":
            first = lexemes.operand_before(position)
            last = lexemes[position - 1]
            is_place = first is not None and lexemes[first - 1].text in ("per", "over")
            if is_place or (last.text in WORDS and lexemes[position - 2].text != "."):
                return None
        elif token.kind == "inside":
            first = (lexemes.opener(position) or 0) + 1
        elif token.kind in ("expr", "argument"):
            first, stops = position, STOPS | {",", "=", ":"}
            while first > 0 and not (lexemes[first - 1].opens or lexemes[first - 1].text in stops):
                first = lexemes.partner.get(first - 1, first - 1)
        else:
            # What has several words is found from its first one on.
            known = WORD_KINDS.get(token.kind)
            is_one = known is not None and known(lexemes[position - 1].text)
            first = position - 1 if is_one else None
        return first if first is not None and self._bound(token.name, first, position - 1) else None

    def _marked(self, mark: str, position: int) -> int | None:
        """The position if a mark can be there: `~` where two lexemes touch, `$` at an end."""
        following = self.lexemes[position]
        match mark:
            case "~":
                holds = self.lexemes.touches(position)
            case "$":
                holds = following.closes or following.text in _ENDS
            case _:
                self.marks[mark] = position
                holds = True
        return position if holds else None

    def told(self, row: Rewrite) -> Diagnostic:
        """The error with what is to be written; ValueError where a part has no such form."""
        lexemes, place = self.lexemes, self.place
        if not _is_range(self.parts.get("low", ""), self.parts.get("high", "")):
            raise ValueError("high")
        made = row.instead.format_map(self.parts)
        first, last = self.marks["<"], self.marks[">"] - 1
        start = lexemes[first].start if first < len(lexemes.items) else len(place.source.text)
        span = lexemes.span(first, last) if first <= last else Span(start, start)
        if not made and lexemes.touches(first) and lexemes.touches(last + 1):
            # Between two words a blank stays.
            made = " "
        begin = place.at
        if "^" not in row.wrong and begin not in self.literal and begin - 1 in self.literal:
            begin -= 1
        end = begin
        while begin in self.literal and end + 1 in self.literal and lexemes[end + 1].kind == "word":
            end += 1
        if first <= last < begin:
            begin, end = first, last
        found = place.unexpected(begin, end)
        known: dict[str, str] = {**self.parts, "made": WrittenPart(made)}
        hint = row.hint.format_map(known) if row.hint else None
        if not row.edits:
            return replace(found, hint=hint)
        return Remedy(span, made, hint or "", row.certain).on(found)


def rewritten(place: Misplaced, rows: Iterable[Rewrite]) -> Iterator[Diagnostic]:
    """The error with what each row writes that is where the parser stopped."""
    for row in rows:
        if not place.accepted >= set(row.needs.split()):
            continue
        if row.only and not place.accepted <= set(row.only.split()):
            continue
        tokens, stop = _tokens(row.wrong)
        anchors = (
            [(stop, place.at)]
            if stop is not None
            else [
                (number, position)
                for number, token in enumerate(tokens)
                if token.texts
                for position in (place.at, place.at - 1, place.at - 2)
            ]
        )
        for anchor, position in anchors:
            found = _Found(place, tokens)
            token = tokens[anchor]
            if token.texts and not token.optional and not found.is_one(token, position):
                continue
            if not found.at(anchor, position):
                continue
            try:
                yield found.told(row)
            except ValueError:
                continue
            break


R = Rewrite
_CLAUSES_ARE = f"; {CLAUSES_ARE}"


def _operator(word: str, here: str) -> Rewrite:
    """The row of an operator of another language."""
    sign = here.replace("{0} ", "").replace(" {1}", "")
    wrong = re.sub(r"([|<>^$(){}~])", r"\\\1", word) if len(word) < 3 else word
    if sign in ("&&", "||", "==", "!="):
        is_certain = sign in ("&&", "||") or word in ("=", "===", "!==", "<>")
        return R(f"{{a}} < ^{wrong} > {{b}}", sign, certain=is_certain)
    form = ":list" if "in {1}" in here else ":quoted" if "({1})" in here or "{1} in" in here else ""
    return R(f"{{a}} ^{wrong} {{b}}", here.replace("{0}", "{a}").replace("{1}", f"{{b{form}}}"))


def _of_clause(row: habits.Habit) -> Iterator[Rewrite]:
    """The rows of a word for a clause, before a name or a part of the clause, and elsewhere."""
    words, hint = "|".join(row.words), f"write `{row.here}`{_CLAUSES_ARE}"
    is_clause = row.here in CLAUSE_WORDS
    for behind in (" {s:string}", " { {k:part}", " {k:part}") if is_clause else ("",):
        yield R(f"< ^{words} >{behind}", row.here, hint)
    yield R(f"^{words}", "", hint, edits=False)


def _of_part(row: habits.Habit) -> Iterator[Rewrite]:
    """The rows of a word for a part of a clause, by the text behind the word."""
    here, words = row.here, f"^{'|'.join(row.words)} (:|=)"
    part = here.split()[0]
    terminal = part.upper()
    if here.endswith(" where"):
        yield R(f"< {words} > where", here.removesuffix(" where"), needs=terminal)
    if here == "over":
        for key in ("{s:string} >", "{s:zone} > $"):
            yield R(f"< {words} {key}", "over {s:domain}", needs="OVER")
            yield R(f"< {words} {key}", "per {s:per}", needs="PER")
    if here == "skew at most":
        yield R(f"< {words} {{n:number}} >", f"{here} {{n}}", needs=terminal)
    if here == "pods where":
        yield R(f"< {words} >", "of pods where", needs="OF BY")
    if here == "require !":
        yield R(f"< {words} (if|when|that) {{e:expr}} >", "require {e:denied}", needs=terminal)
        return
    if here in ("require", "value", "message", "detail"):
        yield R(f"< {words} (that) {{e:expr}} >", f"{here} {{e}}", needs=terminal)
    if here in ("strict", "weight 10"):
        yield R(f"< {words} true|yes >", here, needs=terminal)
    yield R(f"< {words} >", here, needs=terminal)


# The rows that the table of habits makes.
_MADE: Mapping[str, Callable[[], Iterable[Rewrite]]] = {
    "@bounds": lambda: (
        R(f"< ^{'|'.join(row.words)} (:|=) {{n:amount}} >", f"{row.here} {{n}}", needs="EXACTLY")
        for row in habits.PARTS
        if row.here in ("at most", "at least", "exactly")
    ),
    "@operators": lambda: (
        _operator(word, row.here) for row in habits.OPERATORS for word in row.words
    ),
    "@parts": lambda: (row for each in habits.PARTS for row in _of_part(each)),
    "@clauses": lambda: (row for each in habits.CLAUSES[1:] for row in _of_clause(each)),
}
_DENIED, _FILTER, _PREFERRED = (row.words for row in habits.CLAUSES[:3])
# Words of the table that a row of the text names.
_WORDS = {
    "@deny": _DENIED,
    "@filter": _FILTER,
    "@preferring": [word for word in _PREFERRED if word not in ("order", "priority")],
    "@required": ["require", *habits.PARTS[0].words, *habits.PARTS[1].words],
    "@are": [_CLAUSES_ARE],
}


def _read(line: str) -> Rewrite:
    """The row that a line of the text is."""
    for name, words in _WORDS.items():
        line = line.replace(name, "|".join(words))
    parts = [part.replace("·", " ") for part in f"{line} |  |  | ".split(" | ")]
    wrong, instead, hint, options = parts[:4]
    named = dict(option.partition(":")[::2] for option in options.split())
    return Rewrite(
        wrong,
        instead,
        hint,
        needs=named.get("needs", "").replace(",", " "),
        only=named.get("only", "").replace(",", " "),
        certain="certain" in named,
        edits="told" not in named,
    )


def _sections() -> Iterator[tuple[str, tuple[Rewrite, ...]]]:
    text = files("grammar.mistakes").joinpath("rewrites.txt").read_text("utf-8")
    _, *parts = re.split(r"(?m)^\[(\w+)\]$", text)
    for name, lines in zip(parts[::2], parts[1::2], strict=True):
        made = (_MADE[row]() if row in _MADE else (_read(row),) for row in lines.split("\n") if row)
        yield name, tuple(row for rows in made for row in rows)


ROWS: Mapping[str, tuple[Rewrite, ...]] = dict(_sections())
