"""Fields of a KubeSchedulerConfiguration v1 and of a Policy v1, and their types.

kube-scheduler refuses to start with an unknown field of its configuration, or with a wrong type in
either of the two.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from policies.documents import join

# The name of a type, the fields of a mapping, or the shape of the items of a list.
Shape = str | Mapping[str, "Shape"] | Sequence["Shape"]

_ANY = "anything"
_TEXT = "a text"
_FLAG = "`true` or `false`"
_WHOLE = "a whole number"
_NUMBER = "a number"
_TIME = "a duration"
_NANOSECONDS = "a number of nanoseconds"
_BASE64 = "a text in base64"

# The syntax of Go's time.ParseDuration, which has no days and weeks.
_GO_DURATION = re.compile(r"[+-]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)")
_HINTS = {
    _TEXT: "put it in quotes",
    _FLAG: "write it without quotes",
    _WHOLE: "write it without quotes and decimals",
    _NUMBER: "write it without quotes",
    _TIME: "write a number with a unit, as in `5s`",
    _NANOSECONDS: "five seconds are `5000000000` in a Policy",
    _BASE64: "`base64 -w0 FILE` writes it, and so does `placet scheduler-config --ca FILE`",
}

_DOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_EXTENDED = re.compile(
    rf"(?!requests\.)(?=[^/]{{1,244}}/){_DOMAIN}/[A-Za-z0-9]([-\w.]*[A-Za-z0-9])?"
)

_EXTENDER: Mapping[str, Shape] = {
    "urlPrefix": _TEXT,
    "filterVerb": _TEXT,
    "preemptVerb": _TEXT,
    "prioritizeVerb": _TEXT,
    "weight": _WHOLE,
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
_PLUGINS = {
    point: {
        "enabled": [{"name": _TEXT, "weight": _WHOLE}],
        "disabled": [{"name": _TEXT, "weight": _WHOLE}],
    }
    for point in (
        "preEnqueue queueSort preFilter filter postFilter preScore score reserve permit preBind "
        "bind postBind multiPoint placementGenerate placementScore"
    ).split()
}
_CONFIGURATION: Mapping[str, Shape] = {
    "apiVersion": _TEXT,
    "kind": _TEXT,
    "parallelism": _WHOLE,
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
        "burst": _WHOLE,
    },
    "enableProfiling": _FLAG,
    "enableContentionProfiling": _FLAG,
    "percentageOfNodesToScore": _WHOLE,
    "podInitialBackoffSeconds": _WHOLE,
    "podMaxBackoffSeconds": _WHOLE,
    "profiles": [
        {
            "schedulerName": _TEXT,
            "percentageOfNodesToScore": _WHOLE,
            "plugins": _PLUGINS,
            "pluginConfig": [{"name": _TEXT, "args": _ANY}],
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
    "hardPodAffinitySymmetricWeight": _WHOLE,
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
        if not isinstance(shape, str | Mapping) and isinstance(value, list):
            return [kept(each, shape[0], f"{path}[{i}]") for i, each in enumerate(value)]
        return value

    return kept(value, _CONFIGURATION, ""), dropped


def is_extended(name: str) -> bool:
    """Whether an extender can manage a resource of this name (C10)."""
    last = name.partition("/")[2]
    extended = _EXTENDED.fullmatch(name) is not None
    return extended and "kubernetes.io/" not in name and len(last) <= 63


def mistyped(value: Any, *, legacy: bool) -> Iterator[tuple[str, str, str]]:
    """The path of each value of a wrong type, with the right type and a hint."""
    for path, inner, shape in _walk(
        value, _POLICY if legacy else _CONFIGURATION, "", legacy=legacy
    ):
        if not isinstance(shape, _Unknown) and not _fits(inner, shape):
            kind = "a mapping of fields" if isinstance(shape, Mapping) else "a list"
            wanted = shape if isinstance(shape, str) else kind
            yield path, wanted, _HINTS.get(wanted, "see `placet scheduler-config`")


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
    yield path, value, shape
    if isinstance(shape, Mapping) and isinstance(value, dict):
        inside = {name.lower() if legacy else name: inner for name, inner in shape.items()}
        for name, inner in value.items():
            place, field = join(path, name), inside.get(name.lower() if legacy else name)
            if field is None:
                yield place, inner, _Unknown(name, tuple(shape))
            else:
                yield from _walk(inner, field, place, legacy=legacy)
    elif not isinstance(shape, str | Mapping) and isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _walk(inner, shape[0], f"{path}[{index}]", legacy=legacy)


def _fits(value: Any, shape: Shape) -> bool:
    if shape == _TIME:
        # Elsewhere null counts as zero.
        return isinstance(value, str) and _GO_DURATION.fullmatch(value) is not None
    if value is None or shape == _ANY:
        return True
    if isinstance(shape, Mapping):
        return isinstance(value, dict)
    if not isinstance(shape, str):
        return isinstance(value, list)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if shape in (_WHOLE, _NANOSECONDS):
        return number and (isinstance(value, int) or value.is_integer())
    if shape == _NUMBER:
        return number
    if shape == _FLAG:
        return isinstance(value, bool)
    return isinstance(value, str) and (shape != _BASE64 or _is_base64(value))


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode("".join(text.split("\n")), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True
