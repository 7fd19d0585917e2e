"""Random policies, pods and nodes: texts over objects in which anything may be absent."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

KEYS = ("tier", "zone", "pool", "kubernetes.io/arch")
WORDS = ("a", "b", "spot", "web", "1.33.0", "")
RESOURCES = ("cpu", "memory", "nvidia.com/gpu")
AMOUNTS = ("0", "1", "500m", "2", "1Gi", "1.5Gi", "64Gi", "3e2")
TIMES = ("2026-01-01T00:00:00Z", "2026-06-01T12:30:00.5Z", "2026-11-21T00:00:00Z")

keys = st.sampled_from(KEYS)
words = st.sampled_from(WORDS)
resources = st.sampled_from(RESOURCES)
amounts = st.sampled_from(AMOUNTS)


def quoted(text: str) -> str:
    return json.dumps(text)


def _wrap(*parts: st.SearchStrategy[str] | str) -> st.SearchStrategy[str]:
    """Strategies and texts one behind the other."""
    return st.tuples(*(st.just(p) if isinstance(p, str) else p for p in parts)).map("".join)


_labels = st.sampled_from(("pod.labels", "node.labels", "node.annotations"))
strings = st.one_of(
    words.map(quoted),
    _wrap(_labels, "[", keys.map(quoted), "]"),
    _wrap(_labels, "[?", keys.map(quoted), '].orValue("")'),
    st.sampled_from(
        (
            "node.name",
            "node.zone",
            "pod.name",
            "pod.namespace",
            "node.spec.providerID",
            "pod.spec.nodeName",
        )
    ),
    st.just('node.status.conditions.map(c, c.type).join(",")'),
)
quantities = st.one_of(
    _wrap(
        "node.",
        st.sampled_from(("free", "allocatable", "requested")),
        "[",
        resources.map(quoted),
        "]",
    ),
    _wrap("pod.requests[", resources.map(quoted), "]"),
    _wrap("(node.free[", resources.map(quoted), "] - pod.requests[", resources.map(quoted), "])"),
    _wrap("quantity(", amounts.map(quoted), ")"),
)
ints = st.one_of(
    st.integers(-5, 1000).map(str),
    st.just("pod.priority"),
    st.just("size(node.pods)"),
    st.just("size(node.spec.taints)"),
    st.just("pod.spec.terminationGracePeriodSeconds"),
    st.just("9223372036854775807"),
    st.just("node.age.getHours()"),
)
# The ends of a range, and the numbers of a bound, which read no time.
ends = ints.filter(lambda text: "age" not in text)
_order = st.sampled_from((" < ", " <= ", " > ", " >= ", " == ", " != "))
# Of a pod of the node against the pod in question.
_peer_labels = _wrap("p.labels[", keys.map(quoted), "]")
_own_labels = _wrap("pod.labels[", keys.map(quoted), "]")
_peer_tests = st.one_of(
    _wrap(_peer_labels, st.sampled_from((" == ", " != ", " < ")), _own_labels),
    _wrap(_own_labels, " == ", _peer_labels),
    _wrap("!(", _peer_labels, " == ", _own_labels, ")"),
    _wrap(_peer_labels, ' + "/" + ', _peer_labels, " == ", _own_labels, ' + "/" + ', _own_labels),
    _wrap(_peer_labels, ".startsWith(", _own_labels, ")"),
    _wrap(keys.map(quoted), " in p.labels"),
    _wrap("p.priority", st.sampled_from((" < ", " == ")), "pod.priority"),
    _wrap("p.requests[", resources.map(quoted), "] == pod.requests[", resources.map(quoted), "]"),
    st.just("p.namespace == pod.namespace"),
)
_atoms = st.one_of(
    _wrap(strings, st.sampled_from((" == ", " != ", " < ")), strings),
    _wrap(strings, " in [", words.map(quoted), ", ", words.map(quoted), "]"),
    _wrap(
        strings,
        ".",
        st.sampled_from(("startsWith", "contains", "matches")),
        "(",
        words.map(quoted),
        ")",
    ),
    _wrap(quantities, _order, amounts.map(quoted)),
    _wrap(quantities, _order, quantities),
    _wrap(ints, _order, ints),
    _wrap("(", ints, " + ", ints, ")", _order, ints),
    _wrap("(", ints, " / ", ints, ")", _order, ints),
    _wrap(keys.map(quoted), " in ", _labels),
    _wrap("has(", _labels, "[", keys.map(quoted), "])"),
    _wrap("has(node.spec.", st.sampled_from(("unschedulable", "taints", "podCIDR")), ")"),
    _wrap("dyn(pod).", st.sampled_from(("name", "namespace", "spec.nodeName")), " == ", strings),
    _wrap("dyn(node).labels[", keys.map(quoted), "] == ", strings),
    _wrap("has(dyn(node).spec.", st.sampled_from(("unschedulable", "taints", "podCIDR")), ")"),
    _wrap("[pod, node, 1].exists(x, x.", st.sampled_from(("ready", "priority", "name")), " == 1)"),
    _wrap("has(pod.spec.", st.sampled_from(("affinity", "priority", "overhead")), ")"),
    st.sampled_from(("node.ready", "node.spec.unschedulable", "true", "false")),
    _wrap("node.age > ", st.sampled_from(('"10m"', '"1d"', '"365d"'))),
    _wrap("node.usage[", resources.map(quoted), "] < 0.5"),
    _wrap("node.pods.exists(p, p.labels[", keys.map(quoted), "] == ", words.map(quoted), ")"),
    _wrap(
        "node.pods.",
        st.sampled_from(("exists", "all")),
        "(p, ",
        _peer_tests,
        st.sampled_from((" && ", " || ")),
        _peer_tests,
        ")",
    ),
    _wrap("node.pods.filter(p, ", _peer_tests, ").size()", _order, ints),
    _wrap(
        "node.pods.filter(p, ",
        _peer_tests,
        ").map(p, p.requests[",
        resources.map(quoted),
        ']).sum() <= "4"',
    ),
    _wrap("node.status.conditions.all(c, c.type == ", words.map(quoted), ' || c.status == "True")'),
    _wrap(
        "node.pods.filter(p, p.priority < ",
        ints,
        ").map(p, p.requests[",
        resources.map(quoted),
        ']).sum() <= "4"',
    ),
    _wrap("node.labels.exists(k, v, k == ", keys.map(quoted), " && v == ", words.map(quoted), ")"),
    _wrap("cel.bind(x, ", strings, ", x == x || ", strings, " == x)"),
    _wrap("semver(", words.map(quoted), ') >= "1.30.0"'),
)


# Of the group `g` of the node, alone and beside the node.
_group_strings = st.one_of(st.just("g.value"), _wrap("g.labels[", keys.map(quoted), "]"), strings)
_group_atoms = st.one_of(
    _wrap(
        "g.",
        st.sampled_from(("free", "allocatable", "requested", "capacity")),
        "[",
        resources.map(quoted),
        "]",
        _order,
        amounts.map(quoted),
    ),
    _wrap("g.free[", resources.map(quoted), "]", _order, quantities),
    _wrap("g.usage[", resources.map(quoted), "] < 0.5"),
    _wrap("g.", st.sampled_from(("nodes", "ready")), _order, st.integers(0, 4).map(str)),
    _wrap(_group_strings, st.sampled_from((" == ", " != ")), _group_strings),
    _wrap("g.exists(n, n.labels[", keys.map(quoted), "] == pod.labels[", keys.map(quoted), "])"),
    _wrap("g.all(n, n.ready || n.name == node.name)"),
    _wrap("g.filter(n, n.ready).size()", _order, st.integers(0, 3).map(str)),
    _wrap("g.map(n, n.", st.sampled_from(("free", "allocatable")), '["cpu"]).max() > "1"'),
    _wrap('g.map(n, n.requested["cpu"]).sum() == g.requested["cpu"]'),
    st.just("has(g.requested)"),
)


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        _wrap("(", inner, " && ", inner, ")"),
        _wrap("(", inner, " || ", inner, " || ", inner, ")"),
        _wrap("!(", inner, ")"),
        _wrap("(", inner, " ? ", inner, " : ", inner, ")"),
        _wrap("[", inner, ", ", inner, "].exists(q, q)"),
        _wrap("dyn(", inner, ") == ", inner),
    )


conditions = st.recursive(_atoms, _larger, max_leaves=6)
values = st.one_of(
    conditions, ints, _wrap("node.usage[", resources.map(quoted), "]"), _wrap("double(", ints, ")")
)

group_conditions = st.recursive(st.one_of(_group_atoms, _atoms), _larger, max_leaves=4)
_group_values = st.one_of(
    group_conditions,
    st.sampled_from(("g.nodes", "g.ready * 10", "double(g.nodes) / 3.0", "pod.priority + g.nodes")),
    _wrap("g.usage[", resources.map(quoted), "]"),
)

labels = st.dictionaries(keys, words, max_size=3)
_requests = st.dictionaries(resources, amounts, max_size=3)


def _trimmed(value: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in value.items() if v is not None}


@st.composite
def pods(draw: st.DrawFn, name: str = "p-1", node: str | None = None) -> dict[str, Any]:
    """A Pod as JSON; with `node` it is bound there."""
    metadata = {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}",
        "labels": draw(st.none() | labels),
    }
    metadata["creationTimestamp"] = draw(st.sampled_from((None, *TIMES)))
    container = {"name": "c", "image": "i", "resources": {"requests": draw(_requests)}}
    spec = {
        "containers": draw(st.sampled_from((None, [], [container]))),
        "priority": draw(st.none() | st.integers(-10, 1000)),
        "terminationGracePeriodSeconds": draw(st.none() | st.just(30)),
        "nodeName": node,
    }
    return {
        "metadata": _trimmed(metadata),
        "spec": _trimmed(spec),
        "status": {"phase": "Running" if node else "Pending"},
    }


@st.composite
def nodes(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """A Node as JSON."""
    condition = st.fixed_dictionaries(
        {
            "type": st.sampled_from(("Ready", "DiskPressure")),
            "status": st.sampled_from(("True", "False")),
        }
    )
    metadata = {
        "name": name,
        "uid": f"uid-{name}",
        "labels": draw(st.none() | labels),
        "annotations": draw(st.none() | labels),
        "creationTimestamp": draw(st.sampled_from((None, *TIMES))),
    }
    spec = {
        "unschedulable": draw(st.sampled_from((None, True, False))),
        "taints": draw(st.sampled_from((None, [{"key": "k", "effect": "NoSchedule"}]))),
        "providerID": draw(st.none() | words),
    }
    status = {
        "allocatable": draw(st.none() | _requests),
        "conditions": draw(st.none() | st.lists(condition, max_size=2)),
    }
    return {
        "metadata": _trimmed(metadata),
        "spec": draw(st.sampled_from((None, _trimmed(spec)))) or {},
        "status": _trimmed(status),
    }


@st.composite
def clusters(
    draw: st.DrawFn, most: int = 4, most_pods: int = 4
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Nodes, and the pods bound to them."""
    made = [draw(nodes(f"n-{i}")) for i in range(draw(st.integers(1, most)))]
    bound = [
        draw(pods(f"q-{i}", node=draw(st.sampled_from([n["metadata"]["name"] for n in made]))))
        for i in range(draw(st.integers(0, most_pods)))
    ]
    return made, bound


@st.composite
def filters(draw: st.DrawFn, name: str) -> str:
    when = f" when {draw(conditions)}" if draw(st.booleans()) else ""
    requires = " ".join(f"require {draw(conditions)}" for _ in range(draw(st.integers(1, 2))))
    missing = draw(st.sampled_from(("", " missing pass", " missing fail")))
    return f'filter "{name}"{when} {{ {requires}{missing} }}'


@st.composite
def scores(draw: st.DrawFn, name: str) -> str:
    weight = draw(st.sampled_from((-20, 1, 2.5, 40)))
    shapes = (
        "",
        " range 0 .. 10",
        " range 1 .. 0",
        " range minmax",
        " range greatest",
        " range rank",
        "computed",
    )
    shape = draw(st.sampled_from(shapes))
    if shape == "computed":
        shape = f" range {draw(ends)} .. {draw(ends)}"
    value = draw(values)
    missing = draw(st.sampled_from(("", " missing 30")))
    return f'score "{name}" weight {weight} {{ value {value}{shape}{missing} }}'


@st.composite
def policies(draw: st.DrawFn, name: str = "p") -> str:
    """A policy's text with filters and scores; some do not type-check (a range of a bool)."""
    head = draw(st.sampled_from((f"cluster policy {name}", f'policy {name} in namespace "shop"')))
    lines = [
        *(f"weight {draw(st.integers(101, 104))}" for _ in range(draw(st.integers(0, 1)))),
        *(
            f"missing {draw(st.sampled_from(('fail', 'pass')))}"
            for _ in range(draw(st.integers(0, 1)))
        ),
        *(
            f"for pods where {draw(st.sampled_from(SELECTORS))}"
            for _ in range(draw(st.integers(0, 1)))
        ),
        *(draw(filters(f"f{i}")) for i in range(draw(st.integers(0, 3)))),
        *(draw(scores(f"s{i}")) for i in range(draw(st.integers(0, 3)))),
    ]
    return f"{head} {{ {' '.join(lines)} }}"


SELECTORS = (
    'pod.labels["tier"] == "web"',
    'pod.labels[?"tier"].orValue("") != "web"',
    "pod.priority >= 0",
    "true",
    "1 / pod.priority > 0",
)


@st.composite
def grouped_policies(draw: st.DrawFn, name: str = "p") -> str:
    """A policy's text with a group of nodes that filters and scores read."""
    by = draw(st.sampled_from(('node.labels["zone"]', "key", "node.ready", "size(node.pods)")))
    lines = [f"group g by {by}", 'let key = node.labels["tier"]']
    for number in range(draw(st.integers(1, 3))):
        when = f" when {draw(group_conditions)}" if draw(st.booleans()) else ""
        missing = draw(st.sampled_from(("", " missing pass")))
        require = draw(group_conditions)
        lines.append(f'filter "f{number}"{when} {{ require {require}{missing} }}')
    for number in range(draw(st.integers(0, 2))):
        shape = draw(st.sampled_from(("", " range 0 .. 2", " range minmax")))
        value, weight = draw(_group_values), draw(st.sampled_from((1, 40, -5)))
        lines.append(f'score "s{number}" weight {weight} {{ value {value}{shape} missing 30 }}')
    return f"cluster policy {name} {{ {' '.join(lines)} }}"


_counted = st.one_of(
    _wrap("peer.labels[", keys.map(quoted), "] == pod.labels[", keys.map(quoted), "]"),
    _wrap("peer.priority", _order, "pod.priority"),
    _wrap(keys.map(quoted), " in peer.labels"),
    _wrap("peer.phase == ", st.sampled_from(("Running", "Failed")).map(quoted)),
    st.just("true"),
)
_places = ("", " per cluster", " per node", " per g")


@st.composite
def counting_policies(draw: st.DrawFn, name: str = "p") -> str:
    """A policy's text with named counts that filters and scores read."""
    lines, atoms = ['group g by node.labels["zone"]'], list[str]()
    for number in range(draw(st.integers(1, 3))):
        state = draw(st.sampled_from(("", "", "pending ", "ready ", "ended ")))
        place = draw(st.sampled_from(_places if state != "pending " else _places[:2]))
        amount = draw(st.sampled_from(("", "", 'sum peer.requests["cpu"] of ', "sum 2 of ")))
        pods = draw(st.sampled_from(("pods", "all pods")))
        words = f"all {state}pods" if pods == "all pods" else f"{state}pods"
        lines.append(f"count {name}_{number}{place} = {amount}{words} where {draw(_counted)}")
        least = '"1500m"' if "peer" in amount else draw(st.sampled_from(("0", "1", "2")))
        atoms.append(f"{name}_{number}{draw(_order)}{least}")
        if "peer" not in amount:
            lines.append(
                f'score "s{number}" weight 10 {{ value {name}_{number} range 0 .. 4 missing 30 }}'
            )
    for number in range(draw(st.integers(1, 2))):
        chosen = draw(
            st.lists(st.one_of(st.sampled_from(atoms), conditions), min_size=1, max_size=2)
        )
        when = f" when {draw(st.sampled_from(atoms))}" if draw(st.booleans()) else ""
        lines.append(f'filter "f{number}"{when} {{ require {" && ".join(chosen)} }}')
    return f"cluster policy {name} {{ {' '.join(lines)} }}"
