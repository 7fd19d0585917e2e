"""Expressions: random ones of a wanted type, over all functions that Placet has.

A generator belongs to one seed. What it makes has a type in both languages; constants are often at
the limits of their types, and some have no value.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from grammar.meaning.environment import FUNCTIONS
from grammar.tree.types import (
    BOOL,
    CIDR,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    IP,
    NULL,
    QUANTITY,
    SEMVER,
    STRING,
    TIMESTAMP,
    TYPE,
    Bindings,
    Overload,
    Type,
    list_of,
    map_of,
    optional_of,
    unify,
)

T = TypeVar("T")

# The variables, with the expressions of their values.
VARIABLES: Mapping[str, str] = {
    "labels": '{"tier": "web", "example.com/rank": "17", "empty": ""}',
    "ports": "[80, 443, 8080]",
    "names": '["web-1", "db-0", "web-1", "é"]',
    "name": '"web-1"',
    "amount": 'quantity("1536Mi")',
    "moment": 'timestamp("2026-11-21T12:34:56.789Z")',
    "age": 'duration("90m1.5s")',
    "count": "3",
    "rate": "0.25",
    "perhaps": 'optional.of("x")',
    "nothing": "[1].filter(x, x > 1).first()",
    "anything": 'dyn([dyn(1), dyn("a"), dyn(2.5)])',
}
TYPES: Mapping[str, Type] = {
    "labels": map_of(STRING, STRING),
    "ports": list_of(INT),
    "names": list_of(STRING),
    "name": STRING,
    "amount": QUANTITY,
    "moment": TIMESTAMP,
    "age": DURATION,
    "count": INT,
    "rate": DOUBLE,
    "perhaps": optional_of(STRING),
    "nothing": optional_of(INT),
    "anything": DYN,
}

_TEXTS = (
    *(
        "",
        "a",
        "web-1",
        "Web 1",
        "a.b.c",
        "a,b,,c",
        "17",
        "-1",
        "true",
        "é€😀",
        "%s",
        " a\t",
        'q"\\',
    ),
    *("node-17.example.com", "A1b2", "a/b", "x=y&z", "1.5", "\n"),
)
_CONSTANTS: Mapping[Type, Sequence[str]] = {
    BOOL: ("true", "false"),
    INT: (
        *("0", "1", "-1", "2", "3", "10", "63", "1000000", "4294967296"),
        *("9223372036854775807", "-9223372036854775808"),
    ),
    DOUBLE: "0.0 1.0 -1.5 0.1 2.5 1e6 123456.789 1e-7 1e300 1e19 -0.0".split(),
    STRING: tuple(json.dumps(text, ensure_ascii=False) for text in _TEXTS),
    NULL: ("null",),
    TYPE: ("int", "double", "string", "bool", "list", "map", "null_type", "type"),
}
_QUANTITIES = """0 1 1Gi 500m 1.5 2k 1e3 -1Mi 1Ei 100Ti 1n 0.1Ki 12e-3 9223372036854775807 1E +5 1Pi
999999999999999999 128974848 0.5 .5G - + . -. m Ki Ei e3 e-10 1e 1ee3""".split()
_DURATIONS = "0s 1h 90m 1.5s -1h30m 1ms 1us 3ns 1h1m1s 2562047h 100h".split()
_MOMENTS = """2026-11-21T12:00:00Z 1970-01-01T00:00:00Z 2024-02-29T23:59:59.999999999Z
0001-01-01T00:00:00Z 9999-12-31T23:59:59Z 2026-03-01T00:30:00+01:30""".split()
_VERSIONS = "1.2.3 1.36.0-rc.1 0.0.0 10.20.30+build.5 1.0.0-alpha.beta 1.2.3-4".split()
_ADDRESSES = """10.0.3.7 ::1 127.0.0.1 0.0.0.0 ff02::1 169.254.1.1 2001:db8::1 255.255.255.255
224.0.0.1 fe80::1""".split()
_NETWORKS = "10.0.0.0/8 10.1.2.3/16 ::/0 2001:db8::/32 0.0.0.0/0 1.2.3.4/32".split()
_BAD = """x 1 1.2 01.2.3 v1.2.3 1d 2026-01-01 2026-02-30T00:00:00Z 10.0.0 ::ffff:1.2.3.4 10.0.0.0/33
.. 1.2.3.4/08 fe80::1%eth0 1_000""".split()
_BAD += ["", "1 Gi", "a b"]
_PATTERNS = (
    "[a-z]+",
    "^web",
    "[0-9]+$",
    "",
    "a|b",
    ".",
    "(a)(b)?",
    "\\d",
    "(",
    "é",
    "[^a-z]",
    "x*",
)
_ZONES = ["", *"UTC Europe/Berlin America/New_York Asia/Kolkata +01:30 -08:00 02:00".split()]
_FORMATS = ("%s", "%d and %s", "%x", "%b", "%o", "%X", "100%%", "%.2f", "%f", "%e", "%q", "%")
_KINDS = "true false True t 1 0 F yes".split()
_NUMBERS = [" 1", *"1 -17 +5 1.5 1e3 0x1F 9223372036854775808 NaN Infinity -inf".split()]

# The texts for a place in a call: those that have a value there, and some that have none.
_READ: Mapping[str, Sequence[str]] = {
    "quantity": _QUANTITIES,
    "isQuantity": _QUANTITIES,
    "duration": _DURATIONS,
    "timestamp": _MOMENTS,
    "semver": _VERSIONS,
    "isSemver": _VERSIONS,
    "ip": _ADDRESSES,
    "isIP": _ADDRESSES,
    "ip.isCanonical": _ADDRESSES,
    "cidr": _NETWORKS,
    "isCIDR": _NETWORKS,
    "bool": _KINDS,
    "int": _NUMBERS,
    "double": _NUMBERS,
}
_SECOND: Mapping[str, Sequence[str]] = {
    "matches": _PATTERNS,
    "find": _PATTERNS,
    "findAll": _PATTERNS,
    "containsIP": _ADDRESSES,
    "containsCIDR": _NETWORKS,
}
_MADE: Mapping[Type, tuple[str, Sequence[str]]] = {
    QUANTITY: ("quantity", _QUANTITIES),
    DURATION: ("duration", _DURATIONS),
    TIMESTAMP: ("timestamp", _MOMENTS),
    SEMVER: ("semver", _VERSIONS),
    IP: ("ip", _ADDRESSES),
    CIDR: ("cidr", _NETWORKS),
}
_SINGLE = (BOOL, INT, DOUBLE, STRING, QUANTITY, DURATION, TIMESTAMP, SEMVER, IP, CIDR, TYPE)
_KEYS = (STRING, INT, BOOL)
_INFIX = ("<", "<=", ">", ">=", "+", "-", "*", "/", "%", "in")

Accepts = Callable[[Overload], bool]


def is_nested(parameter: Type, bound: Bindings) -> bool:
    """Whether a parameter is an optional of an optional."""
    kind = bound.get(parameter.args[0].name) if parameter.name == "optional" else None
    return kind is not None and kind.name == "optional"


def shown(overload: Overload, args: Sequence[str]) -> str:
    """The text of a call."""
    name = overload.name
    if name in _INFIX:
        return f"({args[0]} {name} {args[1]})"
    if name == "[]":
        return f"{args[0]}[{args[1]}]"
    if name in ("-_", "!_"):
        return f"{name[0]}({args[0]})"
    if overload.member:
        return f"{args[0]}.{name}({', '.join(args[1:])})"
    return f"{name}({', '.join(args)})"


class Generator:
    """Random expressions. `accepts` says which overloads both languages have."""

    def __init__(self, seed: int, accepts: Accepts = lambda _: True) -> None:
        self._random = random.Random(seed)
        self._overloads = [
            o
            for its in FUNCTIONS.values()
            for o in its
            # There are no constants of records.
            if accepts(o) and not any(p.is_record for p in o.params)
        ]
        self._least = 0
        self._scope: list[tuple[str, Type]] = list(TYPES.items())
        self._names = 0

    def expression(self) -> str:
        """An expression of any type; every function comes as often as every other."""
        if self._chance(0.3):
            return self.of(self._type(2), 3)
        overload = self._pick(self._overloads)
        return self._call(overload, {}, 2)

    def call(self, overload: Overload) -> str:
        """A call with constants, without empty lists."""
        self._least = 1
        made = self._call(overload, {}, 0)
        self._least = 0
        return made

    def of(self, wanted: Type, depth: int) -> str:
        """An expression of this type, with at most so many calls in calls."""
        known = [name for name, kind in self._scope if kind == wanted]
        if known and self._chance(0.3):
            return self._pick(known)
        if wanted == DYN:
            return f"dyn({self.of(self._type(1), depth - 1)})"
        if depth <= 0:
            return self._constant(wanted)
        way = self._random.random()
        if way < 0.25:
            return self._constant(wanted, depth - 1)
        if way < 0.35:
            return self._shared(wanted, depth - 1)
        if wanted == BOOL and way < 0.55:
            return self._test(depth - 1)
        if wanted.name == "list" and way < 0.6:
            return self._macro(wanted.args[0], depth - 1)
        if wanted.name == "map" and way < 0.6:
            return self._mapped(wanted, depth - 1)
        if wanted.name == "optional" and way < 0.6:
            return self._optional(wanted.args[0], depth - 1)
        calls: list[tuple[Overload, Bindings]] = []
        for overload in self._overloads:
            bindings: Bindings = {}
            if overload.result == DYN or not unify(overload.result, wanted, bindings):
                continue
            # Kubernetes has no optionals in optionals: the outer one is lost.
            if not any(is_nested(p, bindings) for p in overload.params):
                calls.append((overload, bindings))
        if not calls:
            return self._constant(wanted, depth - 1)
        return self._call(*self._pick(calls), depth - 1)

    # ---- calls

    def _call(self, overload: Overload, bindings: Bindings, depth: int) -> str:
        bound = dict(bindings)
        for each in overload.params:
            if each.name == "map" and each.args[0].is_parameter:
                bound.setdefault(each.args[0].name, self._pick(_KEYS))
        params = [self._bound(p, bound) for p in overload.params]
        if overload.name == "[]" and params[0].name == "map" and self._chance(0.9):
            params[1] = params[0].args[0]
        args = [self._argument(overload, place, p, depth) for place, p in enumerate(params)]
        return shown(overload, args)

    def _bound(self, parameter: Type, bound: Bindings) -> Type:
        """The parameter with a type for each of its variables."""
        if parameter.is_parameter:
            if bound.get(parameter.name, DYN) == DYN:
                bound[parameter.name] = self._pick(_SINGLE)
            return bound[parameter.name]
        if parameter.name == "number":
            return self._pick((INT, DOUBLE))
        return Type(parameter.name, tuple(self._bound(a, bound) for a in parameter.args))

    def _argument(self, overload: Overload, place: int, kind: Type, depth: int) -> str:
        name = overload.name
        if kind == STRING and self._chance(0.85):
            texts = self._texts(name, place)
            if texts:
                text = self._pick(_BAD if self._chance(0.15) and name in _READ else texts)
                return json.dumps(text, ensure_ascii=False).replace("\\\\\\\\", "\\\\")
        if name == "format" and place == 1:
            kinds = (STRING, INT, DOUBLE, BOOL, list_of(INT), DURATION, TIMESTAMP, NULL)
            items = (self.of(self._pick(kinds), depth) for _ in range(self._random.randint(0, 2)))
            return f"[{', '.join(items)}]"
        if kind == DYN and name == "[]":
            return self.of(self._pick((INT, INT, DOUBLE)), depth)
        if kind == INT and place > 0 and self._chance(0.7):
            return str(self._random.randint(-1, 4))
        if name == "lists.range":
            return str(self._random.randint(-1, 20))
        return self.of(kind, depth)

    def _texts(self, name: str, place: int) -> Sequence[str]:
        if name.startswith("get") and place == 1:
            return _ZONES
        if name == "format" and place == 0:
            return _FORMATS
        if place == 0:
            return _READ.get(name, ())
        return _SECOND.get(name, ()) if place == 1 else ()

    # ---- constants

    def _constant(self, wanted: Type, depth: int = 0) -> str:
        if wanted in _CONSTANTS:
            return self._pick(_CONSTANTS[wanted])
        if wanted in _MADE:
            function, texts = _MADE[wanted]
            return f'{function}("{self._pick(texts)}")'
        match wanted:
            case Type("list", (item,)):
                count = self._random.randint(self._least, 3)
                return f"[{', '.join(self.of(item, depth) for _ in range(count))}]"
            case Type("map", (key, value)):
                keys = dict.fromkeys(self._pick(_CONSTANTS[key]) for _ in range(2))
                return f"{{{', '.join(f'{k}: {self.of(value, depth)}' for k in keys)}}}"
            case Type("optional", (item,)):
                if self._chance(0.2):
                    return f"[{self.of(item, depth)}][?7]"
                return f"optional.of({self.of(item, depth)})"
            case Type("dyn"):
                return f"dyn({self._constant(self._pick(_SINGLE))})"
            case _:
                raise AssertionError(f"no constant of type {wanted}")

    def _type(self, depth: int) -> Type:
        """A random type, of lists, maps and optionals up to a depth."""
        way = self._random.random()
        if depth and way < 0.2:
            return list_of(self._type(depth - 1))
        if depth and way < 0.3:
            return map_of(self._pick(_KEYS), self._type(depth - 1))
        if depth and way < 0.4:
            return optional_of(self._pick(_SINGLE))
        return self._pick((*_SINGLE, *_SINGLE, DYN))

    # ---- operators and macros

    def _test(self, depth: int) -> str:
        way = self._pick(("==", "!=", "&&", "||", "all", "exists", "exists_one", "has", "!"))
        match way:
            case "==" | "!=":
                kind = self._type(1)
                return f"({self.of(kind, depth)} {way} {self.of(kind, depth)})"
            case "&&" | "||":
                return f"({self.of(BOOL, depth)} {way} {self.of(BOOL, depth)})"
            case "has":
                return f"has({self.of(map_of(STRING, STRING), depth)}.tier)"
            case "!":
                return f"!{self.of(BOOL, depth)}"
            case _:
                item = self._pick(_SINGLE)
                target = self.of(list_of(item), depth)
                return f"{target}.{way}({self._body([item], BOOL, depth)})"

    def _shared(self, wanted: Type, depth: int) -> str:
        """An expression that every type has."""
        way = self._random.randrange(3)
        if way == 0:
            condition = self.of(BOOL, depth)
            return f"({condition} ? {self.of(wanted, depth)} : {self.of(wanted, depth)})"
        if way == 1:
            return f"{self._constant(list_of(wanted), depth)}[{self._random.randint(0, 2)}]"
        key = self._pick(_CONSTANTS[STRING])
        at = self._pick((key, key, '"tier"'))
        return f"{{{key}: {self.of(wanted, depth)}}}[{at}]"

    def _macro(self, item: Type, depth: int) -> str:
        other = self._pick(_SINGLE)
        match self._pick(("map", "filter", "sortBy", "transformList", "mapped")):
            case "map":
                return f"{self.of(list_of(other), depth)}.map({self._body([other], item, depth)})"
            case "filter":
                return f"{self.of(list_of(item), depth)}.filter({self._body([item], BOOL, depth)})"
            case "sortBy":
                key = self._pick((INT, STRING, DURATION, BOOL, DOUBLE, TIMESTAMP))
                return f"{self.of(list_of(item), depth)}.sortBy({self._body([item], key, depth)})"
            case "transformList":
                body = self._body([INT, other], item, depth)
                return f"{self.of(list_of(other), depth)}.transformList({body})"
            case _:
                test = self._body([other], BOOL, depth)
                variable = test.partition(",")[0]
                with_test = f"{test}, {self._inside(variable, other, item, depth)}"
                return f"{self.of(list_of(other), depth)}.map({with_test})"

    def _mapped(self, wanted: Type, depth: int) -> str:
        key, value = wanted.args
        body = self._body([key, value], value, depth)
        return f"{self.of(wanted, depth)}.transformMap({body})"

    def _optional(self, item: Type, depth: int) -> str:
        if item.name != "optional" and self._chance(0.4):
            return f"{self.of(optional_of(item), depth)}.optMap({self._body([item], item, depth)})"
        if self._chance(0.5):
            return f"{self._constant(list_of(item), depth)}[?{self._random.randint(0, 2)}]"
        target = self.of(map_of(STRING, item), depth)
        return f"{target}[?{self._pick(_CONSTANTS[STRING])}]"

    def _body(self, kinds: Sequence[Type], made: Type, depth: int) -> str:
        """The variables of a macro and its body, which mostly reads them."""
        names = []
        for _ in kinds:
            self._names += 1
            names.append(f"v{self._names}")
        self._scope += zip(names, kinds, strict=True)
        body = self.of(made, depth)
        del self._scope[-len(names) :]
        return f"{', '.join(names)}, {body}"

    def _inside(self, variable: str, kind: Type, made: Type, depth: int) -> str:
        self._scope.append((variable, kind))
        body = self.of(made, depth)
        self._scope.pop()
        return body

    def _pick(self, choices: Sequence[T]) -> T:
        return self._random.choice(choices)

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability
