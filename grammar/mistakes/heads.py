"""Heads: what an unexpected word means in the head of a policy, a clause or a definition.

A part of the syntax mistakes; also for the results that a test expects.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile

from grammar.messages import catalogue, habits
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.mistakes.misplaced import ITEMS, PARTS, STOPS, Misplaced, find, one_line, with_edit
from grammar.tree.clauses import CLAUSE_WORDS
from grammar.tree.source import Span

_STRENGTHS = ("strict", "hard", "required", "mandatory")
# Words for an order among policies or clauses.
_ORDERS = ("priority", "order", "rank", "precedence")
# What a policy says of itself, inside of its braces.
_SETTINGS = ("for", "weight", "mode", "failure", "description")


_AMOUNT = r"\w+\.(?:free|requests|requested|allocatable|limits)\[[^\]]*\]"


_EXCEPT = ("unless", "except", "excluding", "without")


class HeadRemedies(Misplaced):
    """Looks at an error before a block; each method is one idea."""

    @property
    def ideas(self) -> tuple[Callable[[], Diagnostic | None], ...]:
        """In the order in which they are asked."""
        return (
            self._head,
            self._superfluous_order,
            self._result,
            self._top_level,
            self._condition_behind,
        )

    @property
    def _is_policy(self) -> bool:
        """Whether the head is one of a policy."""
        before = (self.lexemes[n].text for n in range(self.at - 1, -1, -1))
        return "policy" in takewhile(lambda text: text not in ("{", "}"), before)

    def _head(self) -> Diagnostic | None:
        """`policy p for pods where … {`, `policy p namespace "shop" {`, `policy p priority 5 {`."""
        lexemes, at, word = self.lexemes, self.at, self.item.text
        found = self.unexpected(at, at)
        if self.accepted == {"COLON"} and word in (",", ")") and self._is_policy:
            hint = f'write `{self.previous.text}: string = "…"`, with its type and a default'
            return replace(found, hint=hint)
        if self.accepted == {"NAMESPACE"} and lexemes[at + 1].text == "[":
            last = lexemes.partner.get(at + 1, at + 1)
            listed = f"{{ for pods where pod.namespace in {lexemes.slice(at + 1, last)}"
            edit = Fix(lexemes.span(at - 1, last + 1), listed)
            return with_edit(found, edit, f"write `{listed}`, inside the braces")
        if "LBRACE" not in self.accepted or not self._is_policy:
            return None
        if word == "for" and lexemes[at + 1].text in ("namespace", "ns"):
            value = lexemes[at + 2]
            name = value.text if value.kind == "string" else f'"{value.text}"'
            return with_edit(found, Fix(lexemes.span(at, at + 2), f"in namespace {name}"))
        if word == "in" and lexemes[at - 3].text == "cluster":
            whole = f"policy {self.previous.text}"
            hint = f"write `{whole} in namespace …`: a cluster policy is about all namespaces"
            return with_edit(found, Fix(lexemes.span(at - 3, at - 1), whole), hint)
        if word == "namespace":
            edit = Fix(Span(self.item.start, self.item.start), "in ")
            return with_edit(found, edit, f"write `in {lexemes.slice(at, at + 1)}`")
        if word in ITEMS and "\n" in self.source.text[self.previous.end : self.item.start]:
            edit = Fix(Span(self.previous.end, self.previous.end), " {")
            return with_edit(found, edit, "write `{` behind the head")
        if word == ":" and lexemes[at + 1].text in ("in", "{", "for"):
            return with_edit(found, Fix(lexemes.span(at, at), ""), "leave out the `:`")
        opener = find(lexemes, at, ("{",))
        row = habits.find(habits.CLAUSES, word)
        meant = word if word in _SETTINGS else row.here if row is not None else ""
        meant = "weight" if word in _ORDERS else meant
        if opener is not None and meant in (*_SETTINGS, "for pods where", "use"):
            first = at + 1 + (lexemes[at + 1].text in (":", "="))
            said = f"{meant} {lexemes.slice(first, opener - 1)}"
            edit = Fix(lexemes.span(at, opener), f"{{ {said}")
            return with_edit(found, edit, f"write `{one_line(edit.text)}`, inside the braces")
        if self.item.kind == "word" and lexemes[at - 2].text == "policy":
            # A name of several words.
            last = at
            while lexemes[last + 1].kind == "word" and lexemes[last + 1].text not in (*ITEMS, "in"):
                last += 1
            name = "-".join(lexemes.slice(at - 1, last).split())
            return with_edit(found, Fix(lexemes.span(at - 1, last), name))
        return None

    def _superfluous_order(self) -> Diagnostic | None:
        """`filter "x" priority 5 {`: filters have no order."""
        lexemes, at = self.lexemes, self.at
        is_inside = "REQUIRE" in self.accepted and "STRICT" not in self.accepted
        is_inside = is_inside and (lexemes[at + 1].text in PARTS or lexemes[at + 1].closes)
        is_before = lexemes[at - 2].text in ("filter", "bind")
        if self.item.text in _STRENGTHS and (is_before or is_inside):
            hint = f"leave out `{self.item.text}`: what is required always holds"
            return with_edit(self.unexpected(at, at), Fix(lexemes.span(at, at), ""), hint)
        if self.item.text not in _ORDERS or self.accepted != {"WHEN", "LBRACE"}:
            return None
        last = at + 1 + (lexemes[at + 1].text in ("=", ":"))
        hint = f"leave out `{lexemes.slice(at, last)}`: all of these must hold, in any order"
        return with_edit(self.unexpected(at, at), Fix(lexemes.span(at, last), ""), hint)

    def _result(self) -> Diagnostic | None:
        """`expect fail "node-1"`: what a test expects."""
        lexemes, at = self.lexemes, self.at
        row = habits.find(habits.CHOICES["result"], self.item.text)
        if not {"PASS", "REJECT"} <= self.accepted or row is None or row.here == self.item.text:
            return None
        found = self.unexpected(at, at)
        if row.here in ("pass", "bound") or lexemes[at + 2].text == "by":
            return with_edit(found, Fix(lexemes.span(at, at), row.here))
        clauses = "|".join(CLAUSE_WORDS)
        names = re.findall(rf'\b(?:{clauses})\s+("[^"\n]+")', self.source.text)
        made = f"{row.here} {lexemes[at + 1].text} by {names[0] if names else chr(34) * 2}"
        edit = Fix(lexemes.span(at, at + 1), made)
        return with_edit(found, edit, f"write `{made}`, with the name of the clause")

    def _top_level(self) -> Diagnostic | None:
        """What stands between policies, or instead of one."""
        lexemes, at, word = self.lexemes, self.at, self.item.text
        if not {"POLICY", "TEST"} <= self.accepted:
            return None
        mark = re.compile(r"---+|```+\w*").match(self.source.text, self.item.start)
        if mark is not None:
            wrong = catalogue.unexpected(mark[0].strip("`") or "```", (), Span(*mark.span()))
            hint = "leave it out: policies and tests stand one behind another"
            return with_edit(wrong, Fix(Span(*mark.span()), ""), hint)
        if self.item.kind != "word":
            return None
        found = self.unexpected(at, at)
        if word in ("apiVersion", "kind", "metadata", "spec"):
            return replace(found, hint="give the file the ending `.yaml`, if it is a manifest")
        if word in ITEMS - {"test"}:
            hint = f"write `cluster policy name {{ {word} … }}`: clauses stand in a policy"
            return replace(found, hint=hint)
        if lexemes[at + 1].text == "policy":
            name = lexemes[at + 2].text
            made = f'policy {name} in namespace "name"'
            if word.lower() in ("global", "clusterwide"):
                made = f"cluster policy {name}"
            return with_edit(found, Fix(lexemes.span(at, at + 2), made))
        if word.lower() in ("clusterpolicy", "clusterplacementpolicy", "guardrail"):
            return with_edit(found, Fix(lexemes.span(at, at), "cluster policy"))
        synonyms = ("rule", "package", "constraint", "resource", "placementpolicy", "job", "group")
        if word.lower() in synonyms:
            return with_edit(
                found, Fix(lexemes.span(at, at), "policy"), "write `policy name { … }`"
            )
        row = habits.find(habits.CLAUSES, word)
        if row is not None and row.here in CLAUSE_WORDS:
            hint = f"write `cluster policy name {{ {row.here} … }}`: clauses stand in a policy"
            return replace(found, hint=hint)
        return None

    # ---- the condition of a clause

    def _condition_behind(self) -> Diagnostic | None:
        """`if` in or before a block: the clause has a `when` behind its name."""
        lexemes, at, word = self.lexemes, self.at, self.item.text
        is_only = word == "only" and lexemes[at + 1].text in ("if", "when")
        is_for = word == "for" and lexemes[at + 1].text == "pods"
        if (
            word not in ("if", "when", "where", *_EXCEPT)
            and not is_for
            and not (
                is_only
                or (word in ("for", "only", "provided", "given") and "WHEN" in self.accepted)
            )
        ):
            return None
        is_sql = self.previous.text == "{" and "REQUIRE" in self.accepted
        if word == "where" and (is_sql or "ON" in self.accepted):
            # The condition of a filter, as in SQL, and the nodes of a share.
            return None
        if "WHEN" in self.accepted and "LBRACE" in self.accepted:
            opener = find(lexemes, at, ("{",))
            if opener is None:
                return None
            first = at + 1 + (lexemes[at + 1].text in ("if", "when", "where", "for"))
            if lexemes[first].text == "pods":
                first += 1 + (lexemes[first + 1].text == "where")
            condition = lexemes.slice(first, opener - 1)
            condition = f"!({condition})" if word in _EXCEPT else condition
            edit = Fix(lexemes.span(at, opener - 1), f"when {condition}")
            return with_edit(self.unexpected(at, at), edit)
        opener = lexemes.opener(at)
        is_clause = {"MESSAGE", "VALUE", "PROTECT"} & self.accepted
        if opener is None or not is_clause or lexemes[opener].text != "{":
            return None
        first = at + 1 + is_only + 2 * is_for
        end = lexemes.expression_end(first, STOPS | {"pods", "nodes"})
        condition = lexemes.slice(first, end)
        condition = f"!({condition})" if word in _EXCEPT else condition
        if not condition or not any(
            lexemes[n].text in CLAUSE_WORDS for n in range(opener - 6, opener)
        ):
            return None
        body = lexemes.slice(opener, at - 1)
        head = next(n for n in range(opener - 1, -1, -1) if lexemes[n].text in CLAUSE_WORDS)
        shown = f"{lexemes.slice(head, opener - 1)} when {condition} {{"
        edit = Fix(lexemes.span(opener, end), f"when {condition} {body}")
        found = self.unexpected(at, at)
        return with_edit(
            found, edit, f"write `{one_line(shown)}`, with the condition before the block"
        )
