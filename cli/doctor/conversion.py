"""Conversion: a KubeSchedulerConfiguration v1 from a Policy or from an older version.

The extenders are taken whole, and fields that version v1 has. Of a Policy priorities are mapped by
their names; its predicates are on in every profile. A note names everything else: it is not
converted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import yaml

from cli.doctor.configuration_text import SchedulerConfiguration
from cli.doctor.extender import ExtenderEntry, is_extended, placets
from cli.doctor.generator import KIND, VERSION, Json
from cli.doctor.schema import ExtenderFields, SchemaReader
from engine.objects.api_types import mapping, mappings

_FIT = "NodeResourcesFit"
# The plugin of 1.36 that scores as each priority of a Policy did, and its strategy if it has some.
PRIORITIES: Mapping[str, str] = {
    "LeastRequestedPriority": f"{_FIT} LeastAllocated",
    "MostRequestedPriority": f"{_FIT} MostAllocated",
    "BalancedResourceAllocation": "NodeResourcesBalancedAllocation",
    "SelectorSpreadPriority": "PodTopologySpread",
    "ServiceSpreadingPriority": "PodTopologySpread",
    "EvenPodsSpreadPriority": "PodTopologySpread",
    "InterPodAffinityPriority": "InterPodAffinity",
    "NodeAffinityPriority": "NodeAffinity",
    "TaintTolerationPriority": "TaintToleration",
    "ImageLocalityPriority": "ImageLocality",
}
_WHY_UNBOUND = (
    "because `placet serve` binds no pod without `--bind`: to keep it, give the verb to `--verbs`"
)


@dataclass(frozen=True, slots=True)
class Conversion:
    """Conversion: a KubeSchedulerConfiguration v1, and a sentence for each difference."""

    document: Json
    notes: tuple[str, ...]

    @property
    def text(self) -> str:
        return yaml.safe_dump(self.document, sort_keys=False, width=100)


def convert(
    configuration: SchedulerConfiguration,
    new: Sequence[Json],
    *,
    url: str | None = None,
    binds: bool = False,
) -> Conversion:
    """The conversion of any configuration. `new` are its extenders if it has none at all.

    Only an extender with the `url` or with a URL of Placet is changed to what Placet needs. `binds`
    says whether Placet may bind pods.
    """
    notes = list[str]()
    known = _known(configuration, notes)
    entries = _extenders(known.get("extenders", []), url, notes, binds=binds)
    known["extenders"] = [each for each, _ in entries]
    is_placet = any(is_ours for _, is_ours in entries)
    if not entries:
        notes.append("it has no extenders: Placet is added")
        known["extenders"] = [*new]
    elif not is_placet:
        notes.append("no extender has a URL of Placet, so that of each stays as it is")
    name = "percentageOfNodesToScore"
    parts = [each.get(name, known.get(name)) for each in mappings(known, "profiles") or [{}]]
    if (is_placet or not entries) and any(part != 100 for part in parts):
        notes.append("`percentageOfNodesToScore` is 100, so that Placet gets every node")
        known[name] = 100
        for profile in known.get("profiles", ()):
            profile.pop(name, None)
    if not any(known.get("profiles", ())):
        known.pop("profiles", None)
    return Conversion({"apiVersion": VERSION, "kind": KIND, **known}, tuple(dict.fromkeys(notes)))


def _known(configuration: SchedulerConfiguration, notes: list[str]) -> Json:
    """The fields of version v1 without `apiVersion` and `kind`."""
    value, legacy = configuration.value, configuration.legacy
    reader = SchemaReader(folded=True)
    known: Json = reader.document(value, is_policy=legacy)
    for each in reader.misread:
        why = f"it {each.message.removeprefix(f'`{each.path}` ')}"
        why = "there is no such field" if each.is_unknown else why
        notes.append(f"`{each.path}` is not converted: {why}")
    for name in ("apiVersion", "kind"):
        known.pop(name, None)
    version = value.get("apiVersion")
    if legacy:
        notes.append("kube-scheduler 1.23 and later do not read a Policy: it is a profile now")
        profile = _profile_of_policy(known, notes)
        return {"extenders": known.get("extenders", []), "profiles": [profile]}
    if version != VERSION:
        was = f"`{version}`" if version else "no `apiVersion`"
        notes.append(f"`apiVersion` is `{VERSION}`: it was {was}")
        if isinstance(own := value.get("schedulerName"), str) and "profiles" not in known:
            notes.append("`schedulerName` is that of a profile now")
            known["profiles"] = [{"schedulerName": own}]
        for place, profile in enumerate(known.get("profiles", ())):
            for name in ("plugins", "pluginConfig"):
                if profile.pop(name, None):
                    why = "the plugins of 1.36 are others"
                    notes.append(f"`profiles[{place}].{name}` is not converted: {why}")
    if (lock := mapping(known, "leaderElection").get("resourceLock")) not in (None, "leases"):
        notes.append(f"`resourceLock` is `leases`: `{lock}` no longer exists")
        known["leaderElection"]["resourceLock"] = "leases"
    return known


# ---- extenders


def _extenders(
    given: Sequence[Json], url: str | None, notes: list[str], *, binds: bool
) -> list[tuple[Json, bool]]:
    """The extenders, and whether each is Placet."""
    entries = ExtenderEntry.all_of(msgspec.convert(given, list[ExtenderFields]))
    ours, _ = placets(entries, url, by_url=True)
    made = [dict(each) for each in given]
    for fields, entry in zip(made, entries, strict=True):
        _correct(fields, entry, notes, is_ours=entry in ours)
    for entry in () if binds else ours:
        if made[entries.index(entry)].pop("bindVerb", None):
            name = f"the `bindVerb` of `{entry.url_prefix}` is left out"
            notes.append(f"{name}, {_WHY_UNBOUND}")
    return [
        (fields, entry in ours)
        for fields, entry in zip(made, entries, strict=True)
        if binds or not (entry in ours and entry.only_binds)
    ]


def _correct(made: Json, entry: ExtenderEntry, notes: list[str], *, is_ours: bool) -> None:
    """Gives an extender what kube-scheduler 1.36 and Placet need."""
    name = f"`{entry.url_prefix}`"
    if entry.prioritize_verb and entry.weight <= 0:
        made["weight"] = 10 if is_ours else 1
        notes.append(f"the `weight` of {name} is {made['weight']}: 0 is refused")
    resources = mappings(made, "managedResources")
    sound = [each for each in resources if is_extended(each.get("name", ""))]
    notes += (
        f"the managed resource `{each.get('name')}` of {name} is left out: it is not an extended "
        "resource, as `example.com/foo` is"
        for each in resources
        if each not in sound
    )
    if sound:
        made["managedResources"] = sound
    elif resources:
        del made["managedResources"]
        notes.append(f"{name} is called for every pod, because it manages no resource any more")
    if is_ours and not entry.only_binds and not entry.node_cache_capable:
        made["nodeCacheCapable"] = True
        notes.append(f"`nodeCacheCapable` of {name} is true: Placet has its own view of the nodes")


# ---- the profile of a Policy


def _profile_of_policy(known: Json, notes: list[str]) -> Json:
    """The profile with the scores of a Policy. Its predicates are on in every profile."""
    others = ("hardPodAffinitySymmetricWeight", "alwaysCheckAllPredicates")
    notes += (f"`{name}` is not converted" for name in others if known.get(name))
    if known.get("predicates") is not None:
        notes.append("the predicates are plugins that are on, also those that the Policy left out")
    notes += (
        f"the predicate `{each.get('name')}` is not converted"
        for each in mappings(known, "predicates")
        if each.get("argument")
    )
    if known.get("priorities") is None:
        return {}
    enabled: dict[str, Json] = {}
    most = False
    for each in sorted(mappings(known, "priorities"), key=_weight, reverse=True):
        name = str(each.get("name"))
        plugin, _, strategy = PRIORITIES.get(name, "").partition(" ")
        if each.get("argument") or not plugin:
            notes.append(f"the priority `{name}` is not converted")
        elif plugin in enabled:
            notes.append(f"the priority `{name}` is not converted: `{plugin}` is a heavier one")
        else:
            more = f" with the strategy {strategy}" if strategy else ""
            notes.append(f"the priority `{name}` is `{plugin}`{more}")
            enabled[plugin] = {"name": plugin, "weight": max(_weight(each), 1)}
            most = most or strategy == "MostAllocated"
    score = {"enabled": [*enabled.values()]} if enabled else {}
    profile: Json = {"plugins": {"score": score | {"disabled": [{"name": "*"}]}}}
    if most:
        resources = [{"name": name, "weight": 1} for name in ("cpu", "memory")]
        args = {"scoringStrategy": {"type": "MostAllocated", "resources": resources}}
        profile["pluginConfig"] = [{"name": _FIT, "args": args}]
    return profile


def _weight(priority: Json) -> int:
    found = priority.get("weight")
    return found if isinstance(found, int) else 0
