"""Checks of what Placet is asked: which verbs, with what, about which pods, and how seriously."""

from __future__ import annotations

from collections.abc import Iterator

from cli.scheduling.case import Case
from cli.scheduling.entry import Entry
from cli.scheduling.fields import VERBS
from cli.scheduling.finding import Finding
from grammar.diagnostics import nearest

_SHOWN = 3


def verb(ours: Entry, _case: Case) -> Iterator[Finding]:
    """Paths that Placet does not have (C1)."""
    for name, path in ours.verbs.items():
        if not path or path.rstrip("/") in _paths(ours, name):
            continue
        at = ours.at(f"{name}Verb")
        if path.strip("/") == name:
            message = f"`{path}` begins with a slash: `…/{path}` is asked, which Placet has not"
        elif path in VERBS:
            message = f"`{path}` answers another question than `{name}`"
        else:
            close = nearest(path, VERBS)
            message = f"Placet has no verb `{path}`"
            if close not in (None, name):
                message += f", and `{close}` would answer another question"
        yield Finding("error", at, message, f"write `{name}Verb: {name}`")


def _paths(ours: Entry, name: str) -> tuple[str, ...]:
    """What the verb may be; the prefix says the rest, or says nothing."""
    return (name,) if ours.prefix.path else (name, f"api/scheduler/{name}")


def missing_verb(ours: Entry, case: Case) -> Iterator[Finding]:
    """Questions that Placet would answer, and that nobody asks."""
    if not any(ours.verbs.values()):
        message = "no verb is set, so Placet is never asked"
        yield Finding("error", ours.place, message, "write `filterVerb: filter`")
        return
    if not ours.verbs["filter"]:
        message = "without a `filterVerb` policies reject nothing"
        yield Finding(case.worst, ours.at("filterVerb"), message, "write `filterVerb: filter`")
    elif not ours.verbs["preempt"]:
        message = (
            "without a `preemptVerb` pods are evicted from nodes that policies reject afterwards"
        )
        yield Finding("warning", ours.at("preemptVerb"), message, "write `preemptVerb: preempt`")
    if case.demands is not None and case.demands.scores and not ours.verbs["prioritize"]:
        message = f"without a `prioritizeVerb` {_some(case.demands.scores)} score nothing"
        hint = "write `prioritizeVerb: prioritize` and `weight: 10`"
        yield Finding("warning", ours.at("prioritizeVerb"), message, hint)


def no_binder(ours: Entry, case: Case) -> Iterator[Finding]:
    """Clauses that are checked once more before the binding, which another one makes."""
    if case.demands is None or ours.verbs["bind"]:
        return
    at, hint = ours.at("bindVerb"), "write `bindVerb: bind`"
    if case.demands.at_bind:
        message = f"without a `bindVerb` {_some(case.demands.at_bind)} are not checked at binding"
        yield Finding("warning", at, message, hint)
    if case.demands.strict:
        message = (
            f"without a `bindVerb` the bounds of {_some(case.demands.strict)} are not checked "
            "against the newest state before the binding"
        )
        yield Finding("warning", at, message, hint)


def whole_nodes(ours: Entry, _case: Case) -> Iterator[Finding]:
    """Objects instead of names: kube-scheduler forgets what runs on them (C20)."""
    if not ours.node_cache_capable:
        message = (
            "without `nodeCacheCapable: true` whole nodes are sent, and kube-scheduler takes "
            "every one that comes back for idle"
        )
        at = ours.at("nodeCacheCapable")
        yield Finding("warning", at, message, "write `nodeCacheCapable: true`")


def ignorable(ours: Entry, case: Case) -> Iterator[Finding]:
    """Pods that pass when Placet does not answer (C31, C46)."""
    if not ours.ignorable:
        return
    at, hint = ours.at("ignorable"), "write `ignorable: false`"
    if case.demands is None:
        message = "`ignorable: true` schedules pods without policies when Placet does not answer"
        more = f"{hint}, or say with `--policies` that none of them is strict"
        yield Finding("warning", at, message, more)
    elif case.demands.strict:
        message = (
            f"`ignorable: true` lets pods past {_some(case.demands.strict)} when Placet does "
            "not answer"
        )
        yield Finding("error", at, message, hint)
    if ours.verbs["bind"]:
        message = (
            "with `ignorable: true` and a `bindVerb` kube-scheduler binds by itself after an "
            "error, while Placet may be binding still"
        )
        yield Finding("warning", at, message, hint)


def managed_resources(ours: Entry, case: Case) -> Iterator[Finding]:
    """Pods that Placet is not asked about (C9), and amounts that nobody looks at (C10)."""
    if not ours.managed:
        return
    at = ours.at("managedResources")
    message = (
        f"policies have no effect on pods that request none of "
        f"{_some(tuple(resource.name for resource in ours.managed))}"
    )
    hint = "take `managedResources` out to be asked about every pod"
    yield Finding(case.worst, at, message, hint)
    for place, resource in enumerate(ours.managed):
        if resource.ignored:
            message = f"nobody looks whether a node has enough `{resource.name}`"
            hint = "take `ignoredByScheduler` out, or have a policy that counts it"
            where = f"{at}[{place}].ignoredByScheduler"
            yield Finding("warning", where, message, hint)


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:_SHOWN])
    rest = len(names) - _SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown
