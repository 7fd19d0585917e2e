"""Syntax remedies: what an unexpected token means, by the table of habits.

The parser asks here when it cannot go on. Every remedy is an edit, and its hint shows the whole of
what to write. An edit is certain if nothing else can be meant; only those are made by `--fix`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Set
from dataclasses import replace

from grammar import catalogue, habits
from grammar.diagnostics import Diagnostic, Fix, nearest
from grammar.lexemes import Lexemes
from grammar.source import Source, Span

# Words that begin an item of a policy, and those of clauses.
CLAUSES = ("filter", "score", "share", "spread", "limit", "preempt", "bind")
_ITEMS = frozenset(
    (*CLAUSES, *"use description weight mode failure let def for policy cluster test".split())
)
_PARTS = frozenset(
    "require message detail missing value range strict best at exactly on over skew per protect "
    "allow keep when of mutual pods nodes min".split()
)
_WORDS = _ITEMS | _PARTS
# What ends an expression that a remedy repeats.
_STOPS = _WORDS - {"of", "pods", "nodes", "min", "at"} | {"at", ";"}
# Terminals of operators and of what an expression can begin with.
_OPERATORS = frozenset({"PLUS", "MULOP", "RELOP"})
_STARTS = frozenset({"FLOAT", "NOT"})
_MACRO_NAMES = frozenset("all exists exists_one existsOne filter map any some every".split())
_MACROS = {"any": "exists", "all": "all"}
# A key of labels or annotations that is written like a field.
_KEY = re.compile(r"([\w.]+\.(?:labels|annotations))\.([\w./-]+)")
_RESERVED = {
    "if": "`condition ? value : other`, or `when` behind the name of a clause",
    "for": "`list.all(x, …)`, `list.exists(x, …)` or `list.map(x, …)`",
    "function": "`def name(x: TYPE): TYPE = …`, and in a macro `x, …`",
    "var": "`let name = …`",
    "const": "`let name = …`",
    "return": "the value alone",
    "while": "a macro such as `list.all(x, …)`",
    "import": '`use "name"`',
    "else": "`condition ? value : other`",
    "namespace": "`pod.namespace`",
}


def explained(
    source: Source, span: Span, accepted: Set[str], known: Iterable[str] = ()
) -> Diagnostic | None:
    """The error for what stands at the span, if a habit or a bracket explains it.

    `accepted` are the terminals that may stand there, and `known` their words. An empty span is the
    end of the text.
    """
    return _Explainer(source, span, accepted, tuple(known)).run()


def improved(found: Diagnostic, source: Source) -> Diagnostic:
    """The error that ended the parse of an item, with what to write in its place."""
    word = source.slice(found.span)
    if found.code == "P0202" and (percent := _percentage_apart(found, source)) is not None:
        return percent
    if found.code == "P0008" and (key := _KEY.fullmatch(word)) is not None:
        made = f'{key[1]}["{key[2]}"]'
        return _with(found, Fix(found.span, made), f"write `has({made})`")
    if found.code != "P0007" or word not in _RESERVED:
        return found
    lexemes = Lexemes(source.text)
    at = lexemes.at(found.span.start)
    if word == "function" and (edit := _lambda(lexemes, at)) is not None:
        return _with(found, edit)
    return replace(found, hint=f"write {_RESERVED[word]}")


def _percentage_apart(found: Diagnostic, source: Source) -> Diagnostic | None:
    """`at most 40 % strict`, which takes the strength for the operand of `%`."""
    lexemes = Lexemes(source.text)
    start = lexemes.at(found.span.end)
    end = next((n for n in range(start, len(lexemes.items)) if lexemes[n].closes), start)
    for at in range(start, end):
        is_bound = lexemes[at].text in ("most", "least", "exactly")
        if is_bound and lexemes[at + 1].kind == "number" and lexemes[at + 2].text == "%":
            if lexemes.touches(at + 2):
                return None
            span = lexemes.span(at + 1, at + 2)
            edit = Fix(span, f"{lexemes[at + 1].text}%")
            wrong = catalogue.bare_amount(source.slice(span), span)
            return _with(wrong, edit, certain=True)
    return None


def closing(found: Diagnostic, text: str) -> str | None:
    """The text with the bracket that an error asks for, where this moves no other character."""
    edit = found.remedy
    if found.code != "P0140" or edit is None:
        return None
    at = edit.span.start
    if at >= len(text.rstrip()):
        return text.rstrip() + edit.text.strip()
    # A blank before or behind the place gives way.
    for place in (at, at - 1):
        if 0 <= place < len(text) and text[place].isspace():
            return text[:place] + edit.text.strip()[:1] + text[place + 1 :]
    return None


def _with(
    found: Diagnostic, edit: Fix, hint: str | None = None, *, certain: bool = False
) -> Diagnostic:
    hint = hint or f"write `{edit.text.strip()}`"
    return replace(found, hint=hint, remedy=edit, fix=edit if certain else None)


class _Explainer:
    """Looks at the lexemes around one error; each method is one idea."""

    def __init__(
        self, source: Source, span: Span, accepted: Set[str], known: tuple[str, ...]
    ) -> None:
        self._source = source
        self._lexemes = Lexemes(source.text)
        self._accepted = accepted
        self._known = known
        at_end = span.start >= len(source.text.rstrip())
        self._at = len(self._lexemes.items) if at_end else self._lexemes.at(span.start)
        self._item = self._lexemes[self._at]
        self._previous = self._lexemes[self._at - 1]
        # Only behind an operand can an operator or a unit stand.
        self._behind = bool(accepted & _OPERATORS)

    def run(self) -> Diagnostic | None:
        ideas: tuple[Callable[[], Diagnostic | None], ...] = (
            self._bare_words,
            self._unit,
            self._percentage,
            self._items_of_list,
            self._foreign_text,
            self._unclosed,
            self._arrow,
            self._quantifier,
            self._alternative,
            self._condition_behind,
            self._default,
            self._operator,
            self._superfluous,
            self._name,
            self._bound,
            self._lacking_word,
            self._head,
            self._clause,
            self._part,
        )
        return next((found for idea in ideas if (found := idea()) is not None), None)

    def _unexpected(self, first: int, last: int) -> Diagnostic:
        return catalogue.unexpected(
            self._lexemes.slice(first, last), (), self._lexemes.span(first, last)
        )

    # ---- amounts and texts without quotes

    def _bare_words(self) -> Diagnostic | None:
        """`us-east-1a`: a text with signs and digits, which cannot be a name."""
        lexemes, at = self._lexemes, self._at
        first = at
        while lexemes.touches(first) and (
            lexemes[first - 1].kind in ("word", "number") or lexemes[first - 1].text in ("-", "/")
        ):
            first -= 1
        if first == at or lexemes[first].kind != "word" or self._item.kind != "word":
            return None
        if lexemes[first - 1].text in (".", ".?") or lexemes[at - 1].kind != "number":
            return None
        last = at
        while lexemes.touches(last + 1) and (
            lexemes[last + 1].kind in ("word", "number") or lexemes[last + 1].text in ("-", "/")
        ):
            last += 1
        edit = Fix(lexemes.span(first, last), f'"{lexemes.slice(first, last)}"')
        return _with(self._unexpected(first, last), edit)

    def _unit(self) -> Diagnostic | None:
        """`8Gi`, `500m`, `10 minutes`, `40 percent`."""
        lexemes, at = self._lexemes, self._at
        if self._previous.kind != "number" or self._item.kind != "word":
            return None
        number, word = self._previous.text, self._item.text
        if word in habits.PERCENT:
            return self._part_of(at - 1, at, number)
        unit = habits.UNITS.get(word, habits.UNITS.get(word.lower()))
        if unit is None:
            return None
        edit = Fix(lexemes.span(at - 1, at), f'"{number}{unit}"')
        whole = lexemes.slice(at - 1, at)
        is_certain = unit == word and lexemes.touches(at)
        return _with(catalogue.bare_amount(whole, edit.span), edit, certain=is_certain)

    def _percentage(self) -> Diagnostic | None:
        """`40%` outside of a bound, where `%` is the remainder of a division."""
        lexemes = self._lexemes
        for last in (self._at - 1, self._at - 2):
            is_word = last == self._at - 1 or lexemes[last + 1].text in _WORDS
            in_bound = lexemes[last - 2].text in ("most", "least", "exactly")
            is_percent = lexemes[last].text == "%" and lexemes[last - 1].kind == "number"
            if is_word and is_percent and not (in_bound and lexemes.touches(last)):
                return self._part_of(last - 1, last, lexemes[last - 1].text)
        return None

    def _part_of(self, first: int, last: int, number: str) -> Diagnostic:
        """The error for a percentage that is not written as one."""
        span, whole = self._lexemes.span(first, last), self._lexemes.slice(first, last)
        if self._lexemes[first - 1].text in ("most", "least", "exactly"):
            edit = Fix(span, f"{number}%")
            return _with(catalogue.bare_amount(whole, span), edit, certain=True)
        edit = Fix(span, f"{float(number) / 100:g}")
        hint = f"write `{edit.text}` for a part of 1"
        return _with(catalogue.bare_amount(whole, span), edit, hint)

    # ---- brackets

    def _foreign_text(self) -> Diagnostic | None:
        """`{{ .pod.name }}` of Go templates, `` `a` `` of JavaScript, `[*]` of JSONPath."""
        lexemes, at = self._lexemes, self._at
        if self._item.text.startswith("`"):
            edit = Fix(lexemes.span(at, at), f'"{self._item.text[1:-1]}"')
            return _with(self._unexpected(at, at), edit)
        opener = lexemes.opener(at)
        is_inner = opener is not None and lexemes[opener].text == "{" and lexemes.touches(opener)
        if self._item.text == "}" and opener is not None and is_inner:
            outer, last = opener - 1, lexemes.partner.get(opener - 1)
            if lexemes[outer].text == "{" and last is not None:
                inner = lexemes.slice(opener + 1, last - 2).removeprefix(".").removesuffix("}")
                found = self._unexpected(outer, opener)
                return _with(found, Fix(lexemes.span(outer, last), inner.strip()))
        if self._item.text == "*" and self._previous.text == "[" and lexemes[at + 1].text == "]":
            first = lexemes.operand_before(at - 1)
            last = lexemes.expression_end(at, _STOPS | {"&&", "||"})
            end = lexemes.expression_end(at + 2, _STOPS | {"&&", "||"})
            if first is None or end <= at + 1:
                return None
            items, said = lexemes.slice(first, at - 2), lexemes.slice(at + 2, end)
            edit = Fix(lexemes.span(first, end), f"{items}.exists(x, x{said})")
            return _with(self._unexpected(at, last), edit)
        if self._item.text == ":" and opener is not None and lexemes[opener].text == "[":
            closer = lexemes.partner.get(opener)
            if closer is None or lexemes[opener - 1].text in ("", "(", ",", "==", "in"):
                return None
            start = lexemes.slice(opener + 1, at - 1) or "0"
            edit = Fix(lexemes.span(opener, closer), "")
            if end_text := lexemes.slice(at + 1, closer - 1):
                return _with(
                    self._unexpected(at, at),
                    replace(edit, text=f".slice({start}, {end_text})"),
                )
        return None

    def _unclosed(self) -> Diagnostic | None:
        """A bracket that lacks its partner: the error is at the one that is there."""
        lexemes, at, item = self._lexemes, self._at, self._item
        if at == len(lexemes.items):
            return self._unclosed_at_end()
        opener = lexemes.opener(at)
        if item.closes and item.text != "}" and opener is not None and not self._behind:
            # An operand is lacking, and this closes something, or nothing at all.
            return None
        if item.closes and opener is None:
            found = self._unexpected(at, at)
            hint = f"leave out this `{item.text}`, which closes nothing"
            return _with(found, Fix(lexemes.span(at, at), ""), hint)
        if opener is None:
            return None
        sign = {"{": "}", "(": ")"}.get(lexemes[opener].text, "]")
        is_other = item.closes and item.text != sign
        is_word = item.kind == "word" and item.text in _WORDS and sign != "}"
        is_item = item.kind == "word" and item.text in _ITEMS and self._block_lacks_end(opener)
        if not (is_other or is_word or is_item):
            return None
        if sign == "}" and is_other:
            hint = f"leave out this `{item.text}`, which closes nothing"
            return _with(self._unexpected(at, at), Fix(lexemes.span(at, at), ""), hint)
        return self._lacks(opener, sign, at)

    def _block_lacks_end(self, opener: int) -> bool:
        """Whether an item starts although the clause before it is not closed."""
        starts_line = self._source.text[: self._item.start].rpartition("\n")[2].strip() == ""
        is_block = self._lexemes[opener].text == "{" and "RBRACE" in self._accepted
        return is_block and starts_line and self._item.text.upper() not in self._accepted

    def _unclosed_at_end(self) -> Diagnostic | None:
        lexemes = self._lexemes
        if not lexemes.unclosed:
            return None
        signs = [lexemes[n].text for n in lexemes.unclosed]
        terminal = {"{": "RBRACE", "(": "RPAR"}.get(signs[-1], "RSQB")
        if terminal not in self._accepted:
            # More than a bracket is lacking.
            return None
        closers = ["}" if s == "{" else ")" if s == "(" else "]" for s in signs]
        opener = lexemes.unclosed[-1]
        if (shifted := self._shifted()) is not None:
            return shifted
        end = len(self._source.text.rstrip())
        found = catalogue.unclosed_bracket(signs[-1], lexemes.span(opener, opener))
        ending = " ".join(reversed(closers))
        hint = f"write `{ending}` at the end of the text"
        return _with(found, Fix(Span(end, end), f" {ending}"), hint)

    def _shifted(self) -> Diagnostic | None:
        """The block that another one's closing brace ends: one that stands further to the left."""
        lexemes = self._lexemes
        for closer, opener in sorted(lexemes.partner.items()):
            if closer < opener or lexemes[closer].text != "}":
                continue
            line, column = self._source.position(lexemes[closer].start)
            first = self._source.position(lexemes[opener].start)[0]
            before = self._source.line(line)[: column - 1]
            indent = len(self._source.line(first)) - len(self._source.line(first).lstrip())
            if line != first and not before.strip() and len(before) < indent:
                return self._lacks(opener, "}", closer)
        return None

    def _lacks(self, opener: int, sign: str, before: int) -> Diagnostic:
        """The error for an opening bracket whose partner is lacking before a lexeme."""
        lexemes = self._lexemes
        line, _ = self._source.position(lexemes[before].start)
        found = catalogue.unclosed_bracket(lexemes[opener].text, lexemes.span(opener, opener))
        end = lexemes[before - 1].end
        hint = f"write `{sign}` before `{lexemes[before].text}` in line {line}"
        return _with(found, Fix(Span(end, end), sign if sign != "}" else " }"), hint)

    # ---- items of lists

    def _arrow(self) -> Diagnostic | None:
        """`p => …`, `p -> …`, `lambda p: …`: a macro has the name as its first argument."""
        lexemes = self._lexemes
        for at in (self._at, self._at - 1):
            is_arrow = lexemes[at].text in ("=>", "->", "lambda", "|")
            if is_arrow and (edit := _lambda(lexemes, at)) is not None:
                return _with(self._unexpected(at, at), edit)
        opener = lexemes.opener(self._at)
        is_first = self._item.text in (":", "|", ";", "in") and opener == self._at - 2
        if is_first and opener is not None and lexemes[opener - 1].text in _MACRO_NAMES:
            closer = lexemes.partner.get(opener)
            if self._previous.kind == "word" and closer is not None:
                body = lexemes.slice(self._at + 1, closer - 1)
                method = lexemes[opener - 1].text
                made = f"{method}({self._previous.text}, {body})"
                edit = Fix(lexemes.span(opener - 1, closer), made)
                return _with(self._unexpected(self._at, self._at), edit)
        if self._item.text in ("=>", "->") and self._behind:
            hint = "write a function as `def name(x: TYPE): TYPE = …`"
            return replace(self._unexpected(self._at, self._at), hint=hint)
        return None

    def _items_of_list(self) -> Diagnostic | None:
        """`all(p.ready for p in pods)` and `[p.name for p in pods if p.ready]`."""
        lexemes, at = self._lexemes, self._at
        opener = lexemes.opener(at)
        if self._item.text != "for" or opener is None or opener not in lexemes.partner:
            return None
        if lexemes[at + 2].text != "in" or lexemes[opener].text not in ("(", "["):
            return None
        closer = lexemes.partner[opener]
        name = lexemes[at + 1].text
        test = next((n for n in range(at, closer) if lexemes[n].text == "if"), closer)
        items = lexemes.slice(at + 3, test - 1)
        body = lexemes.slice(opener + 1, at - 1)
        condition = lexemes.slice(test + 1, closer - 1)
        called = lexemes[opener - 1] if lexemes[opener].text == "(" else None
        first = opener if called is None or called.kind != "word" else opener - 1
        function = called.text if called is not None else ""
        inner = lexemes[opener + 1]
        if inner.text == "[" and lexemes.partner.get(opener + 1) == closer - 1:
            return None
        if condition:
            items = f"{items}.filter({name}, {condition})"
        macro = _MACROS.get(function)
        if macro is not None:
            made = f"{items}.{macro}({name}, {body})"
        else:
            made = items if body == name else f"{items}.map({name}, {body})"
            if function in ("sum", "max", "min"):
                made = f"{made}.{function}()"
            elif function in ("len", "size", "count"):
                made = f"size({made})"
        return _with(self._unexpected(at, at), Fix(lexemes.span(first, closer), made))

    def _quantifier(self) -> Diagnostic | None:
        """`some p in pods; …` and `every p in pods { … }`, as in Rego and SQL."""
        lexemes, at = self._lexemes, self._at
        word = self._previous.text
        macro = {
            "some": "exists",
            "every": "all",
            "any": "exists",
            "all": "all",
            "exists": "exists",
        }
        if word not in macro or self._item.kind != "word" or lexemes[at + 1].text != "in":
            return None
        if (last := lexemes.operand_after(at + 2)) is None:
            return None
        items, following = lexemes.slice(at + 2, last), last + 1
        end = last
        if lexemes[following].text == "{" and following in lexemes.partner:
            end = lexemes.partner[following]
            body = lexemes.slice(following + 1, end - 1)
        else:
            if lexemes[following].text in (";", ",", ":", "satisfies", "|"):
                following += 1
            end = lexemes.expression_end(following, _STOPS)
            body = lexemes.slice(following, end)
        if not body:
            return None
        edit = Fix(
            lexemes.span(at - 1, max(end, last)),
            f"{items}.{macro[word]}({self._item.text}, {body})",
        )
        return _with(self._unexpected(at - 1, at - 1), edit)

    # ---- operators

    def _alternative(self) -> Diagnostic | None:
        """`a if c else b` and `if c then a else b`."""
        lexemes, at = self._lexemes, self._at
        if self._item.text == "if" and self._behind:
            start = lexemes.operand_before(at)
            other = _find(lexemes, at + 1, ("else",))
            if start is None or other is None:
                return None
            last = lexemes.expression_end(other + 1, _STOPS)
            made = (
                f"{lexemes.slice(at + 1, other - 1)} ? {lexemes.slice(start, at - 1)}"
                f" : {lexemes.slice(other + 1, last)}"
            )
            return _with(self._unexpected(at, at), Fix(lexemes.span(start, last), made))
        if self._previous.text == "if" or lexemes[self._at].text == "then":
            first = next((n for n in range(at, -1, -1) if lexemes[n].text == "if"), None)
            if first is None:
                return None
            then = _find(lexemes, first + 1, ("then",))
            other = _find(lexemes, (then or first) + 1, ("else",))
            if then is None or other is None:
                return None
            last = lexemes.expression_end(other + 1, _STOPS)
            made = (
                f"{lexemes.slice(first + 1, then - 1)} ? {lexemes.slice(then + 1, other - 1)}"
                f" : {lexemes.slice(other + 1, last)}"
            )
            return _with(self._unexpected(first, first), Fix(lexemes.span(first, last), made))
        return None

    def _condition_behind(self) -> Diagnostic | None:
        """`if` in or before a block: the clause has a `when` behind its name."""
        lexemes, at, word = self._lexemes, self._at, self._item.text
        if word not in ("if", "when", "unless", "where"):
            return None
        if "WHEN" in self._accepted and "LBRACE" in self._accepted:
            opener = _find(lexemes, at, ("{",))
            if opener is None:
                return None
            condition = lexemes.slice(at + 1, opener - 1)
            condition = f"!({condition})" if word == "unless" else condition
            edit = Fix(lexemes.span(at, opener - 1), f"when {condition}")
            return _with(self._unexpected(at, at), edit)
        opener = lexemes.opener(at)
        is_clause = {"MESSAGE", "VALUE", "PROTECT"} & self._accepted
        if opener is None or not is_clause or lexemes[opener].text != "{":
            return None
        end = lexemes.expression_end(at + 1, _STOPS)
        condition = lexemes.slice(at + 1, end)
        condition = f"!({condition})" if word == "unless" else condition
        if not condition or not any(lexemes[n].text in CLAUSES for n in range(opener - 6, opener)):
            return None
        body = lexemes.slice(opener, at - 1) + self._source.text[lexemes[end].end :][:0]
        head = next(n for n in range(opener - 1, -1, -1) if lexemes[n].text in CLAUSES)
        shown = f"{lexemes.slice(head, opener - 1)} when {condition} {{"
        edit = Fix(lexemes.span(opener, end), f"when {condition} {body}")
        found = self._unexpected(at, at)
        return _with(found, edit, f"write `{_short(shown)}`, with the condition before the block")

    def _default(self) -> Diagnostic | None:
        """`a ?: b`, `a ?? b`: the value, or another one if it is absent; and `a?.b`."""
        lexemes, at = self._lexemes, self._at
        sign = next((n for n in (at, at - 1) if lexemes[n].text in ("?:", "??")), None)
        if sign is not None:
            first, last = lexemes.operand_before(sign), lexemes.operand_after(sign + 1)
            if first is None or last is None:
                return None
            other = lexemes.slice(sign + 1, last)
            value = self._optional(first, sign - 1)
            if value is None:
                value = lexemes.slice(first, sign - 1)
                made = f'{value} != "" ? {value} : {other}'
            else:
                made = f"{value}.orValue({other})"
            return _with(self._unexpected(sign, sign), Fix(lexemes.span(first, last), made))
        for n in range(at - 1, max(0, at - 40), -1):
            is_chain = lexemes[n].text == "?" and lexemes[n + 1].text == "."
            if is_chain and lexemes.touches(n) and lexemes.touches(n + 1):
                edit = Fix(lexemes.span(n, n + 1), ".?")
                return _with(self._unexpected(n, n + 1), edit)
            if lexemes[n].text in _WORDS:
                break
        return None

    def _optional(self, first: int, last: int) -> str | None:
        """The read of a key or field as an optional; None for what always has a value."""
        lexemes = self._lexemes
        if lexemes[last].text == "]" and (opener := lexemes.partner.get(last)):
            head = lexemes.slice(first, opener - 1)
            return f"{head}[?{lexemes.slice(opener + 1, last - 1)}]"
        if lexemes[last].kind == "word" and lexemes[last - 1].text == ".":
            return f"{lexemes.slice(first, last - 2)}.?{lexemes[last].text}"
        return None

    def _operator(self) -> Diagnostic | None:
        """An operator of another language between two operands."""
        lexemes, at, word = self._lexemes, self._at, self._item.text
        if word in ("$", "@"):
            hint = f"leave out the `{word}`: names need no sign"
            found = catalogue.bad_character(word, lexemes.span(at, at))
            return _with(found, Fix(lexemes.span(at, at), ""), hint)
        first = lexemes.operand_before(at)
        if first is None or self._previous.text in _WORDS:
            return None
        # The signs that the lexer knows are unexpected only inside of others.
        if word in (">", "=", "!", "?", "*") and lexemes.touches(at):
            word = word if word == "=" else ""
        word = "between" if word == "BETWEEN" else word
        behind, second = at + 1, lexemes[at + 1].text
        template = self._template(word, second)
        if template is None:
            return None
        here, used, certain = template
        behind = at + used
        if word == "between":
            both = _find(lexemes, behind, ("and", "AND", "&&"))
            end = lexemes.operand_after(both + 1) if both is not None else None
            if both is None or end is None:
                return None
            left = lexemes.slice(first, at - 1)
            low, high = lexemes.slice(behind, both - 1), lexemes.slice(both + 1, end)
            edit = Fix(lexemes.span(first, end), f"{left} >= {low} && {left} <= {high}")
            return _with(self._unexpected(at, at), edit)
        if here.count("{1}") == 0:
            made = here.replace("{0}", lexemes.slice(first, at - 1))
            edit = Fix(lexemes.span(first, behind - 1), made)
            return _with(self._unexpected(at, behind - 1), edit)
        last = lexemes.operand_after(behind)
        if last is None:
            return None
        right = lexemes.slice(behind, last)
        if lexemes[behind].text == "/" and word in ("=~", "!~"):
            return None
        if word.lower() in ("in", "notin") or "in {1}" in here:
            right = _as_list(right)
        if word.lower() in ("like", "ilike"):
            return self._like(first, behind, last)
        left = lexemes.slice(first, at - 1)
        if here in ("{0} && {1}", "{0} || {1}", "{0} == {1}", "{0} != {1}"):
            sign = here.split()[1]
            edit = Fix(lexemes.span(at, behind - 1), sign)
            found = self._unexpected(at, behind - 1)
            return _with(found, edit, certain=certain and (self._behind or len(word) > 1))
        made = here.replace("{0}", left).replace("{1}", right)
        edit = Fix(lexemes.span(first, last), made)
        return _with(self._unexpected(at, behind - 1), edit, certain=certain)

    def _template(self, word: str, second: str) -> tuple[str, int, bool] | None:
        """What an operator is here, how many lexemes it has, and whether nothing else is meant."""
        words = word.lower(), second.lower()
        third = self._lexemes[self._at + 2].text
        absent = ("none", "null", "nil", "undefined", "defined", "empty", "missing", "absent")
        if word == "?" and second == ":":
            return None
        if words == ("not", "in") or (word == "!" and second == "in"):
            return "!({0} in {1})", 2, True
        if words[0] == "is":
            if second.lower() == "not":
                if third.lower() in absent:
                    return "has({0})", 3, False
                return "{0} != {1}", 2, True
            if second.lower() in ("none", "null", "nil", "undefined", "empty", "missing", "absent"):
                return "!has({0})", 2, False
            if second.lower() in ("defined", "set", "present"):
                return "has({0})", 2, False
            return "{0} == {1}", 1, True
        if words[0] == "between":
            return "", 1, False
        if word == "Exists" or words == ("exists", ""):
            return "has({0})", 1, False
        if word == "DoesNotExist":
            return "!has({0})", 1, False
        if words[0] in ("like", "ilike"):
            return "{0}.contains({1})", 1, False
        if words[0] == "not" and second.lower() in ("like", "contains", "matches", "equals"):
            row = habits.find(habits.OPERATORS, second.lower())
            here = row.here if row is not None else "{0}.contains({1})"
            return (here.replace("==", "!=") if "==" in here else f"!{here}"), 2, False
        if word == "&" or word == "|":
            return "{0} && {1}" if word == "&" else "{0} || {1}", 1, True
        if not self._behind and self._item.kind == "word":
            return None
        row = habits.find(habits.OPERATORS, word) if word else None
        if row is None:
            return None
        certain = row.here in ("{0} && {1}", "{0} || {1}") or word in ("=", "===", "!==", "<>")
        return row.here, 1, certain

    def _like(self, first: int, behind: int, last: int) -> Diagnostic | None:
        """SQL's `like`: a prefix, a suffix or a part, by where the `%` stands."""
        lexemes = self._lexemes
        pattern = lexemes[behind]
        if pattern.kind != "string":
            return None
        inner = pattern.text[1:-1]
        method = "matches" if "_" in inner else "contains"
        if inner.endswith("%") and not inner.startswith("%"):
            method = "startsWith"
        elif inner.startswith("%") and not inner.endswith("%"):
            method = "endsWith"
        text = inner.strip("%")
        made = f'{lexemes.slice(first, self._at - 1)}.{method}("{text}")'
        edit = Fix(lexemes.span(first, last), made)
        return _with(self._unexpected(self._at, self._at), edit)

    # ---- signs and names of blocks

    def _superfluous(self) -> Diagnostic | None:
        """`weight: 10`, `message = "…"`, `require a, require b`, `let x := 1`."""
        lexemes, at, sign = self._lexemes, self._at, self._item.text
        edit = Fix(lexemes.span(at, at), "")
        if sign == ":=" or (sign == ":" and lexemes[at - 2].text == "let"):
            if lexemes[at - 2].text == "let" and sign == ":=":
                found = self._unexpected(at, at)
                return _with(found, Fix(lexemes.span(at, at), "="), certain=True)
            following = _find(lexemes, at + 1, ("=",))
            if following is not None and lexemes[at - 2].text == "let":
                edit = Fix(lexemes.span(at, following), " =")
                whole = lexemes.slice(at - 2, at - 1)
                return _with(self._unexpected(at, at), edit, f"write `{whole} = …` without a type")
        word = self._previous.text
        is_keyword = self._previous.kind == "word" and word in _WORDS | {
            "replicas",
            "most",
            "least",
        }
        if sign in (":", "=") and is_keyword and not self._behind:
            hint = f"write `{word}` without `{sign}`"
            return _with(self._unexpected(at, at), edit, hint, certain=True)
        if sign in (":", "=") and "LBRACE" in self._accepted and self._previous.kind == "string":
            return _with(self._unexpected(at, at), edit, f"leave out the `{sign}`", certain=True)
        is_between = "RBRACE" in self._accepted and lexemes.opener(at) is not None
        if sign in (",", ";") and is_between and lexemes[lexemes.opener(at) or 0].text == "{":
            hint = f"leave out the `{sign}`: parts need no sign between them"
            is_certain = lexemes[at + 1].text in _WORDS or lexemes[at + 1].text == "}"
            found = self._unexpected(at, at)
            if sign == ";":
                found = catalogue.bad_character(";", edit.span)
            if not is_certain and "REQUIRE" in self._accepted:
                joined = Fix(edit.span, " &&")
                return _with(found, joined, "write `&&` between conditions")
            return _with(found, edit, hint, certain=is_certain)
        return None

    def _bound(self) -> Diagnostic | None:
        """`max 3`, `<= 3`, `3` alone, `skew 1`, `per zone`."""
        lexemes, at, accepted, word = self._lexemes, self._at, self._accepted, self._item.text
        found = self._unexpected(at, at)
        number = at if self._item.kind == "number" else at + 1
        number += lexemes[number].text in (":", "=")
        is_percent = lexemes[number + 1].text == "%" and lexemes.touches(number + 1)
        last = number + is_percent
        amount = lexemes.slice(number, last)
        is_amount = lexemes[number].kind == "number"
        if set(accepted) == {"AT"} and self._previous.text == "skew" and is_amount:
            return _with(found, Fix(lexemes.span(at, last), f"at most {amount}"))
        is_plain = number == at or self._meant("at least") or self._meant("at most")
        if set(accepted) == {"MOST", "LEAST"} and is_amount and is_plain:
            kind = "least" if self._meant("at least") else "most"
            return _with(found, Fix(lexemes.span(at, last), f"{kind} {amount}"))
        if "EXACTLY" in accepted and is_amount and lexemes[at - 1].text != "sum":
            signs = {"<=": "at most", ">=": "at least", "==": "exactly", "=": "exactly"}
            signs |= {"max": "at most", "min": "at least"}
            kind = "at most" if number == at else signs.get(word, "")
            row = habits.find(habits.PARTS, word)
            if not kind and row is not None and row.here in ("at most", "at least", "exactly"):
                kind = row.here
            if word in ("<", ">") and "." not in amount:
                kind = "at most" if word == "<" else "at least"
                amount = (
                    str(int(amount) + (1 if word == ">" else -1)) if amount.isdigit() else amount
                )
            if kind:
                return _with(found, Fix(lexemes.span(at, last), f"{kind} {amount}"))
        if set(accepted) == {"CLUSTER", "DOMAIN", "NODE"} and self._item.kind in ("word", "string"):
            rest = lexemes.operand_after(at) or at
            text = word.strip("\"'")
            if lexemes.slice(at, rest).startswith("node."):
                start = self._item.start
                whole = f"domain {lexemes.slice(at, rest)}"
                return _with(found, Fix(Span(start, start), "domain "), f"write `{whole}`")
            domain = _DOMAINS.get(text.lower(), f'node.labels["{text}"]')
            made = "node" if domain == "node.name" else f"domain {domain}"
            return _with(found, Fix(lexemes.span(at, at), made), f"write `per {made}`")
        return None

    def _meant(self, here: str) -> bool:
        row = habits.find(habits.PARTS, self._item.text)
        return row is not None and row.here == here

    def _lacking_word(self) -> Diagnostic | None:
        """A word of the language that must stand here, and does not: `for pods pod.labels…`."""
        lexemes, at, accepted = self._lexemes, self._at, self._accepted
        groups = {
            "WHERE": "where",
            "PODS": "pods where",
            "NODES": "nodes where",
            "NAMESPACE": "namespace",
            "EFFORT": "effort",
            "WEIGHT": "weight",
            "VICTIM": "victim where",
            "BY": "by",
        }
        if len(accepted) != 1 or (word := groups.get(next(iter(accepted)))) is None:
            return None
        if word == "weight" and self._previous.text != "effort":
            return None
        found, item = self._unexpected(at, at), self._item
        if word == "namespace" and item.kind in ("word", "string"):
            text = item.text if item.kind == "string" else f'"{item.text}"'
            return _with(found, Fix(lexemes.span(at, at), f"namespace {text}"))
        if item.kind not in ("word", "string", "number") and item.text not in ("!", "(", "["):
            return None
        if lexemes[at + 1].text == "where" or item.text in ("with", "if", "when", "that", "having"):
            edit = Fix(lexemes.span(at, at), word.split()[0])
            return _with(found, edit, certain=lexemes[at + 1].text == "where")
        end = lexemes.expression_end(at, _STOPS)
        if word.startswith(item.text) and lexemes[at + 1].text != ".":
            return None
        if word == "weight" and item.kind != "number":
            edit = Fix(Span(item.start, item.start), "weight 10 ")
            return _with(found, edit, "write `weight 10`")
        edit = Fix(Span(item.start, item.start), f"{word} ")
        shown = f"{word} {_short(lexemes.slice(at, max(at, end)))}"
        return _with(found, edit, f"write `{shown}`")

    def _head(self) -> Diagnostic | None:
        """`policy p for pods where … {` and `policy p namespace "shop" {`."""
        lexemes, at = self._lexemes, self._at
        if not {"LPAR", "LBRACE"} <= self._accepted:
            return None
        found = self._unexpected(at, at)
        if self._item.text == "namespace":
            edit = Fix(Span(self._item.start, self._item.start), "in ")
            return _with(found, edit, f"write `in {lexemes.slice(at, at + 1)}`")
        opener = _find(lexemes, at, ("{",))
        if (
            self._item.text in ("for", "weight", "mode", "when", "where", "if")
            and opener is not None
        ):
            said = lexemes.slice(at, opener - 1)
            if self._item.text in ("when", "where", "if"):
                said = f"for pods where {lexemes.slice(at + 1, opener - 1)}"
            edit = Fix(lexemes.span(at, opener), f"{{ {said}")
            return _with(found, edit, f"write `{_short(edit.text)}`, inside the braces")
        return None

    def _name(self) -> Diagnostic | None:
        """A name that must be a text, a clause without one, a score without a weight."""
        lexemes, at, accepted = self._lexemes, self._at, self._accepted
        found, word = self._unexpected(at, at), self._previous.text
        if accepted and set(accepted) <= {"STRING", "NAME"}:
            if self._item.kind == "word" and self._item.text == "f" and lexemes.touches(at + 1):
                edit = Fix(lexemes.span(at, at), "")
                hint = "leave out the `f`: braces in a text hold expressions"
                return _with(found, edit, hint, certain=True)
            if self._item.kind in ("word", "number"):
                last = at
                while lexemes.touches(last + 1) and (
                    lexemes[last + 1].kind in ("word", "number")
                    or lexemes[last + 1].text in ("-", ".", "/")
                ):
                    last += 1
                name = lexemes.slice(at, last)
                edit = Fix(lexemes.span(at, last), f'"{name}"')
                return _with(self._unexpected(at, last), edit, certain=True)
            if self._item.text in ("{", "when"):
                start = self._item.start
                shown = f'{word} "name" {self._item.text}'
                edit = Fix(Span(start, start), '"name" ')
                return _with(found, edit, f"write `{shown}`, with a name of its own")
            if self._item.text == "(" and lexemes[at + 1].kind == "string":
                edit = Fix(lexemes.span(at, at + 2), lexemes[at + 1].text)
                return _with(found, edit, certain=lexemes[at + 2].text == ")")
        if accepted and set(accepted) == {"WEIGHT"}:
            if self._item.kind == "number":
                edit = Fix(lexemes.span(at, at), f"weight {self._item.text}")
                return _with(found, edit, certain=True)
            start = self._item.start
            hint = f"write `score {word} weight 10 {self._item.text}`, with the weight before the block"
            return _with(found, Fix(Span(start, start), "weight 10 "), hint)
        return None

    # ---- clauses and parts

    def _clause(self) -> Diagnostic | None:
        """A word where a clause must start: which clauses there are, and the one meant."""
        lexemes, at, word = self._lexemes, self._at, self._item.text
        if self._item.kind != "word" or not {"FILTER", "SCORE", "LET"} <= self._accepted:
            return self._top_level()
        if self._behind and lexemes[at + 1].kind != "string":
            return None
        found = catalogue.unknown_clause(word, lexemes.span(at, at))
        if (close := nearest(word, _ITEMS)) is not None and not self._behind:
            hint = f"did you mean `{close}`?"
            edit = Fix(lexemes.span(at, at), close)
            from_list = sorted(n for n in _ITEMS if nearest(word, (n,)))
            return _with(found, edit, hint, certain=len(from_list) == 1)
        row = habits.find(habits.CLAUSES, word)
        meant = row.here if row is not None else self._by_content(at)
        if meant is not None and (whole := self._rewritten(at, word, meant)) is not None:
            return _with(found, whole, f"write `{_short(whole.text)}`; {catalogue.CLAUSES_ARE}")
        if meant is not None:
            edit = Fix(lexemes.span(at, at), meant)
            return _with(found, edit, f"write `{meant}`; {catalogue.CLAUSES_ARE}")
        return replace(found, hint=catalogue.CLAUSES_ARE)

    def _by_content(self, at: int) -> str | None:
        """The clause that has the parts of the block behind an unknown word."""
        opener = _find(self._lexemes, at, ("{",))
        if opener is None or opener > at + 6:
            return None
        closer = self._lexemes.partner.get(opener, len(self._lexemes.items))
        words = {self._lexemes[n].text for n in range(opener, closer)}
        signs = {
            "filter": {"require"},
            "score": {"value", "range"},
            "spread": {"over", "skew"},
            "share": {"replicas", "on"},
            "limit": {"per"},
            "preempt": {"protect", "allow", "keep"},
        }
        return next((clause for clause, parts in signs.items() if parts & words), None)

    def _rewritten(self, at: int, word: str, meant: str) -> Fix | None:
        """A whole filter for a block of one condition, negated for `deny` and its like."""
        lexemes = self._lexemes
        if meant != "filter":
            return None
        negated = word.lower() in habits.CLAUSES[0].words
        name, opener = at + 1, at + 2
        if lexemes[name].kind != "string":
            return None
        if lexemes[opener].text != "{" or opener not in lexemes.partner:
            return None
        closer = lexemes.partner[opener]
        first = opener + 1
        row = habits.find(habits.PARTS, lexemes[first].text)
        is_part = lexemes[first].text == "require" or (row is not None and "require" in row.here)
        if is_part and lexemes[first + 1].text not in (".", "(", "["):
            first += 1
        if first >= closer or any(lexemes[n].text in _PARTS for n in range(first, closer)):
            return None
        condition = lexemes.slice(first, closer - 1)
        condition = f"!({condition})" if negated else condition
        made = f"filter {lexemes[name].text} {{ require {condition} }}"
        return Fix(lexemes.span(at, closer), made)

    def _top_level(self) -> Diagnostic | None:
        lexemes, at, word = self._lexemes, self._at, self._item.text
        if not {"POLICY", "TEST"} <= self._accepted or self._item.kind != "word":
            return None
        found = self._unexpected(at, at)
        if word in ("apiVersion", "kind", "metadata", "spec"):
            return replace(found, hint="give the file the ending `.yaml`, if it is a manifest")
        if word in _ITEMS - {"test"}:
            hint = f"write `cluster policy name {{ {word} … }}`: clauses stand in a policy"
            return replace(found, hint=hint)
        synonyms = ("rule", "package", "constraint", "resource", "placementpolicy", "job", "group")
        if word.lower() in synonyms:
            return _with(found, Fix(lexemes.span(at, at), "policy"), "write `policy name { … }`")
        return None

    def _part(self) -> Diagnostic | None:
        """A word where a part of a clause must start, or a condition without `require`."""
        lexemes, at, word, accepted = self._lexemes, self._at, self._item.text, self._accepted
        is_in_clause = bool({"MESSAGE", "VALUE", "PROTECT"} & accepted)
        if not is_in_clause or self._item.kind in ("end",) or word == "}":
            return None
        found = self._unexpected(at, at)
        if self._item.kind == "word":
            close = nearest(word, self._known)
            if close is not None and close != word:
                return None
            edit = self._synonym(word)
            if edit is not None:
                return _with(found, edit)
        if self._behind:
            return None
        for keyword in ("require", "value"):
            if keyword.upper() in accepted and (last := self._condition(at)) is not None:
                whole = f"{keyword} {lexemes.slice(at, last)}"
                start = self._item.start
                edit = Fix(Span(start, start), f"{keyword} ")
                return _with(found, edit, f"write `{whole}`")
        return None

    def _condition(self, at: int) -> int | None:
        """The end of an expression that starts here; None if none does."""
        lexemes = self._lexemes
        if self._item.text in (":", ",", "=", ";", ")", "]", "}"):
            return None
        end = lexemes.expression_end(at, _STOPS)
        return end if end >= at and lexemes.operand_after(at) is not None else None

    def _synonym(self, word: str) -> Fix | None:
        """The part that a word means where it stands, with the value behind it."""
        lexemes, at = self._lexemes, self._at
        rows = (row for row in habits.PARTS if word in row.words or word.lower() in row.words)
        row = next((r for r in rows if r.here.split()[0].upper() in self._accepted), None)
        if row is None:
            return None
        last = at + 1 if lexemes[at + 1].text in (":", "=") else at
        here, value = row.here, lexemes[last + 1]
        if word in ("whenUnsatisfiable", "strength", "enforcement"):
            strength = habits.find(habits.PARTS, value.text.strip("\"'"))
            if strength is None:
                return None
            return Fix(lexemes.span(at, last + 1), strength.here)
        if here == "over":
            if value.kind == "string":
                key = value.text[1:-1]
                domain = _DOMAINS.get(key.lower(), f'node.labels["{key}"]')
                return Fix(lexemes.span(at, last + 1), f"over {domain}")
            if value.text in _DOMAINS and lexemes[last + 2].text != ".":
                return Fix(lexemes.span(at, last + 1), f"over {_DOMAINS[value.text]}")
        if here in ("skew at most", "min domains") and value.kind == "number":
            return Fix(lexemes.span(at, last + 1), f"{here} {value.text}")
        if here == "pods where" and "OF" in self._accepted:
            here = "of pods where"
        if word == "replicas":
            return Fix(lexemes.span(at, last), here)
        if here in ("require", "value", "message", "detail") and last < len(lexemes.items) - 1:
            end = lexemes.expression_end(last + 1, _STOPS)
            if end > last:
                return Fix(lexemes.span(at, end), f"{here} {lexemes.slice(last + 1, end)}")
        if here == "require !":
            end = lexemes.expression_end(last + 1, _STOPS)
            made = f"require !({lexemes.slice(last + 1, end)})"
            return Fix(lexemes.span(at, end), made)
        if here in ("strict", "best effort weight 10"):
            # `hard true` is `strict`.
            last += lexemes[last + 1].text in ("true", "yes")
        return Fix(lexemes.span(at, last), here)


_DOMAINS = {
    "zone": "node.zone",
    "zones": "node.zone",
    "az": "node.zone",
    "topology.kubernetes.io/zone": "node.zone",
    "failure-domain.beta.kubernetes.io/zone": "node.zone",
    "region": "node.region",
    "topology.kubernetes.io/region": "node.region",
    "host": "node.name",
    "hostname": "node.name",
    "kubernetes.io/hostname": "node.name",
    "machine": "node.name",
    "server": "node.name",
    "node": "node.name",
    "nodes": "node.name",
}


def _find(lexemes: Lexemes, start: int, words: tuple[str, ...]) -> int | None:
    """The next of the words on the same level of brackets."""
    at = start
    while at < len(lexemes.items):
        if lexemes[at].text in words:
            return at
        if lexemes[at].closes:
            return None
        at = lexemes.partner.get(at, at) + 1 if lexemes[at].opens else at + 1
    return None


def _lambda(lexemes: Lexemes, at: int) -> Fix | None:
    """A function as an argument of a macro: its names, and then what it says of them."""
    opener = lexemes.opener(at)
    if opener is None or lexemes[opener].text != "(" or opener not in lexemes.partner:
        # The names of `(k, v) => …` are in brackets of their own.
        return None
    word = lexemes[at].text
    closer = lexemes.partner[opener]
    if word in ("=>", "->"):
        if lexemes[at - 1].text == ")" and (inner := lexemes.partner.get(at - 1)) is not None:
            names, body = lexemes.slice(inner + 1, at - 2), at + 1
        else:
            names, body = lexemes[at - 1].text, at + 1
    elif word == "lambda":
        colon = _find(lexemes, at, (":",))
        if colon is None:
            return None
        names, body = lexemes.slice(at + 1, colon - 1), colon + 1
    elif word == "function":
        names, body = lexemes.slice(at + 2, lexemes.partner.get(at + 1, at + 1) - 1), at
        body = lexemes.partner.get(at + 1, at) + 1
    else:
        bar = next((n for n in range(at + 1, closer) if lexemes[n].text == "|"), None)
        if bar is None or opener != at - 1:
            return None
        names, body = lexemes.slice(at + 1, bar - 1), bar + 1
    last = closer - 1
    if lexemes[body].text == "{" and lexemes.partner.get(body) == last:
        body, last = body + 1, last - 1
        body += lexemes[body].text == "return"
        last -= lexemes[last].text == ";"
    if not names or body > last or lexemes[opener - 1].kind != "word":
        return None
    method = opener - 1
    macro = lexemes[method].text
    row = habits.find(habits.MACROS, macro)
    made = f"{row.here if row is not None else macro}({names}, {lexemes.slice(body, last)})"
    return Fix(lexemes.span(method, closer), made)


def _as_list(right: str) -> str:
    """SQL's list in parentheses as one in brackets; a text alone as a list of one."""
    if right.startswith("(") and right.endswith(")"):
        return f"[{right[1:-1]}]"
    return f"[{right}]" if right[:1] in "\"'" else right


def _short(text: str) -> str:
    """A text on one line."""
    return " ".join(text.split())
