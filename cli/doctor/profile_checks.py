"""Checks of profiles: plugins, their arguments and the queue, by the rules of kube-scheduler 1.36.

They follow its validation, its defaults and the way in which it puts a profile together. Values of
a wrong type are skipped here: `wrong-type` reports them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cli.doctor.context import ConfigurationContext
from cli.doctor.fields import ARGUMENTS
from cli.doctor.found import Found, refused, warning
from cli.doctor.plugins import DEFAULTS, MULTI_POINT, PLUGINS, POINTS, POINTS_OF
from engine.objects.api_types import mapping, mappings
from grammar.messages.diagnostics import nearest
from grammar.messages.texts import named
from grammar.values.errors import EvaluationError
from grammar.values.named_formats import is_label_value, is_qualified
from grammar.values.time import SECOND, Duration
from policies.documents import join

_GROUP = "kubescheduler.config.k8s.io"
_CONVERTS = "`placet scheduler-config --from FILE` writes what has become of it"
# Plugins whose very arguments are refused, as they are gone from version v1.
_GONE = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
_FIT = "NodeResourcesFit"


@dataclass(frozen=True, slots=True)
class EnabledPlugin:
    """An entry of `enabled`: the path of its name, which is empty if it is on by default."""

    name: str
    weight: int
    path: str = ""


@dataclass(frozen=True, slots=True)
class PluginLists:
    """The plugins of one profile by extension point, as they are enabled and disabled."""

    enabled: Mapping[str, Sequence[EnabledPlugin]]
    disabled: Mapping[str, Sequence[EnabledPlugin]]
    foreign: frozenset[str]

    @classmethod
    def of(cls, profile: Mapping[str, Any], path: str, foreign: frozenset[str]) -> PluginLists:
        """The lists of a profile. `foreign` are the plugins that kube-scheduler is built with."""
        written = mapping(profile, "plugins")
        enabled, disabled = {}, {}
        for point in (*POINTS, MULTI_POINT):
            place = f"{path}.plugins.{point}"
            enabled[point] = _listed(mapping(written, point), "enabled", place)
            disabled[point] = _listed(mapping(written, point), "disabled", place)
        enabled[MULTI_POINT] = _with_defaults(enabled[MULTI_POINT], disabled[MULTI_POINT])
        return cls(enabled, disabled, foreign)

    @property
    def names(self) -> frozenset[str]:
        """The plugins that kube-scheduler builds."""
        return frozenset(each.name for plugins in self.enabled.values() for each in plugins)

    def knows(self, name: str) -> bool:
        return name in POINTS_OF or name in self.foreign

    def works(self, name: str, point: str) -> bool:
        """Whether a plugin can be enabled at a point; that of others at any."""
        return name in self.foreign or point in POINTS_OF.get(name, ())

    def expanded(self, point: str) -> Iterator[EnabledPlugin]:
        """What `multiPoint` adds to a point, with the same plugin as often as it is written."""
        here = {each.name for each in self.enabled[point]}
        off = {each.name for each in self.disabled[point]}
        for each in self.enabled[MULTI_POINT] if "*" not in off else ():
            if point in POINTS_OF.get(each.name, ()) and each.name not in here | off:
                yield each


def _listed(lists: Mapping[str, Any], kind: str, path: str) -> list[EnabledPlugin]:
    return [
        EnabledPlugin(_text(each, "name"), _whole(each, "weight"), f"{path}.{kind}[{place}].name")
        for place, each in enumerate(_items(lists, kind))
    ]


def _with_defaults(
    enabled: Sequence[EnabledPlugin], disabled: Sequence[EnabledPlugin]
) -> list[EnabledPlugin]:
    """The plugins of `multiPoint`; the last of one name replaces the one that is on by default."""
    off, given = {each.name for each in disabled}, {each.name: each for each in enabled}
    by_default = [
        given.get(name, EnabledPlugin(name, weight))
        for name, weight in DEFAULTS.items()
        if not off & {"*", name}
    ]
    return by_default + [each for each in enabled if each not in by_default]


def profiles(context: ConfigurationContext) -> Iterator[Found]:
    """Names of profiles, and the plugin of the queue, which all profiles share."""
    written = _profiles(context)
    taken: dict[str, int] = {}
    for place, profile in enumerate(written):
        path, name = f"profiles[{place}].schedulerName", profile.get("schedulerName")
        if name == "" or (name is None and len(written) > 1):
            message = f"`{path}` is empty, and only a single profile has a name by default"
            yield refused(path, message, "write the `schedulerName` that pods of this profile have")
        elif isinstance(name, str) and name in taken:
            message = f"two profiles have the `schedulerName` `{name}`"
            yield refused(path, message, "make one profile of the two, or rename one")
        taken.setdefault(str(name), place)
    if not written:
        return
    first, *others = [_queue(profile) for profile in written]
    for place, other in enumerate(others, 1):
        if other != first:
            path = f"profiles[{place}].plugins.queueSort"
            message = "the `queueSort` of all profiles must be the same, as they share one queue"
            yield refused(path, message, "write the same `queueSort`, word for word, in each")
    arguments = [_queue_arguments(profile) for profile in written]
    for place, given in enumerate(arguments):
        if given != arguments[0]:
            path = f"profiles[{place}].pluginConfig"
            message = "the arguments of the `queueSort` plugin must be the same in all profiles"
            yield refused(path, message, "write the same `args` in each")


def _queue(profile: Mapping[str, Any]) -> tuple[list[tuple[str, int]], list[str]]:
    lists = mapping(mapping(profile, "plugins"), "queueSort")
    enabled = [(_text(each, "name"), _whole(each, "weight")) for each in _items(lists, "enabled")]
    return enabled, [_text(each, "name") for each in _items(lists, "disabled")]


def _queue_arguments(profile: Mapping[str, Any]) -> Any:
    enabled, _ = _queue(profile)
    name = enabled[0][0] if enabled else "PrioritySort"
    configs = mappings(profile, "pluginConfig")
    return next((each.get("args") for each in configs if each.get("name") == name), None)


def plugins(context: ConfigurationContext) -> Iterator[Found]:
    """Plugins that are not there, do not work where they are named, or are named twice."""
    for path, profile, lists in _with_lists(context):
        for point in (*POINTS, MULTI_POINT):
            yield from _enabled(lists, point)
            for each in lists.disabled[point]:
                if each.name != "*" and not lists.knows(each.name):
                    message = f"`{each.name}` is not a plugin of kube-scheduler 1.36"
                    hint = _instead(each.name) or "remove it from `disabled`"
                    yield warning(each.path, f"{message}, so nothing is disabled here", hint)
        yield from _required(lists, path, profile)
        yield from _weights(lists)


def places_of(name: str, context: ConfigurationContext) -> Iterator[str]:
    """The paths at which profiles enable a plugin."""
    for _, _, lists in _with_lists(context):
        for enabled in lists.enabled.values():
            yield from (each.path for each in enabled if each.name == name and each.path)


def is_off(name: str, context: ConfigurationContext) -> bool:
    """Whether every profile disables a plugin that is on by default."""
    lists = [each for *_, each in _with_lists(context)]
    off = [{each.name for each in found.disabled[MULTI_POINT]} for found in lists]
    return bool(off) and all(names & {name, "*"} for names in off)


def _enabled(lists: PluginLists, point: str) -> Iterator[Found]:
    seen: set[str] = set()
    unknown: set[str] = set()
    for each in lists.enabled[point]:
        if not lists.knows(each.name) and each.name not in unknown:
            unknown.add(each.name)
            message = f"`{each.name}` is not a plugin of kube-scheduler 1.36"
            hint = _instead(each.name) or (
                "if yours is built with it, give `--plugin NAME` to this command; otherwise "
                "remove it"
            )
            yield refused(each.path, message, hint)
        elif point != MULTI_POINT and lists.knows(each.name) and not lists.works(each.name, point):
            places = named([f"`{p}`" for p in POINTS if p in POINTS_OF[each.name]], len(POINTS))
            message = f"the plugin `{each.name}` does not work at `{point}`"
            yield refused(each.path, message, f"it works at {places}; `multiPoint` has them all")
        elif point != MULTI_POINT and each.name in seen:
            message = f"the plugin `{each.name}` is enabled twice at `{point}`"
            yield refused(each.path, message, "remove one of the two")
        seen.add(each.name)
    if point == MULTI_POINT:
        yield from _added_twice(lists)


def _added_twice(lists: PluginLists) -> Iterator[Found]:
    """Plugins that `multiPoint` adds twice to a point; it may be written twice without effect."""
    added = Counter((point, each.name) for point in POINTS for each in lists.expanded(point))
    for name in dict.fromkeys(name for (_, name), count in added.items() if count > 1):
        path = next(each.path for each in lists.enabled[MULTI_POINT] if each.name == name)
        message = f"the plugin `{name}` is enabled twice at `{MULTI_POINT}`"
        yield refused(path, message, "remove one of the two")


def _required(lists: PluginLists, path: str, profile: Mapping[str, Any]) -> Iterator[Found]:
    """Exactly one plugin of the queue, and at least one that binds."""
    if lists.names & lists.foreign:
        return  # Which points the plugins of others have is unknown.
    for point, needed in (("queueSort", "PrioritySort"), ("bind", "DefaultBinder")):
        known = [each.name for each in lists.enabled[point]]
        known += [each.name for each in lists.expanded(point)]
        place = f"{path}.plugins.{point}"
        if "plugins" not in profile:
            place = path
        if not known:
            message = f"the profile has no plugin for `{point}`"
            yield refused(place, message, f"enable `{needed}`, or do not disable it")
        elif point == "queueSort" and len(known) > 1:
            yield refused(place, "there can be one plugin for `queueSort` only", "keep one of them")


def _weights(lists: PluginLists) -> Iterator[Found]:
    """Negative weights: a sum below zero counts as an overflow before the next plugin."""
    for point in ("score", "placementScore"):
        weights: dict[str, EnabledPlugin] = {}
        for each in (*lists.enabled[point], *lists.enabled[MULTI_POINT]):
            if point in POINTS_OF.get(each.name, ()):
                weights.setdefault(each.name, each)
        total, path = 0, ""
        for each in weights.values():
            if total < 0:
                message = "the sum of the weights of plugins is negative"
                yield refused(path, message, "write weights of at least 1")
                break
            total, path = total + (each.weight or 1), each.path if each.weight < 0 else path
        else:
            for each in weights.values():
                if each.weight < 0:
                    message = f"with a negative weight `{each.name}` prefers what it scores low"
                    yield warning(each.path, message, "write a weight of at least 1")


def _instead(name: str) -> str:
    """The hint for a plugin of an older version, or for a misspelled one; empty for others."""
    if name in PLUGINS:
        return _CONVERTS
    close = nearest(name, [*POINTS_OF])
    return f"a similar name exists: `{close}`" if close else ""


# ---- arguments of plugins


def arguments(context: ConfigurationContext) -> Iterator[Found]:
    """Items of `pluginConfig` that are refused, or that no plugin reads."""
    queued = any(_queue(profile)[0] for profile in _profiles(context)[:1])
    for path, profile, lists in _with_lists(context):
        seen: set[str] = set()
        for place, item in enumerate(_items(profile, "pluginConfig")):
            at, name = f"{path}.pluginConfig[{place}]", _text(item, "name")
            if name in seen:
                message = f"`pluginConfig` has two items for the plugin `{name}`"
                if not name:
                    message = "`pluginConfig` has two items without a `name`"
                yield refused(at, message, "make one item of the two")
            elif not name:
                message = "these `args` are read by no plugin, because the item has no `name`"
                hint = "write `name` and `args` into one item, with one dash before the two"
                # After the first profile, they are taken for those of a `queueSort` without a name.
                is_refused = item.get("args") is not None and path != "profiles[0]" and not queued
                yield (refused if is_refused else warning)(at, message, hint)
            elif name in _GONE:
                message = f"the plugin `{name}` is gone, and so are its arguments"
                yield refused(f"{at}.name", message, _CONVERTS)
            elif name == f"{_FIT}Args":
                hint = f"write `name: {_FIT}`"
                yield refused(f"{at}.name", f"`{name}` is the kind of its `args`", hint)
            elif not lists.knows(name):
                message = (
                    f"`{name}` is not a plugin of kube-scheduler 1.36: nobody reads its `args`"
                )
                hint = _instead(name) or "remove the item, or give `--plugin NAME` to this command"
                yield warning(f"{at}.name", message, hint)
            elif isinstance(args := item.get("args"), dict) and name in ARGUMENTS:
                yield from _version(name, args, f"{at}.args")
                if name != _FIT or _FIT in lists.names:
                    for inner, message, hint in _RULES.get(name, _no_rule)(args):
                        yield refused(join(f"{at}.args", inner) if inner else at, message, hint)
            seen.add(name)
        yield from _ignored_resources(context, path, lists, seen)


def _version(name: str, args: Mapping[str, Any], path: str) -> Iterator[Found]:
    kind, version = args.get("kind") or f"{name}Args", args.get("apiVersion") or f"{_GROUP}/v1"
    if (kind, version) != (f"{name}Args", f"{_GROUP}/v1"):
        at = "kind" if kind != f"{name}Args" else "apiVersion"
        message = f"the arguments of `{name}` are not `{name}Args` of `{_GROUP}/v1`"
        yield refused(f"{path}.{at}", message, "remove `apiVersion` and `kind` from the `args`")


def _ignored_resources(
    context: ConfigurationContext, path: str, lists: PluginLists, configured: set[str]
) -> Iterator[Found]:
    ignored = [
        resource.name
        for extender in context.configuration.extenders
        for resource in extender.managed
        if resource.ignored
    ]
    if ignored and _FIT not in lists.names | configured:
        message = f"`ignoredByScheduler` of `{ignored[0]}` needs the plugin `{_FIT}`, which is off"
        yield refused(path, message, f"enable `{_FIT}`, or remove `ignoredByScheduler`")


# A rule that arguments break: the path in them, what is wrong, and what to do.
_Broken = tuple[str, str, str]


def _no_rule(_args: Mapping[str, Any]) -> Iterator[_Broken]:
    yield from ()


def _preemption(args: Mapping[str, Any]) -> Iterator[_Broken]:
    names = ("minCandidateNodesPercentage", "minCandidateNodesAbsolute")
    if all(args.get(name) == 0 for name in names):
        message = f"`{names[0]}` and `{names[1]}` are both 0"
        yield names[0], message, "write a number above 0 for one of them"


def _timeouts(args: Mapping[str, Any]) -> Iterator[_Broken]:
    for name, least in (("filterTimeout", 0), ("bindingTimeout", SECOND)):
        try:
            given = None if args.get(name) is None else Duration.parse(args[name]).nanos
        except (EvaluationError, TypeError):
            continue
        if given is not None and given < least:
            shown = Duration.of(least)
            yield name, f"`{name}` is shorter than {shown}", f"write `{name}: 10s`"


def _balance(args: Mapping[str, Any]) -> Iterator[_Broken]:
    seen: set[str] = set()
    for place, each in enumerate(_items(args, "resources")):
        name, weight = _text(each, "name"), _whole(each, "weight")
        if name in seen:
            message = f"the resource `{name}` is named twice"
            yield f"resources[{place}].name", message, "remove one of the two"
        if weight not in (0, 1):
            message = f"the weight of `{name}` is {weight}, and each resource has the weight 1"
            yield f"resources[{place}].weight", message, "remove `weight`"
        seen.add(name)


_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")


def _fit(args: Mapping[str, Any]) -> Iterator[_Broken]:
    for field in ("ignoredResources", "ignoredResourceGroups"):
        for place, name in enumerate(args.get(field) or ()):
            is_group = field == "ignoredResourceGroups"
            if not is_qualified(str(name or "")) or (is_group and "/" in str(name)):
                what = "the domain of resources" if is_group else "the name of a resource"
                example = "example.com" if is_group else "example.com/gpu"
                yield f"{field}[{place}]", f"`{name}` is not {what}", f"as in `{example}`"
    strategy = args.get("scoringStrategy")
    if isinstance(strategy, dict):
        for inner, message, hint in _strategy(strategy):
            yield f"scoringStrategy.{inner}", message, hint


def _strategy(strategy: Mapping[str, Any]) -> Iterator[_Broken]:
    kind, at = _text(strategy, "type"), "requestedToCapacityRatio"
    if kind not in _STRATEGIES:
        message = f"`{kind}` is not a strategy" if kind else "the strategy has no `type`"
        yield "type", message, _one_of(_STRATEGIES)
    for place, each in enumerate(_items(strategy, "resources")):
        if not 0 <= (weight := _whole(each, "weight")) <= 100:
            message = f"the weight of `{_text(each, 'name')}` is {weight}, and not from 1 to 100"
            yield f"resources[{place}].weight", message, "write a number from 1 to 100"
    ratio = strategy.get(at)
    if kind != _STRATEGIES[2]:
        if ratio is not None:
            message = f"`{at}` is only for the strategy {_STRATEGIES[2]}"
            yield at, message, f"remove `{at}`, or write `type: {_STRATEGIES[2]}`"
        return
    points = [_whole(each, "utilization") for each in _items(mapping(strategy, at), "shape")]
    if not points:
        message = f"the strategy {kind} has no `{at}.shape`"
        yield at, message, f"write `{at}: {{shape: [{{utilization: 0, score: 0}}]}}`"
    for place in range(1, len(points)):
        if points[place - 1] >= points[place]:
            message = "the points of `shape` are not in the order of their `utilization`"
            yield f"{at}.shape[{place}].utilization", message, "write each larger than the last"
            return


_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")


def _spread(args: Mapping[str, Any]) -> Iterator[_Broken]:
    kind, constraints = args.get("defaultingType"), _items(args, "defaultConstraints")
    if kind not in (None, "", "System", "List"):
        message = f"`{kind}` is not a `defaultingType`"
        yield "defaultingType", message, _one_of(("System", "List"))
    elif constraints and kind != "List":
        message = "`defaultConstraints` are not allowed without `defaultingType: List`"
        yield "defaultingType", message, "write `defaultingType: List` beside them"
    taken: set[tuple[str, str]] = set()
    for place, each in enumerate(constraints):
        at = f"defaultConstraints[{place}]"
        key, action = _text(each, "topologyKey"), _text(each, "whenUnsatisfiable")
        if _whole(each, "maxSkew") <= 0:
            message = f"`maxSkew` is {_whole(each, 'maxSkew')}, and must be at least 1"
            yield f"{at}.maxSkew", message, "write `maxSkew: 1`"
        if not is_qualified(key):
            message = f"`{key}` is not the key of a label" if key else "there is no `topologyKey`"
            hint = "as in `topologyKey: topology.kubernetes.io/zone`"
            yield f"{at}.topologyKey", message, hint
        if action not in _ACTIONS:
            message = (
                f"`{action}` is not an action" if action else "there is no `whenUnsatisfiable`"
            )
            yield f"{at}.whenUnsatisfiable", message, _one_of(_ACTIONS)
        if each.get("labelSelector") is not None:
            message = "a default constraint has no `labelSelector`, as each pod has its own"
            yield f"{at}.labelSelector", message, "remove it"
        if (key, action) in taken:
            message = f"there are two constraints for `{key}` and `{action}`"
            yield at, message, "remove one of the two"
        taken.add((key, action))


def _volumes(args: Mapping[str, Any]) -> Iterator[_Broken]:
    if args.get("shape") is not None:
        message = "`shape` needs the feature gate StorageCapacityScoring, which is off by default"
        yield "shape", message, "remove `shape`"


def _affinity(args: Mapping[str, Any]) -> Iterator[_Broken]:
    added = mapping(args, "addedAffinity")
    needed = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    terms = [
        (f"{needed}.nodeSelectorTerms[{place}]", term)
        for place, term in enumerate(_items(mapping(added, needed), "nodeSelectorTerms"))
    ]
    terms += [
        (f"{preferred}[{place}].preference", mapping(each, "preference"))
        for place, each in enumerate(_items(added, preferred))
        if _whole(each, "weight")
    ]
    for at, term in terms:
        for name in ("matchExpressions", "matchFields"):
            for place, each in enumerate(_items(term, name)):
                check = _expression if name == "matchExpressions" else _field
                for inner, message, hint in check(each):
                    yield f"addedAffinity.{at}.{name}[{place}].{inner}", message, hint


_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def _expression(each: Mapping[str, Any]) -> Iterator[_Broken]:
    operator, key = _text(each, "operator"), _text(each, "key")
    values = [str(value or "") for value in each.get("values") or ()]
    if not is_qualified(key):
        yield "key", f"`{key}` is not the key of a label", "as in `topology.kubernetes.io/zone`"
    count = len(values)
    if operator not in _OPERATORS:
        yield "operator", f"`{operator}` is not an operator", _one_of(_OPERATORS)
        return
    if operator in ("In", "NotIn") and not count:
        yield "values", f"`{operator}` needs values", "write `values`"
    elif operator in ("Exists", "DoesNotExist") and count:
        yield "values", f"`{operator}` has no values", "remove `values`"
    elif operator in ("Gt", "Lt") and (count != 1 or not re.fullmatch(r"[0-9]{1,18}", values[0])):
        yield "values", f"`{operator}` needs one whole number", 'as in `values: ["5"]`'
    elif wrong := next((value for value in values if not is_label_value(value)), ""):
        yield "values", f"`{wrong}` is not the value of a label", "write a value that nodes have"


def _field(each: Mapping[str, Any]) -> Iterator[_Broken]:
    operator, values = _text(each, "operator"), each.get("values") or ()
    if operator not in ("In", "NotIn"):
        yield "operator", f"`{operator}` is not an operator of a field", _one_of(("In", "NotIn"))
    elif len(values) != 1:
        yield "values", f"`{operator}` of a field needs one value", "write one name of a node"


_RULES = {
    "DefaultPreemption": _preemption,
    "DynamicResources": _timeouts,
    "NodeAffinity": _affinity,
    "NodeResourcesBalancedAllocation": _balance,
    _FIT: _fit,
    "PodTopologySpread": _spread,
    "VolumeBinding": _volumes,
}


# ---- reading


def _one_of(names: Sequence[str]) -> str:
    return f"write one of {named([f'`{name}`' for name in names], len(names))}"


def _profiles(context: ConfigurationContext) -> list[Mapping[str, Any]]:
    if context.configuration.legacy:
        return []  # a Policy has none
    return _items(context.configuration.value, "profiles")


def _with_lists(
    context: ConfigurationContext,
) -> Iterator[tuple[str, Mapping[str, Any], PluginLists]]:
    """Each profile with its path and its plugins."""
    for place, profile in enumerate(_profiles(context)):
        path = f"profiles[{place}]"
        yield path, profile, PluginLists.of(profile, path, context.plugins)


def _items(value: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The items of a list, where null is an empty one; none of a value of a wrong type."""
    given = value.get(name)
    listed = given if isinstance(given, list) else []
    return [each if isinstance(each, dict) else {} for each in listed]


def _text(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name)
    return found if isinstance(found, str) else ""


def _whole(value: Mapping[str, Any], name: str) -> int:
    found = value.get(name)
    return int(found) if isinstance(found, int | float) and found // 1 == found else 0
