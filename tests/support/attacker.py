"""Attacker: writes policies that cost as much as it can, in every way that it knows.

The policies are rules of one namespace. Some are refused by the checks, which is as good as any
other end; the others are what a server has to live with. A seed always gives the same policies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class HostilePolicy:
    """The rules of a policy, and the way in which they are hostile."""

    kind: str
    rules: str

    def policy(self, namespace: str) -> str:
        """The policy as a text of the language."""
        return f'policy hostile in namespace "{namespace}" {{\n{self.rules}\n}}'


def hostile_policies(seed: int, count: int) -> Iterator[HostilePolicy]:
    """So many policies, of each kind in turn."""
    random = Random(seed)
    kinds = list(KINDS.items())
    for number in range(count):
        kind, make = kinds[number % len(kinds)]
        yield HostilePolicy(kind, make(random))


def _numbers(count: int) -> str:
    return f"[{', '.join(map(str, range(count)))}]"


def _loops(random: Random, test: str, depth: int = 0) -> str:
    """A test that is evaluated in nested loops; `{}` in it is the sum of their variables."""
    depth = depth or random.choice([2, 3, 4])
    length = int(random.choice([100, 3_000, 50_000, 250_000]) ** (1 / depth))
    names = [f"v{n}" for n in range(depth)]
    inner = test.replace("{}", " + ".join(names))
    for name in names:
        inner = f"{_numbers(max(2, length))}.all({name}, {inner})"
    return inner


def _nested(function: str, seed: str, times: int) -> str:
    for _ in range(times):
        seed = f"{function}({seed})"
    return seed


def _filter(test: str) -> str:
    return f'filter "f" {{ require {test} }}'


def _of_node(random: Random) -> str:
    """A test that holds, of the node, the pod or the time; `{}` is a number."""
    return random.choice(
        [
            'string({}) != node.name + pod.name + "x"',
            '"x-x" != node.name && {} >= 0',
            "{} + pod.priority + size(node.name) >= 0",
            "string(now) != string({}) + node.name",
            "{} < size(node.name + pod.name) + 1000000",
        ]
    )


def _nested_loops(random: Random) -> str:
    return _filter(_loops(random, _of_node(random)))


def _quadratic(random: Random) -> str:
    count = random.choice([300, 3_000, 30_000])
    items = f"lists.range({count}).map(x, [x + pod.priority])"
    return _filter(
        random.choice(
            [
                f"{items}.distinct().size() > pod.priority",
                f"{items}.all(x, x in {items})",
                f"{items}.indexOf([-1]) == -1 && {items}.reverse().indexOf([-1]) == -1",
                f"{items}.flatten().sort().reverse().sort().size() >= 0",
                f"lists.range({count}).map(x, string(x) + node.name).sort().size() >= 0",
                f"{items} == {items}",
                f"lists.range({count}).map(x, {_numbers(20)}).flatten().sum() >= 0",
            ]
        )
    )


def _doubled_texts(random: Random) -> str:
    times = random.choice([8, 12, 16, 20, 30])
    body, step = random.choice(
        [
            ("s + s", 1),
            ('[s, s, s, s].join("")', 2),
            ('"%s%s".format([s, s])', 1),
            ('s.replace("", s)', 1),
            ("(s + s).reverse().lowerAscii().trim()", 1),
        ]
    )
    text = _nested("d", random.choice(["pod.name", "node.name", '"xy"']), times // step)
    test = random.choice(
        [
            f"size({text}) > 1",
            f"!({text}).matches('(x|y|xy)*z{{1,40}}$')",
            f"({text}).split('').size() > 1",
            f"({text}).findAll('[a-z]').size() >= 0",
            f"({text}).contains(node.name)",
            f"{text} == {text}",
        ]
    )
    return f"def d(s: string): string = {body}\n{_filter(test)}"


def _doubled_lists(random: Random) -> str:
    times = random.choice([8, 12, 16, 20, 30])
    body = random.choice(["s + s", "[s, s].flatten()", "s.map(x, s).flatten()"])
    text = _nested("d", "[pod.priority]", times)
    test = random.choice([f"size({text}) > 0", f"({text}).sum() >= 0", f"({text}).sort() == [1]"])
    return f"def d(s: list(int)): list(int) = {body}\n{_filter(test)}"


def _bound(random: Random) -> str:
    times = random.choice([10, 20, 40])
    test = f"size(x{times}) > 0"
    for number in range(times, 0, -1):
        test = f"cel.bind(x{number}, x{number - 1} + x{number - 1}, {test})"
    return _filter(f"cel.bind(x0, {random.choice(['pod.name', 'node.name'])}, {test})")


def _towers(random: Random) -> str:
    """Definitions that use each other: a tree that doubles with each."""
    height = random.choice([5, 15, 17, 30])
    lets = [f"let a{n} = a{n - 1} + a{n - 1}" for n in range(1, height)]
    test = f"a{height - 1} + size(node.name) >= 0"
    return "\n".join(["let a0 = size(pod.name)", *lets, _filter(test)])


def _messages(random: Random) -> str:
    text = _nested("d", "pod.name + pod.labels['app']", random.choice([5, 10, 15, 19]))
    part = random.choice(["message", "detail"])
    test = random.choice(['node.name == ""', "false", "int(node.name) == 1"])
    rejects = f'filter "f" {{ require {test} {part} "{{{text}}}\\n\\u202e" }}'
    return f"def d(s: string): string = s + s\n{rejects}"


def _many_clauses(random: Random) -> str:
    count = random.choice([20, 100, 300])
    items = "lists.range(300)"
    tests = (
        f"{items}.all(x, {items}.all(y, x + y + size(node.name) >= -{n}))" for n in range(count)
    )
    return "\n".join(f'filter "f{n}" {{ require {test} }}' for n, test in enumerate(tests))


def _counts(random: Random) -> str:
    test = _loops(random, "{} + size(peer.name) + size(pod.name) >= 0")
    return random.choice(
        [
            f'limit "l" {{ all pods where {test} per node at most 1000 strict }}',
            f'limit "l" {{ pods where {test} per cluster at most 1000 weight 3 }}',
            f'share "s" {{ all pods where {test} on nodes where node.ready at most 9 strict }}',
        ]
    )


def _domains(random: Random) -> str:
    test = _loops(random, "{} + size(node.name) >= 0")
    return f'spread "s" {{ over ({test}) ? node.name : "x" skew at most 100 strict }}'


def _scores(random: Random) -> str:
    test = _loops(random, _of_node(random))
    kind = random.choice(["", " range minmax", " range greatest", " range rank"])
    return f'score "s" weight 5 {{ value ({test}) ? size(node.name) : 0{kind} }}'


def _conditions(random: Random) -> str:
    test = _loops(random, "{} + size(pod.name) >= 0")
    return f'filter "f" when {test} {{ require node.ready }}'


def _victims(random: Random) -> str:
    test = _loops(random, "{} + size(victim.name) < 0")
    return f'preempt "p" {{ protect pods where {test} }}'


def _parsers(random: Random) -> str:
    digits = random.choice([100, 1_000, 10_000])
    zeros = f"lists.range({digits}).map(x, '0').join('')"
    test = random.choice(
        [
            f"int('1' + {zeros}) > 0",
            f"quantity('1' + {zeros}) > quantity('1')",
            f"duration('1' + {zeros} + 's') > duration('1s')",
            f"double({zeros} + '.' + {zeros} + '1') >= 0.0",
            f"isQuantity({zeros} + 'Ki')",
        ]
    )
    return _filter(f"{test} || node.ready")


def _maps(random: Random) -> str:
    count = random.choice([100, 1_000, 20_000])
    made = f"lists.range({count}).transformMapEntry(i, x, {{string(x) + node.name: [x, x]}})"
    return _filter(random.choice([f"size({made}) >= 0", f"{made} == {made}"]))


def _deep(random: Random) -> str:
    depth = random.choice([10, 20, 60])
    value = _nested("d", "[pod.name]", depth)
    test = random.choice([f"{value} == {value}", f"string(size({value})) != ''"])
    return f"def d(s: dyn): dyn = [s, s]\n{_filter(test)}"


def _patterns(random: Random) -> str:
    count = random.choice([5, 20, 30])
    name = "x"
    tests = [f"node.name.matches('((a{{1,{count}}}){{1,{count}}}b{n})')" for n in range(40)]
    return _filter(f"!({' || '.join(tests)}) || pod.name == '{name}'")


KINDS: dict[str, Callable[[Random], str]] = {
    "nested loops": _nested_loops,
    "quadratic functions": _quadratic,
    "doubled texts": _doubled_texts,
    "doubled lists": _doubled_lists,
    "bindings": _bound,
    "towers of definitions": _towers,
    "long messages": _messages,
    "many clauses": _many_clauses,
    "counts": _counts,
    "domains": _domains,
    "scores": _scores,
    "conditions": _conditions,
    "victims": _victims,
    "parsers": _parsers,
    "maps": _maps,
    "deep values": _deep,
    "patterns": _patterns,
}
