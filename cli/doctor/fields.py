"""Fields of a KubeSchedulerConfiguration v1 and of a Policy v1, and their types.

kube-scheduler refuses to start with an unknown field of its configuration, or with a wrong type in
either of the two.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from cli.doctor.plugins import MULTI_POINT, POINTS
from grammar.values.named_formats import is_qualified
from policies.documents import join


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number between two bounds, which are those of 32 bits if none are given."""

    low: int = -(2**31)
    high: int = 2**31 - 1

    def wanted(self, value: object) -> str:
        """What a wrong value is not."""
        if not _is_number(value) or value // 1 != value:
            return _WHOLE
        if self.high - self.low <= 100:
            return f"{_WHOLE} from {self.low} to {self.high}"
        return f"{_WHOLE} " + (
            f"of at least {self.low}" if value < self.low else f"of at most {self.high}"
        )


# The name of a type, a number's bounds, the fields of a mapping, the shape of the items of a list,
# or a function from a mapping to the shapes of its fields.
Shape = (
    str | Whole | Mapping[str, "Shape"] | Sequence["Shape"] | Callable[[Any], Mapping[str, "Shape"]]
)

_ANY = "anything"
_TEXT = "a text"
_FLAG = "`true` or `false`"
_WHOLE = "a whole number"
_NUMBER = "a number"
_TIME = "a duration"
_TIME_OR_NULL = "a duration or null"
_NANOSECONDS = "a number of nanoseconds"
_BASE64 = "a text in base64"
# The largest number of 32 bits with decimals.
_LARGEST_NUMBER = 3.4028235e38

# The syntax of Go's time.ParseDuration, which has no days and weeks.
_GO_DURATION = re.compile(r"[+-]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)")
_HINTS = {
    _TEXT: "put it in quotes",
    _FLAG: "write it without quotes",
    _WHOLE: "write it without quotes and decimals",
    _NUMBER: "write it without quotes",
    _TIME: "write a number with a unit, as in `5s`",
    _TIME_OR_NULL: "write a number with a unit, as in `5s`",
    _NANOSECONDS: "five seconds are `5000000000` in a Policy",
    _BASE64: "`base64 -w0 FILE` writes it, and so does `placet scheduler-config --ca FILE`",
}

_DOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_EXTENDED = re.compile(
    rf"(?!requests\.)(?=[^/]{{1,244}}/){_DOMAIN}/[A-Za-z0-9]([-\w.]*[A-Za-z0-9])?"
)

# A whole number of 64 bits.
_LONG = Whole(-(2**63), 2**63 - 1)

_EXTENDER: Mapping[str, Shape] = {
    "urlPrefix": _TEXT,
    "filterVerb": _TEXT,
    "preemptVerb": _TEXT,
    "prioritizeVerb": _TEXT,
    "weight": _LONG,
    "bindVerb": _TEXT,
    "enableHTTPS": _FLAG,
    "tlsConfig": {
        "insecure": _FLAG,
        "serverName": _TEXT,
        "certFile": _TEXT,
        "keyFile": _TEXT,
        "caFile": _TEXT,
        "certData": _BASE64,
        "keyData": _BASE64,
        "caData": _BASE64,
    },
    "httpTimeout": _TIME,
    "nodeCacheCapable": _FLAG,
    "managedResources": [{"name": _TEXT, "ignoredByScheduler": _FLAG}],
    "ignorable": _FLAG,
}
_PLUGIN_LIST: Shape = [{"name": _TEXT, "weight": Whole()}]
_PLUGINS: Mapping[str, Shape] = {
    point: {"enabled": _PLUGIN_LIST, "disabled": _PLUGIN_LIST} for point in (*POINTS, MULTI_POINT)
}
_REQUIREMENTS: Shape = [{"key": _TEXT, "operator": _TEXT, "values": [_TEXT]}]
_NODE_TERM: Shape = {"matchExpressions": _REQUIREMENTS, "matchFields": _REQUIREMENTS}
_RESOURCES: Shape = [{"name": _TEXT, "weight": _LONG}]
_CURVE: Shape = [{"utilization": Whole(0, 100), "score": Whole(0, 10)}]
_HEAD: Mapping[str, Shape] = {"apiVersion": _TEXT, "kind": _TEXT}
# The arguments of each plugin that has some.
ARGUMENTS: Mapping[str, Mapping[str, Shape]] = {
    "DefaultPreemption": {
        **_HEAD,
        "minCandidateNodesPercentage": Whole(0, 100),
        "minCandidateNodesAbsolute": Whole(0),
    },
    "DynamicResources": {
        **_HEAD,
        "filterTimeout": _TIME_OR_NULL,
        "bindingTimeout": _TIME_OR_NULL,
    },
    "InterPodAffinity": {
        **_HEAD,
        "hardPodAffinityWeight": Whole(0, 100),
        "ignorePreferredTermsOfExistingPods": _FLAG,
    },
    "NodeAffinity": {
        **_HEAD,
        "addedAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_NODE_TERM]},
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": Whole(), "preference": _NODE_TERM}
            ],
        },
    },
    "NodeResourcesBalancedAllocation": {**_HEAD, "resources": _RESOURCES},
    "NodeResourcesFit": {
        **_HEAD,
        "ignoredResources": [_TEXT],
        "ignoredResourceGroups": [_TEXT],
        "scoringStrategy": {
            "type": _TEXT,
            "resources": _RESOURCES,
            "requestedToCapacityRatio": {"shape": _CURVE},
        },
    },
    "PodTopologySpread": {
        **_HEAD,
        "defaultingType": _TEXT,
        "defaultConstraints": [
            {
                "maxSkew": Whole(),
                "topologyKey": _TEXT,
                "whenUnsatisfiable": _TEXT,
                "labelSelector": _ANY,
                "minDomains": Whole(),
                "nodeAffinityPolicy": _TEXT,
                "nodeTaintsPolicy": _TEXT,
                "matchLabelKeys": [_TEXT],
            }
        ],
    },
    "VolumeBinding": {
        **_HEAD,
        "bindTimeoutSeconds": Whole(0, 2**63 - 1),
        "shape": [{"utilization": Whole(), "score": Whole()}],
    },
}


def _plugin_config(value: Any) -> Mapping[str, Shape]:
    """The fields of an item of `pluginConfig`, whose arguments depend on its name."""
    name = value.get("name")
    return {"name": _TEXT, "args": ARGUMENTS.get(name if isinstance(name, str) else "", _ANY)}


_CONFIGURATION: Mapping[str, Shape] = {
    "apiVersion": _TEXT,
    "kind": _TEXT,
    "parallelism": Whole(1),
    "leaderElection": {
        "leaderElect": _FLAG,
        "leaseDuration": _TIME,
        "renewDeadline": _TIME,
        "retryPeriod": _TIME,
        "resourceLock": _TEXT,
        "resourceName": _TEXT,
        "resourceNamespace": _TEXT,
    },
    "clientConnection": {
        "kubeconfig": _TEXT,
        "acceptContentTypes": _TEXT,
        "contentType": _TEXT,
        "qps": _NUMBER,
        "burst": Whole(0),
    },
    "enableProfiling": _FLAG,
    "enableContentionProfiling": _FLAG,
    "percentageOfNodesToScore": Whole(),
    "podInitialBackoffSeconds": Whole(1, 2**63 - 1),
    "podMaxBackoffSeconds": _LONG,
    "profiles": [
        {
            "schedulerName": _TEXT,
            "percentageOfNodesToScore": Whole(),
            "plugins": _PLUGINS,
            "pluginConfig": [_plugin_config],
        }
    ],
    "extenders": [_EXTENDER],
    "delayCacheUntilActive": _FLAG,
}
# Policy v1 writes `enableHttps`, and durations as nanoseconds.
_POLICY_EXTENDER: Mapping[str, Shape] = {
    **{name: shape for name, shape in _EXTENDER.items() if name != "enableHTTPS"},
    "enableHttps": _FLAG,
    "httpTimeout": _NANOSECONDS,
}
_POLICY: Mapping[str, Shape] = {
    "apiVersion": _TEXT,
    "kind": _TEXT,
    "predicates": _ANY,
    "priorities": _ANY,
    "extenders": [_POLICY_EXTENDER],
    "hardPodAffinitySymmetricWeight": Whole(),
    "alwaysCheckAllPredicates": _FLAG,
}


def unknown(value: Any, *, legacy: bool) -> Iterator[tuple[str, str, Sequence[str]]]:
    """The path and name of each unknown field, with the known names beside it."""
    for path, _, shape in _walk(value, _POLICY if legacy else _CONFIGURATION, "", legacy=legacy):
        if isinstance(shape, _Unknown):
            yield path, shape.name, shape.known


def known(value: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The value with known fields of a KubeSchedulerConfiguration only, and the other paths.

    A name that differs only in its case is corrected.
    """
    dropped: list[str] = []

    def kept(value: Any, shape: Shape, path: str) -> Any:
        shape = _of(shape, value)
        if isinstance(shape, Mapping) and isinstance(value, dict):
            names = {name.lower(): name for name in shape}
            found = {}
            for name, inner in value.items():
                right = name if name in shape else names.get(str(name).lower())
                if right is None:
                    dropped.append(join(path, name))
                elif inner is not None:
                    found[right] = kept(inner, shape[right], join(path, right))
            return found
        if isinstance(shape, list) and isinstance(value, list):
            return [kept(each, shape[0], f"{path}[{i}]") for i, each in enumerate(value)]
        return value

    return kept(value, _CONFIGURATION, ""), dropped


def is_extended(name: str) -> bool:
    """Whether an extender can manage a resource of this name (C10)."""
    extended = _EXTENDED.fullmatch(name) is not None
    return extended and is_qualified(name) and "kubernetes.io/" not in name


def mistyped(value: Any, *, legacy: bool, is_json: bool) -> Iterator[tuple[str, str, str]]:
    """The path of each value of a wrong type, with the right type and a hint.

    In JSON a whole number has no decimals.
    """
    for path, inner, shape in _walk(
        value, _POLICY if legacy else _CONFIGURATION, "", legacy=legacy
    ):
        if isinstance(shape, _Unknown) or _fits(inner, shape, is_json=is_json):
            continue
        if isinstance(shape, Whole):
            wanted = shape.wanted(inner)
            hint = _HINTS[_WHOLE] if wanted == _WHOLE else "leave it out, or write such a number"
        else:
            kind = "a mapping of fields" if isinstance(shape, Mapping) else "a list"
            wanted = shape if isinstance(shape, str) else kind
            hint = _HINTS.get(wanted, "see `placet scheduler-config`")
        yield path, wanted, hint


@dataclass(frozen=True, slots=True)
class _Unknown:
    """The shape of an unknown field: its name, and the known names beside it."""

    name: str
    known: tuple[str, ...]


def _walk(
    value: Any, shape: Shape, path: str, *, legacy: bool
) -> Iterator[tuple[str, Any, Shape | _Unknown]]:
    """Path, value and shape of a value and of everything in it.

    Field names of a Policy are case-insensitive.
    """
    shape = _of(shape, value)
    yield path, value, shape
    if isinstance(shape, Mapping) and isinstance(value, dict):
        inside = {name.lower() if legacy else name: inner for name, inner in shape.items()}
        for name, inner in value.items():
            place, field = join(path, name), inside.get(name.lower() if legacy else name)
            if field is None:
                yield place, inner, _Unknown(name, tuple(shape))
            else:
                yield from _walk(inner, field, place, legacy=legacy)
    elif isinstance(shape, list) and isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _walk(inner, shape[0], f"{path}[{index}]", legacy=legacy)


def _of(shape: Shape, value: Any) -> Shape:
    """The shape for a value."""
    if callable(shape):
        return shape(value if isinstance(value, dict) else {})
    return shape


def _fits(value: Any, shape: Shape, *, is_json: bool) -> bool:
    if shape == _TIME:
        # Elsewhere null counts as zero.
        return isinstance(value, str) and _GO_DURATION.fullmatch(value) is not None
    if value is None or shape == _ANY:
        return True
    if isinstance(shape, Mapping):
        return isinstance(value, dict)
    if isinstance(shape, Whole):
        whole = isinstance(value, int) or (
            not is_json and _is_number(value) and value == value // 1
        )
        return whole and not isinstance(value, bool) and shape.low <= value <= shape.high
    if not isinstance(shape, str):
        return isinstance(value, list)
    if shape == _NANOSECONDS:
        return _is_number(value) and (isinstance(value, int) or value.is_integer())
    if shape == _NUMBER:
        return _is_number(value) and abs(value) <= _LARGEST_NUMBER
    if shape == _FLAG:
        return isinstance(value, bool)
    if not isinstance(value, str):
        return False
    if shape == _TIME_OR_NULL:
        return _GO_DURATION.fullmatch(value) is not None
    return shape != _BASE64 or _is_base64(value)


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode("".join(text.split("\n")), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True
