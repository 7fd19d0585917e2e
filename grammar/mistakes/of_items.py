"""Items of lists: what is said of each item of a list elsewhere, as a macro of this language.

A part of the syntax mistakes: functions of Python, JavaScript and Rust, quantifiers of Rego and
SQL, comprehensions, `[*]` of JSONPath and `count(*)` of SQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from grammar.messages import habits
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.mistakes.misplaced import STOPS, Misplaced, find, rooted, with_edit
from grammar.syntax.lexemes import Lexemes

_MACRO_NAMES = frozenset("all exists exists_one existsOne filter map any some every".split())
_ENDS = frozenset({"sum", "max", "min"})
_SIZES = frozenset({"len", "size", "count"})
_MACROS = {"any": "exists", "all": "all"}


class ItemRemedies(Misplaced):
    """Looks at an error in what is said of items; each method is one idea."""

    @property
    def ideas(self) -> tuple[Callable[[], Diagnostic | None], ...]:
        """In the order in which they are asked."""
        return (
            self._items_of_list,
            self._each_or_all,
            self._arrow,
            self._quantifier,
        )

    def _arrow(self) -> Diagnostic | None:
        """`p => …`, `p -> …`, `lambda p: …`: a macro has the name as its first argument."""
        lexemes = self.lexemes
        # Of `(sum, p) => …`, the comma is unexpected.
        behind = lexemes.partner.get(lexemes.opener(self.at) or -1, -2) + 1
        for at in (self.at, self.at - 1, behind):
            is_arrow = lexemes[at].text in ("=>", "->", "lambda", "|")
            if is_arrow and (edit := function_of_items(lexemes, at)) is not None:
                return with_edit(self.unexpected(at, at), edit)
        opener = lexemes.opener(self.at)
        is_first = self.item.text in (":", "|", ";", "in") and opener == self.at - 2
        if is_first and opener is not None and lexemes[opener - 1].text in _MACRO_NAMES:
            closer = lexemes.partner.get(opener)
            if self.previous.kind == "word" and closer is not None:
                body = lexemes.slice(self.at + 1, closer - 1)
                method = lexemes[opener - 1].text
                made = f"{method}({self.previous.text}, {body})"
                edit = Fix(lexemes.span(opener - 1, closer), made)
                return with_edit(self.unexpected(self.at, self.at), edit)
        defines = self.previous.text == ")" and self.item.text in ("=>", "->")
        if defines and self.behind and lexemes[self.at + 1].kind != "number":
            hint = "write a function as `def name(x: TYPE): TYPE = …`"
            return replace(self.unexpected(self.at, self.at), hint=hint)
        return None

    def _items_of_list(self) -> Diagnostic | None:
        """`all(p.ready for p in pods)` and `[p.name for p in pods if p.ready]`."""
        lexemes, at = self.lexemes, self.at
        opener = lexemes.opener(at)
        if self.item.text != "for" or opener is None or opener not in lexemes.partner:
            return None
        if lexemes[at + 2].text != "in" or lexemes[opener].text not in ("(", "["):
            return None
        closer = lexemes.partner[opener]
        name = lexemes[at + 1].text
        test = next((n for n in range(at, closer) if lexemes[n].text == "if"), closer)
        items = lexemes.slice(at + 3, test - 1)
        body = lexemes.slice(opener + 1, at - 1)
        condition = lexemes.slice(test + 1, closer - 1)
        inner = lexemes[opener + 1]
        if inner.text == "[" and lexemes.partner.get(opener + 1) == closer - 1:
            return None
        is_alone = lexemes[opener - 1].text == "(" and lexemes[closer + 1].text == ")"
        if (
            lexemes[opener].text == "["
            and is_alone
            and lexemes[opener - 2].text in _ENDS | {*_MACROS}
        ):
            body, opener, closer = lexemes.slice(opener + 1, at - 1), opener - 1, closer + 1
        called = lexemes[opener - 1] if lexemes[opener].text == "(" else None
        first = opener if called is None or called.kind != "word" else opener - 1
        function = called.text if called is not None else ""
        if condition:
            items = f"{items}.filter({name}, {condition})"
        macro = _MACROS.get(function)
        if macro is not None:
            made = f"{items}.{macro}({name}, {body})"
        else:
            made = items if body == name else f"{items}.map({name}, {body})"
            if function in _ENDS:
                made = f"{made}.{function}()"
            elif function in _SIZES:
                made = f"size({made})"
        return with_edit(self.unexpected(at, at), Fix(lexemes.span(first, closer), made))

    def _quantifier(self) -> Diagnostic | None:
        """`some p in pods; …` and `every p in pods { … }`, as in Rego and SQL."""
        lexemes, at = self.lexemes, self.at
        if self.item.text in ("some", "every", "any") and lexemes[at + 2].text == "in":
            # Where a part of a clause begins.
            at += 1
        word, item = lexemes[at - 1].text, lexemes[at]
        macro = {
            "some": "exists",
            "every": "all",
            "any": "exists",
            "all": "all",
            "exists": "exists",
        }
        if word not in macro or item.kind != "word" or lexemes[at + 1].text != "in":
            return None
        is_part = at != self.at and "REQUIRE" in self.accepted
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
            end = lexemes.expression_end(following, STOPS)
            body = lexemes.slice(following, end)
        if not body:
            return None
        edit = Fix(
            lexemes.span(at - 1, max(end, last)),
            f"{'require ' * is_part}{items}.{macro[word]}({item.text}, {body})",
        )
        return with_edit(self.unexpected(at - 1, at - 1), edit)

    def _each_or_all(self) -> Diagnostic | None:
        """`items[*].name` and `items[].name` of JSONPath and jq, and `count(*)` of SQL."""
        lexemes, at = self.lexemes, self.at
        is_star = self.item.text == "*"
        closer = at + is_star
        if self.previous.text == "[" and lexemes[closer].text == "]":
            first = lexemes.operand_before(at - 1)
            end = lexemes.expression_end(closer + 1, STOPS | {"&&", "||"})
            if first is None or end <= closer or "|" in lexemes.slice(closer + 1, end):
                return None
            items, said = rooted(lexemes.slice(first, at - 2)), lexemes.slice(closer + 1, end)
            # An order, or what is not to be, is meant of every item.
            macro = "all" if re.search(r"[<>]|!=", said) else "exists"
            edit = Fix(lexemes.span(first, end), f"{items}.{macro}(x, x{said})")
            return with_edit(self.unexpected(at, at), edit)
        if is_star and self.previous.text == "(" and lexemes[closer].text == ")":
            first = lexemes.operand_before(at - 1)
            if first is None or lexemes[at - 3].text != ".":
                return None
            edit = Fix(lexemes.span(first, closer), f"size({lexemes.slice(first, at - 4)})")
            return with_edit(self.unexpected(at, at), edit)
        return None


def function_of_items(lexemes: Lexemes, at: int) -> Fix | None:
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
        colon = find(lexemes, at, (":",))
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
    said = lexemes.slice(body, last)
    items, comma = lexemes.operand_after(opener + 1), find(lexemes, body, (",",))
    if word == "lambda" and at == opener + 1 and comma is not None:
        # `filter(lambda p: p.ready, node.pods)`: the list stands behind.
        said, here = lexemes.slice(body, comma - 1), row.here if row is not None else macro
        made = f"{lexemes.slice(comma + 1, closer - 1)}.{here}({names}, {said})"
        return Fix(lexemes.span(method, closer), made)
    if lexemes[method - 1].text != "." and items is not None and lexemes[items + 1].text == ",":
        # `all(node.pods, p => p.ready)`: the list is the first argument.
        here = row.here if row is not None else macro
        head = f"{'!' * here.startswith('!')}{lexemes.slice(opener + 1, items)}"
        made = f"{head}.{here.removeprefix('!')}({names}, {said})"
        return Fix(lexemes.span(method, closer), made)
    here = "sortBy" if macro == "sort" else row.here if row is not None else macro
    first = lexemes.operand_before(closer + 1) if here.startswith("!") else None
    if first is not None and lexemes[method - 1].text == ".":
        # The negation stands before the list.
        head = lexemes.slice(first, method - 1)
        return Fix(lexemes.span(first, closer), f"!{head}{here[1:]}({names}, {said})")
    return Fix(lexemes.span(method, closer), f"{here}({names}, {said})")
