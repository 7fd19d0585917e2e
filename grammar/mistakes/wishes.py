"""Wishes: what a wish in plain English is as a clause, if each of its words is understood.

`wishes.lark` is a closed grammar. A text with one word more than the grammar knows has no answer,
so that no clause leaves out a part of a wish.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedInput, VisitError

from grammar.messages import plain_words
from grammar.tree.printer import print_string

# No wish is as long.
_LONGEST = 200
_NUMBERS = "no one two three four five six seven eight nine ten eleven twelve".split()
_HARD, _SOFT = "strict", "best effort weight 10"
_DOMAINS = {"node": "node.name", "zone": "node.zone", "region": "node.region"}


@dataclass(frozen=True, slots=True)
class _Group:
    """Some pods: conditions with `{0}` for the pod; without a condition, the pods of the policy."""

    conditions: tuple[str, ...] = ()

    def of(self, name: str) -> str:
        return " && ".join(each.replace("{0}", name) for each in self.conditions)

    @property
    def counted(self) -> str:
        return f"pods where {self.of('peer')} " if self.conditions else ""


@dataclass(frozen=True, slots=True)
class _Wish:
    """A clause without its name: its kind, its parts, and the pods that it is about."""

    kind: str
    parts: str
    group: _Group = _Group()
    # Whether a strength belongs to it, which stands at its end.
    has_strength: bool = True
    strength: str = _HARD

    def written(self, name: str) -> str:
        head = " weight 10" if self.kind == "score" else ""
        when = f" when {self.group.of('pod')}" if self.group.conditions else ""
        strength = f" {self.strength}" if self.has_strength else ""
        return f"{self.kind} {name}{head}{when} {{ {self.parts}{strength} }}"


def clause_of(text: str) -> str | None:
    """The clause, or the `for`, that says what a text wishes; None unless all of it is read."""
    plain = " ".join(text.split())
    return None if len(plain) > _LONGEST else _read(plain)


@functools.lru_cache(maxsize=256)
def _read(plain: str) -> str | None:
    """The answer to a wish of one line; an editor asks for it again at each keystroke."""
    try:
        answer = _Clauses().transform(_lark().parse(plain))
    except (UnexpectedInput, VisitError):
        return None
    if isinstance(answer, _Wish):
        return answer.written(print_string(plain))
    return str(answer)


@functools.cache
def _lark() -> Lark:
    grammar = files("grammar.mistakes").joinpath("wishes.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="earley", lexer="basic", g_regex_flags=2, maybe_placeholders=False)


def _text(value: object) -> str:
    return print_string(str(value).strip("\"'"))


def _all(children: list[Any], kind: type) -> list[Any]:
    return [each for each in children if isinstance(each, kind)]


class _Clauses(Transformer[Token, Any]):
    """Parts of a wish to parts of a clause; each method has the name of a rule."""

    def __default__(self, data: object, children: list[Any], meta: object) -> Any:
        """A part without a method of its own is what it holds, or its name."""
        return children[0] if children else str(data)

    def block(self, children: list[Any]) -> str:
        """What stands in a clause keeps its name."""
        (said,) = _all(children, _Wish)
        *kinds, name = _all(children, Token)
        kind = str(kinds[0]).lower() if kinds else "spread"
        if kind not in ("filter", said.kind):
            raise ValueError("another clause is wished than the one that is written")
        # The pods that a limit names are those that it counts.
        said = replace(said, group=_Group()) if kind == "limit" else said
        return str(said.written(_text(name)))

    def with_pods(self, children: list[Any]) -> _Wish:
        (said,) = _all(children, _Wish)
        for group in _all(children, _Group):
            if said.group.conditions and said.kind != "limit":
                raise ValueError("this is no clause")
            about = replace(said, group=group)
            # A bound is about the pods that it counts; other pods stand in the clause already.
            said = about if "pods where" in said.parts else _counting(about)
        for soft in _all(children, bool):
            if soft and not said.has_strength:
                raise ValueError("this is no clause")
            said = replace(said, strength=_SOFT if soft else _HARD)
        assert isinstance(said, _Wish), "a rule about pods says something"
        return said

    def preferred(self, children: list[Any]) -> _Wish:
        group = next(iter(_all(children, _Group)), _Group())
        return _Wish("score", f"value {children[0]}", group, has_strength=False)

    def strict(self, _: list[Any]) -> bool:
        return False

    def if_possible(self, _: list[Any]) -> bool:
        return True

    # ---- how many

    def limited(self, children: list[Any]) -> _Wish:
        group = next(iter(_all(children, _Group)), _Group())
        return _counting(_Wish("limit", f"{children[-1]} {children[0]}", group))

    def in_place(self, children: list[Any]) -> _Wish:
        return _Wish("limit", f"{children[0]} {children[1]}")

    def one_in(self, children: list[Any]) -> _Wish:
        return self.limited(["at most 1", *children])

    def no_two(self, children: list[Any]) -> _Wish:
        if str(children[0]).lower() != "two":
            raise ValueError("two is the least number that is no single one")
        return self.one_in(children[1:])

    def apart(self, children: list[Any]) -> _Wish:
        return _Wish("limit", f"{self.place(children[-1:])} at most 1")

    def most(self, children: list[Any]) -> str:
        return f"at most {children[-1]}"

    def least(self, children: list[Any]) -> str:
        return f"at least {children[-1]}"

    def exactly(self, children: list[Any]) -> str:
        return f"exactly {children[-1]}"

    def fewer(self, children: list[Any]) -> str:
        return f"at most {int(children[-1]) - 1}"

    def number(self, children: list[Any]) -> str:
        word = str(children[0]).lower() if children else "one"
        return word if word.isdigit() else str(_NUMBERS.index(word))

    def place(self, children: list[Any]) -> str:
        domain = str(children[-1])
        return domain if domain.startswith("per ") else _per(domain)

    def cluster(self, _: list[Any]) -> str:
        return "per cluster"

    # ---- evenly, a part, beside others

    def evenly(self, children: list[Any]) -> _Wish:
        return _Wish("spread", f"over {_DOMAINS[children[-1]]} skew at most 1")

    def evenly_of(self, children: list[Any]) -> _Wish:
        return _counting(replace(self.evenly(children), group=children[0]))

    def part(self, children: list[Any]) -> _Wish:
        group = next(iter(_all(children, _Group)), _Group())
        on = f"on nodes where {children[-1]} {children[0]}"
        return _Wish("share", f"of {group.counted or 'replicas '}{on}", group)

    count = part

    def percent(self, children: list[Any]) -> str:
        said = str(children[0])
        return plain_words.FRACTIONS.get(said) or f"{said.removesuffix('%')}%"

    def not_beside(self, children: list[Any]) -> _Wish:
        return self.not_in(["node", children[-1]])

    def not_in(self, children: list[Any]) -> _Wish:
        domain, others = children[-2:]
        if not others.conditions:
            raise ValueError("this is no clause")
        return _Wish("limit", f"{others.counted}{_per(domain)} at most 0")

    # ---- on some nodes

    def only(self, children: list[Any]) -> _Wish:
        return _Wish("filter", f"require {children[-1]}", has_strength=False)

    def not_on(self, children: list[Any]) -> _Wish:
        return _Wish("filter", f"require {_negated(children[-1])}", has_strength=False)

    def kind(self, children: list[Any]) -> str:
        return plain_words.WORDS_OF_NODES[str(children[0]).lower()]

    def zones(self, children: list[Any]) -> str:
        return _among("node.zone", children[-1])

    def regions(self, children: list[Any]) -> str:
        return _among("node.region", children[-1])

    def labelled(self, children: list[Any]) -> str:
        return _label("node", next(c for c in children if isinstance(c, Token)))

    def with_label(self, children: list[Any]) -> str:
        return f"{print_string(str(children[-1]))} in node.labels"

    def without_label(self, children: list[Any]) -> str:
        return f"!({self.with_label(children)})"

    def values(self, children: list[Any]) -> list[str]:
        return children

    def value(self, children: list[Any]) -> str:
        return _text(children[0])

    # ---- of some pods

    def pods(self, children: list[Any]) -> _Group:
        return _Group(tuple(children[0]) if children else ())

    def owned(self, children: list[Any]) -> _Group:
        return _Group(tuple(self.of_label(children)))

    def of_label(self, children: list[Any]) -> list[str]:
        return [f'{{0}}.labels["{children[0]}"] == {children[1]}']

    def of_namespace(self, children: list[Any]) -> list[str]:
        return [f"{{0}}.namespace == {children[0]}"]

    def of_workload(self, children: list[Any]) -> list[str]:
        kinds = ("Deployment", "StatefulSet", "DaemonSet", "CronJob", "Job")
        kind = next(k for k in kinds if k.lower() == str(children[0]).lower())
        name = f"{{0}}.workload.name == {children[1]}"
        return [f'{{0}}.workload.kind == "{kind}"', name]

    def of_pairs(self, children: list[Any]) -> list[str]:
        return [_label("{0}", pair) for pair in children]

    def for_those(self, children: list[Any]) -> str:
        if not children[0].conditions:
            raise ValueError("this is no clause")
        return f"for pods where {children[0].of('pod')}"

    def for_namespace(self, children: list[Any]) -> str:
        return f"for pods where pod.namespace == {children[0]}"

    def for_namespaces(self, children: list[Any]) -> str:
        listed = ", ".join(_text(c) for c in children if isinstance(c, Token))
        return f"for pods where pod.namespace in [{listed}]"

    def equal(self, children: list[Any]) -> str:
        return _label("pod", f"{children[0]}={_text(children[1])[1:-1]}")

    def for_equal(self, children: list[Any]) -> str:
        return f"for pods where {' && '.join(children)}"

    def for_pair(self, children: list[Any]) -> str:
        return f"for pods where {_label('pod', children[0])}"


def _counting(said: _Wish) -> _Wish:
    """A clause that counts the pods that it is about."""
    if said.kind in ("filter", "score") or not said.group.conditions:
        return said
    parts = said.parts
    if said.kind == "share":
        parts = parts.replace("of replicas ", f"of {said.group.counted}", 1)
    elif "pods where" not in parts:
        parts = f"{said.group.counted}{parts}"
    return replace(said, parts=parts)


def _per(domain: str) -> str:
    return "per node" if domain == "node" else f"per domain {_DOMAINS[domain]}"


def _label(owner: str, pair: str) -> str:
    key, _, value = str(pair).partition("=")
    if key.partition(".")[0] in ("pod", "node", "peer"):
        raise ValueError("this is a field, and no label")
    return f"{owner}.labels[{print_string(key)}] == {print_string(value)}"


def _among(read: str, values: list[str]) -> str:
    return f"{read} == {values[0]}" if len(values) == 1 else f"{read} in [{', '.join(values)}]"


def _negated(condition: str) -> str:
    """The opposite of a condition; a label that is not there is no other value."""
    for field in ("zone", "region"):
        label = f'node.labels["topology.kubernetes.io/{field}"]'
        condition = condition.replace(f"node.{field} == ", f"{label} == ")
    read, equal, value = condition.partition(" == ")
    if equal and read.startswith("node.labels["):
        return f'{read.replace("[", "[?", 1)}.orValue("") != {value}'
    if condition.startswith("!("):
        return condition[2:-1]
    return f"!({condition})" if " in " in condition else f"!{condition}"
