"""Wishes: what a wish in plain English is as a clause, if each of its words is understood.

`wishes.lark` is a closed grammar. A text with one word more than the grammar knows has no answer,
so that no clause leaves out a part of a wish.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedInput

from grammar.messages import plain_words
from grammar.tree.printer import print_string

# No wish is as long.
_LONGEST = 200
_NUMBERS = "no one two three four five six seven eight nine ten eleven twelve".split()
_HARD, _SOFT = "strict", "best effort weight 10"
_DOMAINS = {"node": "node.name", "zone": "node.zone", "region": "node.region"}


@dataclass(frozen=True, slots=True)
class _Group:
    """A group of pods: conditions with `{0}` for the pod; without one, the pods of the policy."""

    conditions: tuple[str, ...] = ()

    def of(self, name: str) -> str:
        return " && ".join(each.replace("{0}", name) for each in self.conditions)

    @property
    def counted(self) -> str:
        return f"pods where {self.of('peer')} " if self.conditions else ""


@dataclass(frozen=True, slots=True)
class _Wish:
    """A wish as a clause without a name: the kind, the parts, and the pods."""

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
    except (UnexpectedInput, LookupError, ValueError):
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


def _group(children: list[Any]) -> _Group:
    return next(iter(_all(children, _Group)), _Group())


def _is(meant: object) -> None:
    """Ends a wish that is no clause."""
    if not meant:
        raise ValueError("this is no clause")


# ---- wishes of bounds


def _limited(children: list[Any]) -> _Wish:
    return _counting(_Wish("limit", f"{children[-1]} {children[0]}", _group(children)))


def _no_two(children: list[Any]) -> _Wish:
    _is(str(children[0]).lower() == "two")
    return _limited(["at most 1", *children[1:]])


def _number(children: list[Any]) -> str:
    word = str(children[0]).lower() if children else "one"
    return word if word.isdigit() else str(_NUMBERS.index(word))


def _place(children: list[Any]) -> str:
    domain = str(children[-1])
    return domain if domain.startswith("per ") else _per(domain)


def _evenly(children: list[Any]) -> _Wish:
    return _Wish("spread", f"over {_DOMAINS[children[-1]]} skew at most 1", _group(children))


def _part(children: list[Any]) -> _Wish:
    group = _group(children)
    on = f"on nodes where {children[-1]} {children[0]}"
    return _Wish("share", f"of {group.counted or 'replicas '}{on}", group)


def _not_in(domain: str, others: _Group) -> _Wish:
    _is(others.conditions)
    return _Wish("limit", f"{others.counted}{_per(domain)} at most 0")


# ---- wishes as a whole


def _block(children: list[Any]) -> str:
    """What stands in a clause keeps its name."""
    (said,) = _all(children, _Wish)
    *kinds, name = _all(children, Token)
    kind = str(kinds[0]).lower() if kinds else "spread"
    # Another clause is wished than the one that is written.
    _is(kind in ("filter", said.kind))
    # The pods that a limit names are those that it counts.
    said = replace(said, group=_Group()) if kind == "limit" else said
    return str(said.written(_text(name)))


def _with_pods(children: list[Any]) -> _Wish:
    (said,) = _all(children, _Wish)
    for group in _all(children, _Group):
        _is(not said.group.conditions or said.kind == "limit")
        about = replace(said, group=group)
        # A bound is about the pods that it counts; other pods stand in the clause already.
        said = about if "pods where" in said.parts else _counting(about)
    for soft in _all(children, bool):
        _is(said.has_strength or not soft)
        said = replace(said, strength=_SOFT if soft else _HARD)
    assert isinstance(said, _Wish), "a rule about pods says something"
    return said


def _of_workload(children: list[Any]) -> list[str]:
    kinds = ("Deployment", "StatefulSet", "DaemonSet", "CronJob", "Job")
    kind = next(k for k in kinds if k.lower() == str(children[0]).lower())
    return [f'{{0}}.workload.kind == "{kind}"', f"{{0}}.workload.name == {children[1]}"]


def _for_those(children: list[Any]) -> str:
    _is(children[0].conditions)
    return f"for pods where {children[0].of('pod')}"


def _filter(condition: str) -> _Wish:
    return _Wish("filter", f"require {condition}", has_strength=False)


def _of_label(children: list[Any]) -> list[str]:
    return [f'{{0}}.labels["{children[0]}"] == {children[1]}']


# What each rule of the grammar makes of its parts.
_RULES: Mapping[str, Callable[[list[Any]], Any]] = {
    "block": _block,
    "with_pods": _with_pods,
    "preferred": lambda c: _Wish("score", f"value {c[0]}", _group(c), has_strength=False),
    "strict": lambda _: False,
    "if_possible": lambda _: True,
    "limited": _limited,
    "in_place": lambda c: _Wish("limit", f"{c[0]} {c[1]}"),
    "one_in": lambda c: _limited(["at most 1", *c]),
    "no_two": _no_two,
    "apart": lambda c: _Wish("limit", f"{_place(c[-1:])} at most 1"),
    "most": lambda c: f"at most {c[-1]}",
    "least": lambda c: f"at least {c[-1]}",
    "exactly": lambda c: f"exactly {c[-1]}",
    "fewer": lambda c: f"at most {int(c[-1]) - 1}",
    "number": _number,
    "place": _place,
    "cluster": lambda _: "per cluster",
    "evenly": _evenly,
    "part": _part,
    "count": _part,
    "percent": lambda c: plain_words.FRACTIONS.get(str(c[0])) or f"{str(c[0]).removesuffix('%')}%",
    "not_beside": lambda c: _not_in("node", c[-1]),
    "not_in": lambda c: _not_in(c[-2], c[-1]),
    "only": lambda c: _filter(c[-1]),
    "not_on": lambda c: _filter(_negated(c[-1])),
    "kind": lambda c: plain_words.WORDS_OF_NODES[str(c[0]).lower()],
    "zones": lambda c: _among("node.zone", c[-1]),
    "regions": lambda c: _among("node.region", c[-1]),
    "labelled": lambda c: _label("node", next(each for each in c if isinstance(each, Token))),
    "values": lambda c: c,
    "value": lambda c: _text(c[0]),
    "pods": lambda c: _Group(tuple(c[0]) if c else ()),
    "of_label": _of_label,
    "of_namespace": lambda c: [f"{{0}}.namespace == {c[0]}"],
    "of_workload": _of_workload,
    "of_pairs": lambda c: [_label("{0}", pair) for pair in c],
    "for_those": _for_those,
    "for_namespace": lambda c: f"for pods where pod.namespace == {c[0]}",
    "for_namespaces": lambda c: (
        f"for pods where pod.namespace in [{', '.join(_text(each) for each in _all(c, Token))}]"
    ),
    "for_pair": lambda c: f"for pods where {_label('pod', c[0])}",
}


class _Clauses(Transformer[Token, Any]):
    """Clauses of wishes: a transformer of the parts of a wish."""

    def __default__(self, data: object, children: list[Any], meta: object) -> Any:
        """A part without a row is the first thing inside, or the name of the part."""
        if (rule := _RULES.get(str(data))) is not None:
            return rule(children)
        return children[0] if children else str(data)


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
    # Else it is a field.
    _is(key.partition(".")[0] not in ("pod", "node", "peer"))
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
