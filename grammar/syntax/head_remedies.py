"""Head remedies: what an unexpected word means in the head of a policy, a clause or a definition.

A part of the syntax remedies; also for the results that a test expects.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile

from grammar.messages import catalogue, habits
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.syntax.unexpected import ITEMS, PARTS, STOPS, Misplaced, find, one_line, with_edit
from grammar.tree.clauses import CLAUSE_WORDS
from grammar.tree.source import Span

_STRENGTHS = ("strict", "hard", "required", "mandatory")
# Words for an order among policies or clauses.
_ORDERS = ("priority", "order", "rank", "precedence")
# What a policy says of itself, inside of its braces.
_SETTINGS = ("for", "weight", "mode", "failure", "description")


_AMOUNT = r"\w+\.(?:free|requests|requested|allocatable|limits)\[[^\]]*\]"


def _braced(text: str) -> str:
    """Lines of which each with a `:` at its end opens a block, as in Python, with braces."""
    made: list[str] = []
    blocks: list[int] = []
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip())
        while line.strip() and blocks and indent <= blocks[-1]:
            made.append(f"{' ' * blocks.pop()}}}")
        is_open = line.rstrip().endswith(":")
        blocks += [indent] * is_open
        made.append(f"{line.rstrip()[:-1]} {{" if is_open else line)
    made += [f"{' ' * indent}}}" for indent in reversed(blocks)]
    return "\n".join(made)


def _typed(name: str, body: str) -> str:
    """A parameter of a definition with its type, by how it is used."""
    if ":" in name:
        return name
    field = re.search(rf"(?<![\w.]){name}\.(\w+)", body)
    of_node = ("free", "allocatable", "requested", "usage", "ready", "zone", "region", "pods")
    owner = "Node" if field is not None and field[1] in of_node else "Pod"
    return f"{name}: {'string' if field is None else owner}"


_EXCEPT = ("unless", "except", "excluding", "without")


def _of_namespace(said: str) -> str | None:
    """`namespace "shop"` and `kube-system` as a condition; None for anything else."""
    found = re.fullmatch(
        r"(?:(?:the )?(?:pods?|it) )?(?:is )?(?:in )?(?:the )?"
        r"(?:namespaces? |ns )\"?([a-z0-9-]+)\"?",
        said,
    )
    found = found or re.fullmatch(r"\"?(kube-[a-z-]+)\"?", said)
    return f'pod.namespace == "{found[1]}"' if found is not None else None


class HeadRemedies(Misplaced):
    """Looks at an error before a block; each method is one idea."""

    @property
    def ideas(self) -> tuple[Callable[[], Diagnostic | None], ...]:
        """In the order in which they are asked."""
        return (
            self._head,
            self._superfluous_order,
            self._definition,
            self._result,
            self._top_level,
            self._nodes,
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
        if word == ":":
            # A block of Python ends where the next policy begins.
            start, text = self.item.end, self.source.text
            end = text.find("\npolicy ", start)
            end = len(text.rstrip()) if end < 0 else end
            edit = Fix(Span(self.item.start, end), f" {{{_braced(text[start:end])}\n}}")
            return with_edit(found, edit, "write `{` for the `:`, and `}` where the policy ends")
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

    def _definition(self) -> Diagnostic | None:
        """`def small(r) = …`: the types of what it takes and of what it gives."""
        lexemes, at = self.lexemes, self.at
        first = next(
            (n for n in range(at - 1, max(-1, at - 12), -1) if lexemes[n].text == "def"), None
        )
        opener = None if first is None else first + 2
        closer = lexemes.partner.get(opener or 0)
        if self.accepted != {"COLON"} or first is None or opener is None or closer is None:
            return None
        sign = closer + 1
        body = self.source.text[lexemes[sign].end :].partition("\n")[0]
        if lexemes[sign].text not in ("=", "=>", "->", ":") or not body.strip():
            return None
        names = lexemes.slice(opener + 1, closer - 1).split(",")
        typed = (_typed(name.strip(), body) for name in names)
        kind = "bool" if re.search(r"[<>=!]=|[<>]|&&|\|\||\bin\b", body) else "double"
        kind = "quantity" if kind == "double" and re.fullmatch(_AMOUNT, body.strip()) else kind
        made = f"def {lexemes[first + 1].text}({', '.join(typed)}): {kind} ="
        found = self.unexpected(at, at)
        return with_edit(
            found, Fix(lexemes.span(first, sign), made), f"write `{made} …`, with types"
        )

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

    def _nodes(self) -> Diagnostic | None:
        """`for nodes where node.zone == "a"`: a filter is about nodes."""
        lexemes, at = self.lexemes, self.at
        last = lexemes.expression_end(at + 2, STOPS)
        is_where = self.item.text in ("node", "nodes") and lexemes[at + 1].text == "where"
        if self.previous.text != "for" or not is_where or last < at + 2:
            return None
        made = f'filter "nodes" {{ require {lexemes.slice(at + 2, last)} }}'
        return with_edit(self.unexpected(at, at), Fix(lexemes.span(at - 1, last), made))

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
            condition = _of_namespace(condition) or condition
            condition = f"!({condition})" if word in _EXCEPT else condition
            edit = Fix(lexemes.span(at, opener - 1), f"when {condition}")
            return with_edit(self.unexpected(at, at), edit)
        if (moved := self._behind_block()) is not None:
            return moved
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

    def _behind_block(self) -> Diagnostic | None:
        """`filter "x" { … } when pod.priority > 5`: the condition stands before the block."""
        lexemes, at = self.lexemes, self.at
        opener = lexemes.partner.get(at - 1)
        between = self.source.text[self.previous.end : self.item.start]
        if self.previous.text != "}" or opener is None or "\n" in between:
            return None
        last = lexemes.expression_end(at + 1, STOPS)
        condition = lexemes.slice(at + 1, last)
        if lexemes[opener - 1].kind not in ("string", "number") or not condition:
            return None
        said = f"when {f'!({condition})' if self.item.text in _EXCEPT else condition}"
        edit = Fix(lexemes.span(opener, last), f"{said} {lexemes.slice(opener, at - 1)}")
        hint = f"write `{said}` before the block"
        return with_edit(self.unexpected(at, at), edit, hint)
