"""Generated configurations of kube-scheduler: each is sound, or a little changed from a sound one.

`Generator.configuration` gives the text of a file. What kube-scheduler makes of it is not known
here: kube-scheduler itself is asked.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import trustme
import yaml

from tests.support.scheduler_configs import OTHER, OURS, configuration

Json = dict[str, Any]

PLUGINS = (
    "SchedulingGates PrioritySort NodeUnschedulable NodeName TaintToleration NodeAffinity "
    "NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone "
    "PodTopologySpread InterPodAffinity DynamicResources DefaultPreemption ImageLocality "
    "NodeResourcesBalancedAllocation DefaultBinder NodeDeclaredFeatures GangScheduling "
    "TopologyPlacementGenerator PodGroupPodsCount"
).split()
_STRANGE = (
    "NodeResourcesLeastAllocated NodeResourcesMostAllocated SelectorSpread NodeLabel EBSLimits "
    "CinderLimits Coscheduling NodeResourceFit * ServiceAffinity NodeResourcesFitArgs"
).split()
POINTS = (
    "multiPoint preEnqueue queueSort preFilter filter postFilter preScore score reserve permit "
    "preBind bind postBind placementGenerate placementScore"
).split()
_SCORES = "NodeResourcesFit ImageLocality TaintToleration NodeAffinity InterPodAffinity".split()


@dataclass(frozen=True, slots=True)
class Certificates:
    """Authorities, certificates and keys in base64; the last of the keys is another one's."""

    ca: str
    certificate: str
    key: str
    other_key: str

    @classmethod
    def new(cls) -> Certificates:
        authority = trustme.CA()
        first, second = (authority.issue_cert(name) for name in ("a", "b"))
        pems = (authority.cert_pem, first.cert_chain_pems[0], first.private_key_pem)
        return cls(*(_base64(pem.bytes()) for pem in (*pems, second.private_key_pem)))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


class Generator:
    """Configurations from one seed."""

    def __init__(self, seed: int, certificates: Certificates) -> None:
        self._random = Random(seed)
        self._certificates = certificates
        self._changes: tuple[Callable[[Json], None], ...] = (
            *(self._plugin, self._plugin, self._plugin, self._arguments, self._arguments),
            *(self._arguments, self._extender, self._extender, self._number, self._number),
            *(self._election, self._names, self._queue, self._misspelled, self._tls, self._null),
            *(self._wrong_type, self._version),
        )

    def configuration(self) -> str:
        """The text of a file with up to three changes."""
        made = self._sound()
        for _ in range(self._random.choice((0, 1, 1, 1, 2, 2, 3))):
            self._one_of(self._changes)(made)
        return self._text(made)

    def _one_of(self, values: Any) -> Any:
        return self._random.choice(values)

    def _often(self, likely: float = 0.5) -> bool:
        return self._random.random() < likely

    def _sound(self) -> Json:
        made = configuration(*self._one_of(([OURS], [OTHER, OURS], [dict(OURS)])))
        names = self._random.sample(
            ["default-scheduler", "batch", "gpu"], self._one_of((0, 1, 1, 2))
        )
        if names:
            made["profiles"] = [{"schedulerName": name} for name in names]
            made["leaderElection"] = {"resourceName": "mine"}
        if self._often():
            made["parallelism"] = self._random.randint(1, 32)
        if names and self._often():
            score = self._random.sample(_SCORES, 2)
            lists = {
                "disabled": [{"name": "*"}],
                "enabled": [{"name": n, "weight": 2} for n in score],
            }
            made["profiles"][0]["plugins"] = {"score": lists}
        if names and self._often():
            strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 5}]}
            args = {"scoringStrategy": strategy}
            made["profiles"][-1]["pluginConfig"] = [{"name": "NodeResourcesFit", "args": args}]
        return json.loads(json.dumps(made))  # type: ignore[no-any-return]

    def _profiles(self, made: Json) -> list[Json]:
        profiles = made.get("profiles")
        if not isinstance(profiles, list) or not profiles:
            profiles = made["profiles"] = [{}]
        return [each for each in profiles if isinstance(each, dict)]

    def _profile(self, made: Json) -> Json:
        found = self._one_of(self._profiles(made) or [{}])
        assert isinstance(found, dict)
        return found

    # ---- plugins

    def _plugin(self, made: Json) -> None:
        plugins = _inside(self._profile(made), "plugins")
        point = self._one_of(POINTS)
        for _ in range(self._one_of((1, 1, 2))):
            kind = self._one_of(("enabled", "enabled", "disabled"))
            names = PLUGINS if self._often(0.85) else _STRANGE
            entry: Json = {"name": self._one_of(names)}
            if kind == "disabled" and self._often(0.3):
                entry["name"] = "*"
            if self._often(0.3):
                entry["weight"] = self._one_of((0, 1, 5, 100, -1, -7, 2**31 - 1))
            lists = _inside(plugins, point)
            listed = lists.get(kind)
            lists[kind] = [*(listed if isinstance(listed, list) else []), entry]

    def _queue(self, made: Json) -> None:
        lists: Json = {}
        for kind in ("enabled", "disabled"):
            if self._often():
                lists[kind] = [{"name": self._one_of(("PrioritySort", "PrioritySort", "*"))}]
        profiles = self._profiles(made)
        for profile in profiles if self._often() else profiles[:1]:
            _inside(profile, "plugins")["queueSort"] = lists

    # ---- arguments

    def _arguments(self, made: Json) -> None:
        name, args = self._one_of(
            (
                ("DefaultPreemption", self._preemption),
                ("DynamicResources", self._timeouts),
                ("InterPodAffinity", self._pods),
                ("NodeAffinity", self._affinity),
                ("NodeResourcesBalancedAllocation", self._balance),
                ("NodeResourcesFit", self._fit),
                ("PodTopologySpread", self._spread),
                ("VolumeBinding", self._volumes),
                (self._one_of((*_STRANGE, "PrioritySort", "NodeName")), self._anything),
            )
        )
        item: Json = {"name": name, "args": args()}
        if self._often(0.1):
            item["args"] = self._one_of((None, {}, [], "text", 5))
        if isinstance(item["args"], dict) and self._often(0.15):
            item["args"]["kind"] = f"{self._one_of((name, name, 'NodeAffinity'))}Args"
            version = self._one_of(("v1", "v1", "v1beta3"))
            item["args"]["apiVersion"] = f"kubescheduler.config.k8s.io/{version}"
        if isinstance(item["args"], dict) and self._often(0.08):
            item["args"]["hardPodAffinityWeights"] = 1
        config = self._profile(made).setdefault("pluginConfig", [])
        if not isinstance(config, list):
            return
        if self._often(0.08):
            config += [{"name": name}, {"args": item["args"]}]
        else:
            config.append(item)

    def _some(self, **choices: Any) -> Json:
        return {name: self._one_of(values) for name, values in choices.items() if self._often(0.7)}

    def _preemption(self) -> Json:
        return self._some(
            minCandidateNodesPercentage=(0, 0, 10, 100, 101, -1),
            minCandidateNodesAbsolute=(0, 0, 100, -5, None),
        )

    def _timeouts(self) -> Json:
        return self._some(
            filterTimeout=("10s", "0s", "-1s", None, "5"),
            bindingTimeout=("600s", "1s", "999ms", "0s", None),
        )

    def _pods(self) -> Json:
        return self._some(
            hardPodAffinityWeight=(0, 1, 100, 101, -1, "1"),
            ignorePreferredTermsOfExistingPods=(True, False, None, "yes"),
        )

    def _volumes(self) -> Json:
        return self._some(bindTimeoutSeconds=(0, 60, 600, -1, 1.5), shape=(None, None, []))

    def _balance(self) -> Json:
        return {"resources": [self._resource((0, 1, 1, 2)) for _ in range(self._one_of((0, 1, 2)))]}

    def _resource(self, weights: tuple[int, ...]) -> Json:
        named = {"name": self._one_of(("cpu", "memory", "example.com/gpu"))}
        return {**named, **self._some(weight=weights)}

    def _fit(self) -> Json:
        types = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
        strategy: Json = {"type": self._one_of(types if self._often(0.85) else ("Most", "", None))}
        if self._often():
            strategy["resources"] = [self._resource((0, 1, 5, 100, 101, -1)) for _ in range(2)]
        if (strategy["type"] == types[2]) == self._often(0.85):
            curve = [self._some(utilization=(0, 30), score=(0, 5, 10, 11)), {"utilization": 100}]
            shape = self._one_of((curve, curve, curve[::-1], [], [{"utilization": 101}]))
            strategy["requestedToCapacityRatio"] = {"shape": shape}
        return {
            **self._some(
                ignoredResources=(["example.com/gpu"], ["a b"], [], ["cpu"], [""]),
                ignoredResourceGroups=(["example.com"], ["a/b"], []),
            ),
            "scoringStrategy": self._one_of((strategy, strategy, strategy, None, {})),
        }

    def _spread(self) -> Json:
        def constraint() -> Json:
            found = {
                "maxSkew": self._one_of((1, 1, 1, 2, 0, -1)),
                "topologyKey": self._one_of(("zone", "kubernetes.io/hostname", "a b", "")),
                "whenUnsatisfiable": self._one_of(("DoNotSchedule", "ScheduleAnyway", "Never")),
                "labelSelector": self._one_of((None, None, None, {})),
            }
            return found if self._often(0.3) else _without_strange(found)

        return {
            **self._some(defaultingType=("List", "List", "System", "Lists", "")),
            "defaultConstraints": [constraint() for _ in range(self._one_of((0, 1, 1, 2)))],
        }

    def _affinity(self) -> Json:
        def term() -> Json:
            values = self._one_of((["a"], ["5"], ["a", "b"], [], ["a b"], [""]))
            operators = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "in")
            found: Json = {"key": self._one_of(("zone", "zone", "a b")), "values": values}
            found["operator"] = self._one_of(operators)
            if found["operator"] in ("Exists", "DoesNotExist") and self._often():
                del found["values"]
            if self._often(0.2):
                return {"matchFields": [found | {"key": "metadata.name"}]}
            return {"matchExpressions": [found]} if self._often(0.9) else {}

        required = {"nodeSelectorTerms": [term() for _ in range(self._one_of((0, 1, 1, 2)))]}
        preferred = [{"weight": self._one_of((0, 1, 50)), "preference": term()}]
        return {
            "addedAffinity": self._some(
                requiredDuringSchedulingIgnoredDuringExecution=(required, required, None),
                preferredDuringSchedulingIgnoredDuringExecution=(preferred, [], None),
            )
        }

    def _anything(self) -> Json:
        return self._some(a=(1, 2), b=("x", None))

    # ---- the other fields

    def _extender(self, made: Json) -> None:
        entry = self._entry(made)
        resources = [
            {"name": self._one_of(("a.b/c", "a.b/d", "cpu", "x.kubernetes.io/c", "a/b/c"))}
            for _ in range(self._one_of((1, 1, 2)))
        ]
        if self._often(0.3):
            resources[0]["ignoredByScheduler"] = True
        changes: Json = {
            "weight": self._one_of((1, 0, -1, 2**63 - 1, 2**63, "1", 2.5, None)),
            "prioritizeVerb": self._one_of(("prioritize", "")),
            "bindVerb": self._one_of(("bind", "")),
            "urlPrefix": self._one_of(("", "127.0.0.1", "http://[", "https://a:1/b?c", None)),
            "httpTimeout": self._one_of(("1s", "1m30s", "-1s", "1", 5, "", None, "0", "1.5h")),
            "managedResources": resources,
            "ignorable": self._one_of((True, "false", None, 0)),
            "nodeCacheCapable": self._one_of((False, None)),
        }
        name = self._one_of(tuple(changes))
        entry[name] = changes[name]

    def _entry(self, made: Json) -> Json:
        extenders = made.get("extenders")
        if not isinstance(extenders, list) or not extenders:
            return {}
        found = self._one_of(extenders)
        return found if isinstance(found, dict) else {}

    def _tls(self, made: Json) -> None:
        known = self._certificates
        junk = _base64(b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
        given = self._some(
            caData=(known.ca, known.ca, known.key, junk, _base64(b"x"), "!"),
            certData=(known.certificate, known.certificate, known.ca, junk),
            keyData=(known.key, known.key, known.other_key, known.certificate),
            insecure=(True, False, False, None),
            serverName=("placet", 5),
            caFile=("/nowhere/ca.crt", ""),
        )
        entry = self._entry(made)
        entry.update({"tlsConfig": given, "urlPrefix": "https://127.0.0.1:12345/api/scheduler"})
        entry["enableHTTPS"] = self._often()

    def _number(self, made: Json) -> None:
        name, values = self._one_of(
            (
                ("parallelism", (1, 0, -1, 2**31 - 1, 2**31, "8", None, 8.0, 8.5)),
                ("podInitialBackoffSeconds", (0, 1, 5, 10, 11, -1, None)),
                ("podMaxBackoffSeconds", (0, 1, 9, 10, 300, None)),
                ("percentageOfNodesToScore", (100, 101, -1, "100")),
                ("enableProfiling", (True, False, None, "true")),
                ("delayCacheUntilActive", (True, None, 1)),
                ("clientConnection", ({"burst": -1}, {"qps": 1e40}, {"qps": "5"}, {"qps": 50.5})),
            )
        )
        made[name] = self._one_of(values)

    def _election(self, made: Json) -> None:
        made["leaderElection"] = {
            "resourceName": "mine",
            **self._some(
                leaderElect=(True, False, None),
                leaseDuration=("15s", "10s", "0s", "-5s", "30s", 15),
                # One that is too short is refused after the start, which no test waits for.
                renewDeadline=("10s", "14s", "15s", "0s"),
                retryPeriod=("2s", "1s", "0s", "-1s", None),
                resourceLock=("leases", "endpoints", ""),
            ),
        }

    def _names(self, made: Json) -> None:
        names = self._one_of((["a", "a"], ["a", None], ["", "a"], [None], [""], ["a", "b"], []))
        profiles = [{} if name is None else {"schedulerName": name} for name in names]
        made |= {"profiles": profiles, "leaderElection": {"resourceName": "mine"}}

    def _misspelled(self, made: Json) -> None:
        place = self._one_of((made, self._entry(made), self._profile(made)))
        for name in list(place)[:1] if self._often() else list(place)[-1:]:
            place[self._one_of((name.upper(), f"{name}s", name))] = place.pop(name)

    def _wrong_type(self, made: Json) -> None:
        place = self._one_of((made, self._entry(made), self._profile(made)))
        if place:
            place[self._one_of(tuple(place))] = self._one_of(({}, [], "x", 1, True, None))

    def _null(self, made: Json) -> None:
        place = self._one_of((made, self._entry(made), self._profile(made)))
        names = [name for name in place if name not in ("apiVersion", "kind")]
        if names:
            place[self._one_of(names)] = None

    def _version(self, made: Json) -> None:
        group = "kubescheduler.config.k8s.io"
        if self._often():
            made["apiVersion"] = self._one_of((f"{group}/v1beta3", f"{group}/v1", "v1", "", 1))
        else:
            made["kind"] = self._one_of(("KubeSchedulerConfig", "Policy", "", None))

    # ---- the text

    def _text(self, made: Json) -> str:
        if self._often(0.25):
            text = json.dumps(made, indent=self._one_of((None, 2)))
            return f"{text}\n# the end\n" if self._often(0.1) else text
        text = yaml.safe_dump(made, sort_keys=False, default_flow_style=self._often(0.05))
        head = self._one_of(("", "", "---\n", "# mine\n", "# mine\n---\n"))
        return f"{head}{text}"


def _inside(value: Json, name: str) -> Json:
    """Return a mapping in a mapping: a new one if there is none, a loose one for a wrong type."""
    found = value.setdefault(name, {})
    return found if isinstance(found, dict) else {}


def _without_strange(constraint: Json) -> Json:
    key, action = constraint["topologyKey"], constraint["whenUnsatisfiable"]
    return {
        "maxSkew": max(1, constraint["maxSkew"]),
        "topologyKey": key if key and " " not in key else "zone",
        "whenUnsatisfiable": action if action != "Never" else "ScheduleAnyway",
    }
