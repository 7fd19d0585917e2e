"""Brackets and amounts: what an unexpected word inside of an expression means.

A part of the syntax mistakes: units and percentages without quotes, lists, texts of other
languages, queries of Prometheus, and brackets that lack their partner.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from grammar.messages import catalogue, habits, plain_words
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.mistakes.examples import seconds_of
from grammar.mistakes.misplaced import ITEMS, WORDS, Misplaced, with_edit
from grammar.tree.printer import print_string
from grammar.tree.source import Span

_WHOLE_DIVISION = re.compile(r"[\w)\]]\s*(?P<sign>//)\s*[\d(a-z][^\n]*")
# An alternative of jq: its operand, and the text for where that is not there.
_ALTERNATIVE = re.compile(
    r"(?P<read>[a-z]\w*(?:\.\w+)+)(?:\.(?P<field>\w+)|\[(?P<key>\"[^\"]*\")\])\s*//\s*(?P<other>\"[^\"\n]*\")"
)
_PART_OF_NODE = re.compile(r"node\.(?:free|requested)(\[[^\]]*\])\Z")
_SLASHES = re.compile(r"/((?:\\.|[^/\n\\])+)/[a-z]*")
_TESTED = re.compile(r"/((?:\\.|[^/\n\\])+)/[a-z]*\.(?:test|match|exec)\(([\w.\[\]\"/-]+)\)")
_QUERY = re.compile(
    r"\b(?:avg|sum|max|min|count|topk|bottomk|quantile|stddev)\s*(?:by|without)\s*\("
    r"|(?<=[\w)}])\[\d+[smhd](?::\d*[smhd]?)?\]"
    r"|(?<![\w.\"])[a-z]\w*\{\s*[a-z]\w*\s*(?:=~?|!=|!~)\s*\""
    r"|(?<![\w.\"])(?:kube|node|container|machine|kubelet|DCGM_FI)_\w+\s*(?:[{\[(<>]|==)"
)


class QueryRemedies(Misplaced):
    """Looks at a query of Prometheus, which a table of data asks for."""

    @property
    def ideas(self) -> tuple[Callable[[], Diagnostic | None], ...]:
        """In the order in which they are asked."""
        return (self._query,)

    def _query(self) -> Diagnostic | None:
        """`rate(cpu[5m])`, `cpu{node="a"}` and `avg by (zone) (node_load1)`."""
        text, at = self.source.text, min(self.item.start, len(self.source.text))
        start = text.rfind("\n", 0, at) + 1
        found = _QUERY.search(text[start:].partition("\n")[0])
        is_counted = re.match(r"\s*(?:limit|spread|share)\b", text[start:]) is not None
        if self.item.kind == "end" or found is None or is_counted:
            return None
        said = found[0].rstrip(" {[(<>=") or found[0]
        span = Span(start + found.start(), start + found.start() + len(said))
        wrong = catalogue.unexpected(said, (), span)
        return replace(wrong, hint=habits.OF_PROMETHEUS)


class ExpressionRemedies(Misplaced):
    """Looks at an error inside an expression; each method is one idea."""

    @property
    def ideas(self) -> tuple[Callable[[], Diagnostic | None], ...]:
        """In the order in which they are asked."""
        return (
            self._bare_words,
            self._in_brackets,
            self._length,
            self._unit,
            self._percentage,
            self._list,
            self._division,
            self._slashes,
            self._foreign_text,
            self._unclosed,
        )

    # ---- amounts and texts without quotes

    def _bare_words(self) -> Diagnostic | None:
        """`us-east-1a`: a text with signs and digits, which cannot be a name."""
        lexemes, at = self.lexemes, self.at
        first = at
        while lexemes.touches(first) and (
            lexemes[first - 1].kind in ("word", "number") or lexemes[first - 1].text in ("-", "/")
        ):
            first -= 1
        if first == at or lexemes[first].kind != "word" or self.item.kind != "word":
            return None
        if lexemes[first - 1].text in (".", ".?") or lexemes[at - 1].kind != "number":
            return None
        last = at
        while lexemes.touches(last + 1) and (
            lexemes[last + 1].kind in ("word", "number") or lexemes[last + 1].text in ("-", "/")
        ):
            last += 1
        edit = Fix(lexemes.span(first, last), f'"{lexemes.slice(first, last)}"')
        return with_edit(self.unexpected(first, last), edit)

    def _in_brackets(self) -> Diagnostic | None:
        """`require(a, "no")` and `require { a }`: a part stands without brackets."""
        lexemes, opener = self.lexemes, self.lexemes.opener(self.at)
        if opener is None or lexemes[opener - 1].text not in ("require", "value", "when"):
            return None
        closer = lexemes.partner.get(opener)
        if closer is None or self.item.text not in (",", "}"):
            return None
        is_said = self.item.text == "," and lexemes[self.at + 1].kind == "string"
        if lexemes[opener].text == "(" and is_said and self.at + 2 == closer:
            said = f" message {lexemes[self.at + 1].text}"
        elif lexemes[opener].text == "{" and self.at == closer:
            said = ""
        else:
            return None
        made = f" {lexemes.slice(opener + 1, self.at - 1)}{said}"
        shown = f"write `{lexemes[opener - 1].text}{made}`"
        edit = Fix(lexemes.span(opener, closer), made)
        return with_edit(self.unexpected(self.at, self.at), edit, shown)

    def _length(self) -> Diagnostic | None:
        """`for at most "60s"`, `for at most 60`, `for at most 2 minutes`."""
        if self.accepted != {"LENGTH"} or self.item.kind not in ("string", "number", "word"):
            return None
        last, seconds = seconds_of(self, self.at)
        span = self.lexemes.span(self.at, last)
        return catalogue.no_length(self.lexemes.slice(self.at, last), span, seconds)

    def _unit(self) -> Diagnostic | None:
        """`8Gi`, `500m`, `10 minutes`, `40 percent`."""
        lexemes, at = self.lexemes, self.at
        said = f"{self.previous.text} {self.item.text}".removeprefix("one ").lower()
        if said in plain_words.FRACTIONS and lexemes[at - 2].text in ("most", "least", "exactly"):
            return with_edit(
                self.unexpected(at - 1, at),
                Fix(lexemes.span(at - 1, at), plain_words.FRACTIONS[said]),
            )
        if self.previous.kind != "number" or self.item.kind != "word":
            return None
        if re.fullmatch(r"(?:_\d+)+", self.item.text) and lexemes.touches(at):
            # `8_000`
            edit = Fix(lexemes.span(at - 1, at), lexemes.slice(at - 1, at).replace("_", ""))
            return with_edit(self.unexpected(at - 1, at), edit)
        if re.fullmatch(r"[smhd](?:\d+[smhd])+", self.item.text) and lexemes.touches(at):
            # `1h30m`
            edit = Fix(lexemes.span(at - 1, at), f'"{lexemes.slice(at - 1, at)}"')
            return with_edit(catalogue.bare_amount(edit.text.strip('"'), edit.span), edit)
        number, word = self.previous.text, self.item.text
        if word in habits.PERCENT:
            return self._part_of(at - 1, at, number)
        folded = {w.lower(): unit for w, unit in habits.UNITS.items() if len(w) > 1}
        unit = habits.UNITS.get(word, folded.get(word.lower()))
        if unit is None:
            return None
        edit = Fix(lexemes.span(at - 1, at), f'"{number}{unit}"')
        whole = lexemes.slice(at - 1, at)
        is_certain = unit == word and lexemes.touches(at)
        return with_edit(catalogue.bare_amount(whole, edit.span), edit, certain=is_certain)

    def _percentage(self) -> Diagnostic | None:
        """`40%` outside of a bound, where `%` is the remainder of a division."""
        lexemes = self.lexemes
        for last in (self.at - 1, self.at - 2):
            is_word = last == self.at - 1 or lexemes[last + 1].text in WORDS
            in_bound = lexemes[last - 2].text in ("most", "least", "exactly")
            is_percent = lexemes[last].text == "%" and lexemes[last - 1].kind == "number"
            if is_word and is_percent and not (in_bound and lexemes.touches(last)):
                return self._part_of(last - 1, last, lexemes[last - 1].text)
        return None

    def _part_of(self, first: int, last: int, number: str) -> Diagnostic:
        """The error for a percentage that is not written as one."""
        span, whole = self.lexemes.span(first, last), self.lexemes.slice(first, last)
        if self.lexemes[first - 1].text in ("most", "least", "exactly"):
            edit = Fix(span, f"{number}%")
            return with_edit(catalogue.bare_amount(whole, span), edit, certain=True)
        edit = Fix(span, f"{float(number) / 100:g}")
        whole_end = self.lexemes.operand_after(last + 2)
        if self.lexemes[last + 1].text == "of" and whole_end is not None:
            made = f"{edit.text} * {self.lexemes.slice(last + 2, whole_end)}"
            edit = Fix(self.lexemes.span(first, whole_end), made)
            return with_edit(catalogue.bare_amount(whole, span), edit)
        start = self.lexemes.operand_before(first - 1)
        compared = self.lexemes.slice(start, first - 2) if start is not None else ""
        if start is not None and (read := _PART_OF_NODE.match(compared)) is not None:
            sign = self.lexemes[first - 1].text
            made = f"{compared} / node.allocatable{read[1]} {sign} {edit.text}"
            edit = Fix(self.lexemes.span(start, last), made)
            return with_edit(catalogue.bare_amount(whole, span), edit)
        hint = f"write `{edit.text}` for a part of 1"
        return with_edit(catalogue.bare_amount(whole, span), edit, hint)

    # ---- brackets

    def _foreign_text(self) -> Diagnostic | None:
        """`{{ .pod.name }}` of Go templates, `` `a` `` of JavaScript, `[*]` of JSONPath."""
        lexemes, at = self.lexemes, self.at
        if self.item.text.startswith("`"):
            edit = Fix(lexemes.span(at, at), f'"{self.item.text[1:-1]}"')
            return with_edit(self.unexpected(at, at), edit)
        opener = lexemes.opener(at)
        is_inner = opener is not None and lexemes[opener].text == "{" and lexemes.touches(opener)
        if self.item.text == "}" and opener is not None and is_inner:
            outer, last = opener - 1, lexemes.partner.get(opener - 1)
            if lexemes[outer].text == "{" and last is not None:
                inner = lexemes.slice(opener + 1, last - 2).removeprefix(".").removesuffix("}")
                found = self.unexpected(outer, opener)
                return with_edit(found, Fix(lexemes.span(outer, last), inner.strip()))
        if self.item.text == ":" and opener is not None and lexemes[opener].text == "[":
            closer = lexemes.partner.get(opener)
            if closer is None or lexemes[opener - 1].text in ("", "(", ",", "==", "in"):
                return None
            start = lexemes.slice(opener + 1, at - 1) or "0"
            is_text = lexemes[opener - 1].text in ("name", "zone", "region", "namespace", "image")
            is_text = is_text or (
                lexemes[opener - 1].text == "]" and ".labels[" in self.source.text
            )
            method = "substring" if is_text else "slice"
            edit = Fix(lexemes.span(opener, closer), "")
            text = lexemes[closer + 2]
            is_start = is_text and start == "0" and lexemes[closer + 1].text == "=="
            if is_start and text.kind == "string":
                # `node.name[:3] == "gpu"`
                edit = Fix(lexemes.span(opener, closer + 2), f".startsWith({text.text})")
                other = f".substring(0, {lexemes.slice(at + 1, closer - 1)})"
                hint = f"write `{edit.text}`, or `{other}` for the text alone"
                return with_edit(self.unexpected(at, at), edit, hint)
            if end_text := lexemes.slice(at + 1, closer - 1):
                return with_edit(
                    self.unexpected(at, at),
                    replace(edit, text=f".{method}({start}, {end_text})"),
                )
        return None

    def _list(self) -> Diagnostic | None:
        """`{"a", "b"}` of Rego and `("a", "b")` of SQL and Python, which are lists here."""
        lexemes, opener = self.lexemes, self.lexemes.opener(self.at)
        closer = lexemes.partner.get(opener) if opener is not None else None
        if self.item.text == "," and lexemes[self.at - 2].text == "in":
            # `node.zone in "a", "b"`
            first, last = self.at - 1, self.at - 1
            while lexemes[last + 1].text == "," and lexemes[last + 2].kind == "string":
                last += 2
            edit = Fix(lexemes.span(first, last), f"[{lexemes.slice(first, last)}]")
            return with_edit(self.unexpected(first, last), edit)
        if opener is None or closer is None or self.item.text not in (",", "}"):
            return None
        bracket, before = lexemes[opener].text, lexemes[opener - 1].text
        # `name.startswith(("a", "b"))`
        is_argument = before == "(" and lexemes[closer + 1].text == ")" == lexemes[closer].text
        is_argument = is_argument and lexemes[opener - 2].kind == "word"
        if bracket not in ("{", "(") or not (
            before in ("in", "IN", "==", "!=", "=") or is_argument
        ):
            return None
        if bracket == "(" and self.item.text != ",":
            return None
        edit = Fix(lexemes.span(opener, closer), f"[{lexemes.slice(opener + 1, closer - 1)}]")
        return with_edit(self.unexpected(opener, opener), edit)

    def _division(self) -> Diagnostic | None:
        """`a // 2` of Python, which begins a comment here: the error is behind it."""
        first = self.source.text.rfind("{", 0, self.previous.end)
        end = self.item.start or len(self.source.text)
        other = _ALTERNATIVE.search(self.source.text, max(0, first), end)
        if other is not None:
            key = other["key"] or print_string(other["field"])
            made = f"{other['read']}[?{key}].orValue({other['other']})"
            span = Span(*other.span())
            return with_edit(catalogue.unexpected("//", (), span), Fix(span, made))
        found = [*_WHOLE_DIVISION.finditer(self.source.text, max(0, first), end)]
        if not found:
            return None
        span = Span(*found[-1].span("sign"))
        return with_edit(
            catalogue.unexpected("//", (), span), Fix(span, "/"), "write `/`: `//` begins a comment"
        )

    def _slashes(self) -> Diagnostic | None:
        """`x == /^a/`, a regular expression between slashes."""
        lexemes, at = self.lexemes, self.at
        signs = ("==", "=~", "~", "!~", "!=", "=", "===", "!==", "like", "matches", "regexp")
        if lexemes[at + 1].text == "/" and self.item.text.lower() in signs:
            # The sign itself is unknown.
            at += 1
        elif lexemes[at + 1].text in ("~", "=~") and lexemes[at + 2].text == "/":
            at += 2
        operator = at - 1
        while lexemes[operator].text in ("~", "=~") and lexemes[operator - 1].text in ("=", "!"):
            operator -= 1
        called = _TESTED.match(self.source.text, self.item.start)
        if called is not None and not self.behind:
            edit = Fix(Span(*called.span()), f"{called[2]}.matches({print_string(called[1])})")
            return with_edit(self.unexpected(self.at, self.at), edit)
        argument = _SLASHES.match(self.source.text, self.item.start)
        if argument is not None and self.previous.text in ("(", ","):
            # `node.name.match(/^gpu/)`
            edit = Fix(Span(*argument.span()), print_string(argument[1]))
            return with_edit(self.unexpected(self.at, self.at), edit)
        if lexemes[at].text != "/" or lexemes[operator].text.lower() not in (*signs, "!"):
            return None
        first = lexemes.operand_before(operator)
        written = _SLASHES.match(self.source.text, lexemes[at].start)
        if first is None or written is None:
            return None
        sign = "!" if lexemes[operator].text.startswith("!") else ""
        text = f"{sign}{lexemes.slice(first, operator - 1)}.matches({print_string(written[1])})"
        edit = Fix(Span(lexemes[first].start, written.end()), text)
        return with_edit(self.unexpected(self.at, self.at), edit)

    def _unclosed(self) -> Diagnostic | None:
        """A bracket that lacks its partner: the error is at the one that is there."""
        lexemes, at, item = self.lexemes, self.at, self.item
        if at == len(lexemes.items):
            return self._unclosed_at_end()
        opener = lexemes.opener(at)
        if item.closes and item.text != "}" and opener is not None and not self.behind:
            # An operand is lacking, and this closes something, or nothing at all.
            return None
        if item.closes and opener is None:
            found = self.unexpected(at, at)
            hint = f"leave out this `{item.text}`, which closes nothing"
            return with_edit(found, Fix(lexemes.span(at, at), ""), hint)
        if opener is None:
            return None
        sign = {"{": "}", "(": ")"}.get(lexemes[opener].text, "]")
        is_other = item.closes and item.text != sign
        is_word = item.kind == "word" and item.text in WORDS and sign != "}"
        is_item = item.kind == "word" and item.text in ITEMS and self._block_lacks_end(opener)
        if not (is_other or is_word or is_item):
            return None
        if sign == "}" and is_other:
            hint = f"leave out this `{item.text}`, which closes nothing"
            return with_edit(self.unexpected(at, at), Fix(lexemes.span(at, at), ""), hint)
        return self._lacks(opener, sign, at)

    def _block_lacks_end(self, opener: int) -> bool:
        """Whether an item starts although the clause before it is not closed."""
        starts_line = self.source.text[: self.item.start].rpartition("\n")[2].strip(" \t])}") == ""
        is_block = self.lexemes[opener].text == "{" and "RBRACE" in self.accepted
        return is_block and starts_line and self.item.text.upper() not in self.accepted

    def _unclosed_at_end(self) -> Diagnostic | None:
        lexemes = self.lexemes
        if not lexemes.unclosed:
            return None
        signs = [lexemes[n].text for n in lexemes.unclosed]
        terminal = {"{": "RBRACE", "(": "RPAR"}.get(signs[-1], "RSQB")
        if terminal not in self.accepted:
            # More than a bracket is lacking.
            return None
        closers = ["}" if s == "{" else ")" if s == "(" else "]" for s in signs]
        opener = lexemes.unclosed[-1]
        if (shifted := self._shifted()) is not None:
            return shifted
        end = len(self.source.text.rstrip())
        found = catalogue.unclosed_bracket(signs[-1], lexemes.span(opener, opener))
        ending = " ".join(reversed(closers))
        hint = f"write `{ending}` at the end of the text"
        return with_edit(found, Fix(Span(end, end), f" {ending}"), hint)

    def _shifted(self) -> Diagnostic | None:
        """The block that another one's closing brace ends: one that stands further to the left."""
        lexemes = self.lexemes
        for closer, opener in sorted(lexemes.partner.items()):
            if closer < opener or lexemes[closer].text != "}":
                continue
            line, column = self.source.position(lexemes[closer].start)
            first = self.source.position(lexemes[opener].start)[0]
            before = self.source.line(line)[: column - 1]
            indent = len(self.source.line(first)) - len(self.source.line(first).lstrip())
            if line != first and not before.strip() and len(before) < indent:
                return self._lacks(opener, "}", closer)
        return None

    def _lacks(self, opener: int, sign: str, before: int) -> Diagnostic:
        """The error for an opening bracket whose partner is lacking before a lexeme."""
        lexemes = self.lexemes
        line, _ = self.source.position(lexemes[before].start)
        found = catalogue.unclosed_bracket(lexemes[opener].text, lexemes.span(opener, opener))
        end = lexemes[before - 1].end
        hint = f"write `{sign}` before `{lexemes[before].text}` in line {line}"
        return with_edit(found, Fix(Span(end, end), sign if sign != "}" else " }"), hint)
