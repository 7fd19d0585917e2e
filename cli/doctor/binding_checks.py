"""Checks of `placet doctor` about bind: which entry has the verb, and how long it may take.

A binding may be held for its gang or for a condition. kube-scheduler has one `httpTimeout` for all
verbs of an entry, so bind then has an entry of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cli.doctor.context import ConfigurationContext, Found, error, some, warning
from cli.doctor.extender import ExtenderEntry
from engine.objects.api_types import mapping, mappings

_GANGS = "GangScheduling"


def no_binder(ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[Found]:
    """Clauses that are checked again before the binding, which kube-scheduler makes itself."""
    needs = context.requirements
    if needs is None or context.entry_of("bind") is not None:
        return
    at, hint = ours.at("bindVerb"), "write `bindVerb: bind`"
    serve = "" if context.binds else ", and serve with `--bind`"
    hint += serve
    if needs.cards:
        message = f"without a `bindVerb` no pod gets the cards of {some(needs.cards)}"
        yield error(at, message, hint)
    if needs.waiting:
        message = f"without a `bindVerb` no pod waits for {some(needs.waiting)}"
        seconds = needs.bind_timeout(context.http_timeout)
        apart = (
            f"an entry with the same `urlPrefix`, `bindVerb: bind` and `httpTimeout: {seconds:g}s`"
        )
        yield error(at, message, f"add {apart}{serve}")
    if at_bind := [name for name in needs.at_bind if name not in needs.waiting]:
        message = f"without a `bindVerb` {some(at_bind)} are not checked at binding"
        yield warning(at, message, hint)
    if needs.amounts:
        message = (
            f"without a `bindVerb` the sums of {some(needs.amounts)} do not have the pods that "
            "are still on their way, so their bounds can be passed"
        )
        yield warning(at, message, f"write each as a `limit` with a `sum`; or {hint}")
    if strict := [name for name in needs.strict if name not in needs.waiting]:
        message = (
            f"without a `bindVerb` the bounds of {some(strict)} are not checked "
            "against the newest state before the binding"
        )
        yield warning(at, message, hint)


def bind(ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[Found]:
    """A `bindVerb` for a Placet that does not bind, and the reverse."""
    binder = context.entry_of("bind")
    if binder is not None and not context.binds:
        message = "`placet serve` has no verb bind without `--bind`: no pod can be bound"
        hint = "serve with `--bind` and give it to this command too, or remove `bindVerb`"
        yield error(binder.at("bindVerb"), message, hint)
    elif context.binds and binder is None:
        message = "`placet serve --bind` may bind pods, and kube-scheduler never asks it to"
        yield warning(
            ours.at("bindVerb"), message, "write `bindVerb: bind`, or serve without `--bind`"
        )


def waiting_bind(_ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[Found]:
    """A timeout of bind that ends before policies let the binding go."""
    needs, binder = context.requirements, context.entry_of("bind")
    if needs is None or not needs.waiting or binder is None:
        return
    has, needed = binder.patience, needs.bind_timeout(context.http_timeout)
    if has >= needed:
        return
    waits = f"for {some(needs.waiting)} a binding may take {needed:g} s"
    if binder.only_binds:
        message = f"kube-scheduler gives a binding up after {has:g} s, and {waits}"
        hint = f"write `httpTimeout: {needed:g}s`"
    else:
        message = f"bind has the `httpTimeout` of the other verbs, {has:g} s, and {waits}"
        hint = (
            f"move `bindVerb` to an entry of its own with the same `urlPrefix` and "
            f"`httpTimeout: {needed:g}s`, as `placet doctor --fix --bind --policies` does"
        )
    yield error(binder.at("httpTimeout"), message, hint)


def two_gangs(context: ConfigurationContext) -> Iterator[Found]:
    """Gangs of kube-scheduler beside those of policies."""
    needs = context.requirements
    if needs is None or not needs.gangs:
        return
    message = (
        f"`{_GANGS}` of kube-scheduler and {some(needs.gangs)} must not gather the same pods: "
        "Placet does not see the nodes that kube-scheduler has chosen for the others"
    )
    profiles = mappings(context.configuration.value, "profiles")
    for index, profile in enumerate(profiles):
        for point in mapping(profile, "plugins"):
            names = _plugins(profile, point, "enabled")
            if _GANGS in names:
                place = f"profiles[{index}].plugins.{point}.enabled[{names.index(_GANGS)}].name"
                yield error(place, message, "remove the plugin, or the `gang` clauses")
    off = [{*_plugins(each, "multiPoint", "disabled")} & {_GANGS, "*"} for each in profiles]
    if _has_gate(context.configuration.flags.get("feature-gates", "")) and not (off and all(off)):
        hint = f"remove `{_GANGS}=true` from `--feature-gates`, or the `gang` clauses"
        yield error("", message, hint)


def _plugins(profile: Mapping[str, Any], point: str, kind: str) -> list[str]:
    """The names in a list of plugins of a profile."""
    lists = mapping(mapping(profile, "plugins"), point)
    return [str(each.get("name")) for each in mappings(lists, kind)]


def _has_gate(gates: str) -> bool:
    """Whether feature gates, as a flag has them, turn kube-scheduler's own gangs on."""
    given = dict(each.strip().partition("=")[::2] for each in gates.split(","))
    on = given.get(_GANGS, given.get("AllAlpha", "false"))
    return on.strip().lower() in ("true", "t", "1")
