"""Conversion: a KubeSchedulerConfiguration v1 from a Policy, an older version, or plugin JSON.

What kube-scheduler 1.36 does not have is left out, and a note says so and what to do instead. What
the document says of other extenders stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from cli.command import CommandError
from cli.doctor import fields
from cli.doctor.configuration_text import SchedulerConfiguration, configurations
from cli.doctor.connection_checks import DEFAULT_TIMEOUT
from cli.doctor.context import choose
from cli.doctor.extender import ExtenderEntry, entry
from cli.doctor.generator import Extender, section, yaml_text
from cli.doctor.kube_versions import KNOWN_MINOR
from cli.doctor.plugins import (
    DEFAULTS,
    FILTERS,
    FIRST_MINOR,
    MULTI_POINT,
    PLUGINS,
    POINTS,
    POINTS_OF,
    PREDICATES,
    PRIORITIES,
    SCORES,
    Successor,
)
from engine.objects.api_types import mapping, mappings
from grammar.messages.texts import named
from grammar.values.time import SECOND, Duration

VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"
_FIT = "NodeResourcesFit"
_MOST_NAMES = 20

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Conversion:
    """A KubeSchedulerConfiguration v1, and a sentence for each thing that is different in it."""

    document: Json
    notes: tuple[str, ...]

    @property
    def text(self) -> str:
        return yaml.safe_dump(self.document, sort_keys=False, width=100)


def convert(
    configuration: SchedulerConfiguration,
    new: Extender,
    *,
    url: str | None = None,
    binds: bool = False,
    policy: SchedulerConfiguration | None = None,
    minor: int = KNOWN_MINOR,
) -> Conversion:
    """The conversion of any configuration. `new` is added if it has no extenders at all.

    Only an extender with the `url` or with a URL of Placet is changed to what Placet needs. `binds`
    says whether Placet may bind pods; if `new` has a `bind_timeout`, an entry of its own has that
    verb afterwards. `policy` is the Policy that its `algorithmSource` names. `minor` is the minor
    version of the kube-scheduler that reads it.
    """
    value, notes = configuration.value, list[str]()
    if configuration.legacy:
        notes.append("kube-scheduler 1.23 and later do not read a Policy: it is a profile now")
        value = _of_policy(configuration, notes)
        profiles = value.pop("profiles")
    else:
        version = value.get("apiVersion")
        if version != VERSION:
            was = f"`{version}`" if version else "no `apiVersion`"
            notes.append(f"`apiVersion` is `{VERSION}`: it was {was}")
        value = _without_old_fields(value, policy, notes)
        profiles = _profiles(value, notes, minor, keeps_foreign=configuration.has_kind)
    others = {n: v for n, v in value.items() if n not in (*_OF_PROFILE, "apiVersion", "kind")}
    extenders = [each for each in others.get("extenders") or () if isinstance(each, dict)]
    for place, profile in enumerate(profiles):
        moved = mappings(profile, "extenders")
        profile.pop("extenders", None)
        if moved:
            notes.append(f"`profiles[{place}].extenders` are `extenders`, which all profiles share")
            extenders += moved
    if extenders:
        others["extenders"] = extenders
    known, dropped = fields.known(others | {"profiles": profiles})
    notes += (f"`{path}` is left out: there is no such field" for path in dropped)
    _replace_lock(known, notes)
    written = mappings(known, "extenders")
    ours = _places(written, url)
    entries = [_extender(each, place in ours, binds, notes) for place, each in enumerate(written)]
    if ours and binds and new.bind_timeout is not None:
        entries = _with_bind_apart(entries, ours, str(new.bind_timeout), notes)
    known["extenders"] = [each for each in entries if each]
    if not written:
        notes.append("it has no extenders: Placet is added")
        known["extenders"] = yaml.safe_load(yaml_text(section(new)))["extenders"]
    elif not ours:
        notes.append("no extender has a URL of Placet, so that of each stays as it is")
    if (ours or not written) and not _is_whole(known):
        notes.append("`percentageOfNodesToScore` is 100, so that Placet gets every node")
        known["percentageOfNodesToScore"] = 100
        for profile in known["profiles"]:
            profile.pop("percentageOfNodesToScore", None)
    if not any(known["profiles"]):
        del known["profiles"]
    return Conversion({"apiVersion": VERSION, "kind": KIND, **known}, tuple(dict.fromkeys(notes)))


# Fields that were beside the extenders before there were profiles.
_OF_PROFILE = ("schedulerName", "plugins", "pluginConfig", "profiles")


def _places(written: Sequence[Json], url: str | None) -> tuple[int, ...]:
    """The places of the entries that are Placet, that with filter first; none if none is."""
    entries = _entries(written)
    ours = None
    if url is not None:
        ours = next((each for each in entries if each.url.rstrip("/") == url.rstrip("/")), None)
    if ours is None:
        ours, _ = choose(entries, by_url=True)
    if ours is None:
        return ()
    same = [each for each in entries if each.calls(ours)]
    same.sort(key=lambda each: not each.verbs["filter"])
    return tuple(int(each.place) for each in same)


def _entries(written: Sequence[Json]) -> list[ExtenderEntry]:
    return [entry(each, str(place), legacy=False) for place, each in enumerate(written)]


def _with_bind_apart(
    given: Sequence[Json], ours: Sequence[int], timeout: str, notes: list[str]
) -> list[Json]:
    """The extenders with a `bindVerb` of Placet in an entry of its own, with this timeout."""
    made, entries = list(given), _entries(given)
    main = made[ours[0]]
    name = f"`{main.get('urlPrefix', '')}`"
    binder = next((each for each in entries if each.verbs["bind"]), None)
    if binder is not None and int(binder.place) not in ours:
        notes.append(
            f"`{binder.url}` has the only `bindVerb` there can be, so no binding waits for policies"
        )
        return made
    if binder is not None and binder.only_binds:
        place, wanted = int(binder.place), Duration.parse(timeout).nanos / SECOND
        if (binder.timeout or DEFAULT_TIMEOUT) < wanted:
            made[place] = made[place] | {"httpTimeout": timeout}
            notes.append(f"the `httpTimeout` of the `bindVerb` of {name} is {timeout}")
        return made
    shared = main if binder is None else made[int(binder.place)]
    apart: Json = {"urlPrefix": shared["urlPrefix"], "bindVerb": shared.pop("bindVerb", "bind")}
    apart |= {key: shared[key] for key in ("enableHTTPS", "tlsConfig") if key in shared}
    made.append(apart | {"httpTimeout": timeout, "ignorable": False})
    notes.append(
        f"the `bindVerb` of {name} is in an entry of its own, with an `httpTimeout` of {timeout}, "
        "because policies have bindings wait"
    )
    if shared.get("managedResources"):
        notes.append(
            f"{name} binds every pod, because only one entry may name its managed resources"
        )
    return made


def _is_whole(document: Json) -> bool:
    """Whether every profile has all nodes scored."""
    name = "percentageOfNodesToScore"
    every = document.get(name)
    profiles = mappings(document, "profiles") or [{}]
    return all((p.get(name) if p.get(name) is not None else every) == 100 for p in profiles)


def _replace_lock(document: Json, notes: list[str]) -> None:
    lease = mapping(document, "leaderElection")
    if lease.get("resourceLock") not in (None, "leases"):
        notes.append(f"`resourceLock` is `leases`: `{lease['resourceLock']}` no longer exists")
        lease["resourceLock"] = "leases"


# ---- what v1alpha1 had beside its plugins


def policy_of(
    configuration: SchedulerConfiguration,
    others: Sequence[SchedulerConfiguration],
    open_file: Callable[[str], str | None],
) -> SchedulerConfiguration | None:
    """The Policy that the `algorithmSource` of v1alpha1 names; None if it names none.

    It is a file, or one of the `others` in the same text as its ConfigMap is. Raises CommandError
    if it is not there, because what it says would be lost.
    """
    source = mapping(mapping(configuration.value, "algorithmSource"), "policy")
    path, config_map = mapping(source, "file").get("path"), mapping(source, "configMap")
    if isinstance(path, str):
        text = open_file(path)
        if text is not None:
            return configurations([(path, text)], lambda _path: None)[0]
        where = path
    elif config_map:
        policies = [each for each in others if each.legacy]
        if policies:
            return policies[0]
        where = f"{config_map.get('namespace')}/{config_map.get('name')}"
    else:
        return None
    raise CommandError(
        f"`algorithmSource` names a Policy in `{where}`, which is not here",
        "put the file there, or the ConfigMap into the same file after a line `---`",
    )


def _without_old_fields(
    value: Json, policy: SchedulerConfiguration | None, notes: list[str]
) -> Json:
    """The configuration with what has become of fields of v1alpha1, which is in its profile."""
    made, profile = dict(value), dict[str, Any]()
    lease = dict(mapping(made, "leaderElection"))
    for old, new in (
        ("lockObjectName", "resourceName"),
        ("lockObjectNamespace", "resourceNamespace"),
    ):
        if old in lease:
            lease.setdefault(new, lease.pop(old))
            made["leaderElection"] = lease
            notes.append(f"`leaderElection.{old}` is `{new}`")
    if policy is not None:
        notes.append("the Policy of `algorithmSource` is a profile now")
        old_policy = _of_policy(policy, notes)
        profile = old_policy["profiles"][0]
        made["extenders"] = [*mappings(made, "extenders"), *mappings(old_policy, "extenders")]
    provider = mapping(made, "algorithmSource").get("provider")
    if provider == "ClusterAutoscalerProvider":
        notes.append(f"the provider `{provider}` is `{_FIT}` with the strategy MostAllocated")
        args = {"scoringStrategy": _strategy(PRIORITIES["MostRequestedPriority"], {})}
        profile = {"pluginConfig": [{"name": _FIT, "args": args}]}
    elif provider is not None:
        notes.append(f"the provider `{provider}` is the default profile")
    made.pop("algorithmSource", None)
    if made.pop("disablePreemption", False):
        notes.append("`disablePreemption` disables the plugin `DefaultPreemption`")
        points = profile.setdefault("plugins", {}).setdefault("postFilter", {})
        points.setdefault("disabled", []).append({"name": "DefaultPreemption"})
    for old, plugin, new in (
        ("hardPodAffinitySymmetricWeight", "InterPodAffinity", "hardPodAffinityWeight"),
        ("bindTimeoutSeconds", "VolumeBinding", "bindTimeoutSeconds"),
    ):
        if (given := made.pop(old, None)) is not None:
            notes.append(f"`{old}` is `{new}` of the plugin `{plugin}`")
            profile.setdefault("pluginConfig", []).append({"name": plugin, "args": {new: given}})
    if not profile:
        return made
    for name in ("plugins", "pluginConfig"):
        if name in made or mappings(made, "profiles"):
            notes.append(f"`{name}` stays as it is written, and not as the older fields have it")
            profile.pop(name, None)
    return made | profile


def _of_policy(policy: SchedulerConfiguration, notes: list[str]) -> Json:
    """The profile and the extenders of a Policy, whose field names are case-insensitive."""
    folded = {name.lower(): found for name, found in policy.value.items()}
    return {"profiles": [_profile_of_policy(folded, notes)], "extenders": folded.get("extenders")}


# ---- extenders


def _extender(given: Json, is_ours: bool, binds: bool, notes: list[str]) -> Json:  # noqa: FBT001 - private
    made = dict(given)
    name = f"`{made.get('urlPrefix', '')}`"
    if isinstance(timeout := made.get("httpTimeout"), int):
        made["httpTimeout"] = str(Duration(timeout))
    weight = made.get("weight")
    if made.get("prioritizeVerb") and not (isinstance(weight, int) and weight > 0):
        made["weight"] = 10 if is_ours else 1
        notes.append(f"the `weight` of {name} is {made['weight']}: 0 is refused")
    resources = mappings(made, "managedResources")
    sound = [each for each in resources if fields.is_extended(str(each.get("name")))]
    notes += (
        f"the managed resource `{each.get('name')}` of {name} is left out: it is not an "
        "extended resource, as `example.com/foo` is"
        for each in resources
        if each not in sound and (sound or is_ours)
    )
    if resources and not sound and not is_ours:
        notes.append(
            f"{name} keeps its `managedResources`, with which kube-scheduler 1.36 refuses it"
        )
    elif resources and not sound:
        del made["managedResources"]
        notes.append(f"{name} is called for every pod, because it manages no resource any more")
    elif resources:
        made["managedResources"] = sound
    only_binds = entry(made, "", legacy=False).only_binds
    if is_ours and not only_binds and made.get("nodeCacheCapable") is not True:
        made["nodeCacheCapable"] = True
        notes.append(f"`nodeCacheCapable` of {name} is true: Placet has its own view of the nodes")
    if is_ours and made.get("bindVerb") and not binds:
        del made["bindVerb"]
        notes.append(
            f"the `bindVerb` of {name} is left out, because `placet serve` binds no pod without "
            "`--bind`: to keep it, give `--bind` to doctor or the verb to `--verbs`"
        )
        if only_binds:
            return {}
    return made


# ---- profiles of a KubeSchedulerConfiguration, or of plugin JSON


def _profiles(value: Json, notes: list[str], minor: int, *, keeps_foreign: bool) -> list[Json]:
    written = mappings(value, "profiles")
    beside = {name: value[name] for name in _OF_PROFILE[:-1] if name in value}
    if beside and not written:
        notes.append(f"{_some(beside)} {'is' if len(beside) == 1 else 'are'} in a profile now")
        written = [beside]
    return [_profile(each, notes, minor, keeps_foreign=keeps_foreign) for each in written]


def _profile(written: Json, notes: list[str], minor: int, *, keeps_foreign: bool) -> Json:
    made = _Profile(notes)
    for point, names in mapping(written, "plugins").items():
        is_design = isinstance(names, list)
        if is_design:
            notes.append(f"`{point}` has only the plugins of its list: `disabled` has all others")
            made.lists.append(point)
        sets = {"enabled": names} if is_design else names if isinstance(names, dict) else {}
        for kind in ("enabled", "disabled"):
            for plugin in mappings(sets, kind):
                made.plugin(point, kind, plugin, keeps_foreign=keeps_foreign)
    for each in mappings(written, "pluginConfig"):
        made.configure(str(each.get("name")), mapping(each, "args"), keeps_foreign=keeps_foreign)
    made.turn_off_the_rest(minor)
    rest = {n: v for n, v in written.items() if n not in ("plugins", "pluginConfig")}
    return rest | made.fields()


_LISTS = ("enabled", "disabled")
# The points at which a plugin uses what it has found at another one.
_NEEDED_BY: Mapping[str, tuple[str, ...]] = {
    "preFilter": ("filter",),
    "preScore": ("score",),
    "reserve": ("filter",),
    "preBind": ("filter",),
}


@dataclass(slots=True)
class _Profile:
    """The plugins and arguments of one profile, as they are found."""

    notes: list[str]
    points: dict[str, dict[str, dict[str, Json]]] = field(default_factory=dict)
    arguments: dict[str, Json] = field(default_factory=dict)
    # The points whose list turns off all other plugins.
    lists: list[str] = field(default_factory=list)

    def plugin(self, point: str, kind: str, given: Json, *, keeps_foreign: bool) -> None:
        """Takes an entry of `enabled` or `disabled`."""
        name = str(given.get("name"))
        if name not in PLUGINS:
            if name in POINTS_OF or name == "*" or self._foreign(name, keeps=keeps_foreign):
                self.put(point, kind, name, given.get("weight"))
            return
        successor = PLUGINS[name]
        if kind == "disabled":
            self.notes.append(f"the plugin `{name}` need not be disabled: it is gone")
            return
        self.notes.append(_replaced("plugin", name, successor))
        for new in successor.plugins:
            self.put(point, kind, new, given.get("weight"))
        if successor.strategy and point == "score":
            self.arguments.setdefault(_FIT, {})["scoringStrategy"] = _strategy(successor, {})

    def configure(self, name: str, args: Json, *, keeps_foreign: bool) -> None:
        """Takes the arguments of a plugin."""
        args = {key: found for key, found in args.items() if key not in ("apiVersion", "kind")}
        successor = PLUGINS.get(name)
        if successor is not None and successor.strategy:
            self.arguments.setdefault(_FIT, {})["scoringStrategy"] = _strategy(successor, args)
        elif successor is not None:
            self.notes.append(_replaced("plugin", name, successor))
            self.notes.append(f"the `pluginConfig` of `{name}` is left out")
        elif name in POINTS_OF or self._foreign(name, keeps=keeps_foreign):
            self.arguments[name] = self.arguments.get(name, {}) | args
            return
        else:
            self.notes.append(f"the `pluginConfig` of `{name}` is left out with it")

    def put(self, point: str, kind: str, name: str, weight: object = None) -> None:
        entry: Json = {"name": name}
        if isinstance(weight, int) and weight and point in ("score", "multiPoint"):
            entry["weight"] = weight
        known = self.points.setdefault(point, {}).setdefault(kind, {})
        if weight_of(known.get(name, {})) <= weight_of(entry):
            known[name] = entry

    def turn_off_the_rest(self, minor: int) -> None:
        """Disables what the lists leave out, except what a plugin of another point needs.

        `minor` is the version of kube-scheduler, which may not have the newest plugins.
        """
        defaults = [name for name in DEFAULTS if FIRST_MINOR.get(name, 0) <= minor]
        for point in self.lists:
            self.put(point, "disabled", "*")
        for point in POINTS:
            if point not in self.lists:
                continue
            known = self.points[point].setdefault("enabled", {})
            kept = [name for name in defaults if name not in known and self._needs(name, point)]
            for name in kept:
                self.put(point, "enabled", name)
            if kept:
                self.notes.append(f"`{point}` keeps {_some(kept)}, without which no pod is placed")

    def _needs(self, name: str, point: str) -> bool:
        if point not in POINTS_OF[name]:
            return False
        if point in ("queueSort", "bind"):
            return not self.points[point].get("enabled")
        return any(self._runs(name, other) for other in _NEEDED_BY.get(point, ()))

    def _runs(self, name: str, point: str) -> bool:
        sets = self.points.get(point, {})
        off = {*sets.get("disabled", ()), *self.points.get(MULTI_POINT, {}).get("disabled", ())}
        is_on = name in sets.get("enabled", ()) or not off & {name, "*"}
        return is_on and point in POINTS_OF[name]

    def fields(self) -> Json:
        plugins = {
            point: {kind: list(sets[kind].values()) for kind in _LISTS if sets.get(kind)}
            for point, sets in self.points.items()
        }
        config = [{"name": name, "args": args} for name, args in self.arguments.items() if args]
        found = {"plugins": plugins, "pluginConfig": config}
        return {name: each for name, each in found.items() if each}

    def _foreign(self, name: str, *, keeps: bool) -> bool:
        built = "build kube-scheduler with it"
        if keeps:
            self.notes.append(f"kube-scheduler 1.36 has no plugin `{name}`: {built}")
        else:
            self.notes.append(
                f"the plugin `{name}` is left out, because kube-scheduler 1.36 does not have it: "
                f"{built} and add it, or write it as a policy"
            )
        return keeps


def weight_of(entry: Mapping[str, Any]) -> int:
    found = entry.get("weight", 0)
    return found if isinstance(found, int) else 0


def _strategy(successor: Successor, args: Mapping[str, Any]) -> Json:
    """The `scoringStrategy` of NodeResourcesFit; a ratio needs a shape."""
    resources = args.get("resources") or [{"name": "cpu"}, {"name": "memory"}]
    resources = [{"name": r["name"], "weight": r.get("weight") or 1} for r in resources]
    made: Json = {"type": successor.strategy, "resources": resources}
    if successor.strategy == "RequestedToCapacityRatio":
        shape = args.get("shape") or [{"utilization": 0, "score": 10}, {"utilization": 100}]
        shape = [{"score": 0, **point} for point in shape]
        made["requestedToCapacityRatio"] = {"shape": shape}
    return made


def _replaced(what: str, name: str, successor: Successor) -> str:
    """The sentence about a predicate, priority or plugin that has another name or none."""
    why = f": {successor.why}" if successor.why else ""
    clause = f"; in a policy: `{successor.clause}`" if successor.clause else ""
    if not successor.plugins:
        return f"the {what} `{name}` is left out{why}{clause}"
    strategy = f" with the strategy {successor.strategy}" if successor.strategy else ""
    return f"the {what} `{name}` is {_some(successor.plugins)}{strategy}{why}{clause}"


def _some(names: Iterable[str]) -> str:
    return named([f"`{name}`" for name in names], _MOST_NAMES)


# ---- the profile of a Policy


def _profile_of_policy(value: Json, notes: list[str]) -> Json:
    made = _Profile(notes)
    filters, scores = set(FILTERS), set(SCORES)
    if value.get("predicates") is not None:
        filters = {new for each in mappings(value, "predicates") for new in _predicate(each, made)}
    if value.get("priorities") is not None:
        scores = {new for each in mappings(value, "priorities") for new in _priority(each, made)}
    _turn_off(made, filters, scores)
    hard = value.get("hardpodaffinitysymmetricweight")
    if isinstance(hard, int) and hard:
        made.arguments["InterPodAffinity"] = {"hardPodAffinityWeight": hard}
    if value.get("alwayscheckallpredicates"):
        notes.append("`alwaysCheckAllPredicates` is left out: a node's first failed plugin ends it")
    return made.fields()


def _turn_off(made: _Profile, filters: set[str], scores: set[str]) -> None:
    """Disables what the Policy does not name: everywhere, or as a filter or a score only."""
    for name in FILTERS:
        if name not in filters and (name not in SCORES or name not in scores):
            made.put("multiPoint", "disabled", name)
        elif name not in filters:
            made.put("preFilter", "disabled", name)
            made.put("filter", "disabled", name)
    everywhere = made.points.get("multiPoint", {}).get("disabled", {})
    for name in SCORES:
        if name not in scores and name not in everywhere:
            made.put("score", "disabled", name)
    if off := [name for name in FILTERS if name not in filters]:
        made.notes.append(
            f"the Policy does not check {_some(off)}, so they are disabled; pods need them today: "
            "take them out of `disabled` unless you know why they are off"
        )


def _predicate(given: Json, made: _Profile) -> tuple[str, ...]:
    """The plugins of a predicate, which may be one of a kind with arguments."""
    name, argument = str(given.get("name")), mapping(given, "argument")
    presence = mapping(argument, "labelsPresence")
    if presence:
        operator = "Exists" if presence.get("presence") else "DoesNotExist"
        _require_labels(made, presence.get("labels"), operator)
        name, given_name = "CheckNodeLabelPresence", name
        made.notes.append(_replaced("predicate", given_name, PREDICATES[name]))
        return PREDICATES[name].plugins
    successor = PREDICATES.get("CheckServiceAffinity" if argument else name)
    if successor is None:
        made.notes.append(f"the predicate `{name}` is left out: kube-scheduler never had it")
        return ()
    if successor.plugins != (name,):
        made.notes.append(_replaced("predicate", name, successor))
    return successor.plugins


def _require_labels(made: _Profile, labels: object, operator: str) -> None:
    wanted = [{"key": key, "operator": operator} for key in labels or ()]  # type: ignore[attr-defined]
    affinity = made.arguments.setdefault("NodeAffinity", {}).setdefault("addedAffinity", {})
    terms = affinity.setdefault(
        "requiredDuringSchedulingIgnoredDuringExecution",
        {"nodeSelectorTerms": [{"matchExpressions": []}]},
    )
    terms["nodeSelectorTerms"][0]["matchExpressions"] += wanted


_ARGUMENTS = {
    "serviceAntiAffinity": "ServiceAntiAffinity",
    "labelPreference": "LabelPreference",
    "requestedToCapacityRatioArguments": "RequestedToCapacityRatioPriority",
}


def _priority(given: Json, made: _Profile) -> tuple[str, ...]:
    """The plugins of a priority, with their weight."""
    name, argument = str(given.get("name")), mapping(given, "argument")
    kind = next((_ARGUMENTS[key] for key in argument if key in _ARGUMENTS), name)
    successor = PRIORITIES.get(kind)
    if successor is None:
        made.notes.append(f"the priority `{name}` is left out: kube-scheduler never had it")
        return ()
    made.notes.append(_replaced("priority", name, successor))
    weight = weight_of(given) or 1
    if successor.strategy:
        before = made.points.get("score", {}).get("enabled", {}).get(_FIT, {})
        if weight_of(before) >= weight:
            made.notes.append(f"`{name}` is left out: {_FIT} has one strategy, the heavier one")
            return successor.plugins
        ratio = mapping(argument, "requestedToCapacityRatioArguments")
        made.arguments[_FIT] = {"scoringStrategy": _strategy(successor, ratio)}
    for new in successor.plugins:
        made.put("score", "enabled", new, weight)
    return successor.plugins
