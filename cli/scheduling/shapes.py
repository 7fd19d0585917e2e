"""Which fields there are, and of which types: a KubeSchedulerConfiguration v1 and a Policy.

kube-scheduler refuses to start over a field that it does not know, and over a type that is wrong.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from cli.scheduling.configuration import Finding
from grammar.diagnostics import nearest
from policies.documents import join

# A type by what it is called, the fields of a mapping, or the shape of a list's items.
Shape = str | Mapping[str, "Shape"] | Sequence["Shape"]

_ANY = "anything"
_TEXT = "a text"
_FLAG = "`true` or `false`"
_WHOLE = "a whole number"
_NUMBER = "a number"
_TIME = "a length of time"
_NANOSECONDS = "a number of nanoseconds"
_BASE64 = "a text in base64"

# What Go's time.ParseDuration reads: no days and weeks.
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
# `https` was not yet written in capitals, and times were Go's own.
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


def unknown_fields(value: Any, *, legacy: bool) -> Iterator[Finding]:
    """Fields that there are not. A Policy is read in any case, and what is unknown is left out."""
    for path, name, known in _unknown(
        value, _POLICY if legacy else _CONFIGURATION, "", folded=legacy
    ):
        close = nearest(name, known)
        hint = f"a similar name exists: `{close}`" if close else "take it out"
        if legacy:
            yield Finding("warning", path, f"there is no field `{name}`: it has no effect", hint)
        else:
            message = f"there is no field `{name}`: kube-scheduler refuses to start"
            yield Finding("error", path, message, hint)


def wrong_types(value: Any, *, legacy: bool) -> Iterator[Finding]:
    """Values that kube-scheduler cannot read."""
    for path, wanted in _mistyped(value, _POLICY if legacy else _CONFIGURATION, "", folded=legacy):
        where = f"`{path}`" if path else "the configuration"
        message = f"{where} is not {wanted}: kube-scheduler refuses to start"
        yield Finding("error", path, message, _HINTS.get(wanted, "see `placet scheduler-config`"))


def _unknown(
    value: Any, shape: Shape, path: str, *, folded: bool
) -> Iterator[tuple[str, str, list[str]]]:
    """The path and name of each field that is not known, with the names that are."""
    for name, inner, place, inside in _inside(value, shape, path, folded=folded):
        if inside is None:
            yield place, name, list(cast("Mapping[str, Shape]", shape))
        else:
            yield from _unknown(inner, inside, place, folded=folded)


def _mistyped(value: Any, shape: Shape, path: str, *, folded: bool) -> Iterator[tuple[str, str]]:
    """The path of each value of a wrong type, with what it should be."""
    if not _fits(value, shape):
        yield path, shape if isinstance(shape, str) else _kind(shape)
        return
    for _, inner, place, inside in _inside(value, shape, path, folded=folded):
        if inside is not None:
            yield from _mistyped(inner, inside, place, folded=folded)


def _inside(
    value: Any, shape: Shape, path: str, *, folded: bool
) -> Iterator[tuple[str, Any, str, Shape | None]]:
    """What is in a mapping or a list: name, value, path, and shape; None for an unknown field."""
    if isinstance(shape, Mapping) and isinstance(value, dict):
        known = {name.lower(): inner for name, inner in shape.items()} if folded else shape
        for name, inner in value.items():
            yield name, inner, join(path, name), known.get(name.lower() if folded else name)
    elif not isinstance(shape, str | Mapping) and isinstance(value, list):
        for place, inner in enumerate(value):
            yield "", inner, f"{path}[{place}]", shape[0]


def _fits(value: Any, shape: Shape) -> bool:
    if shape == _TIME:
        # Everywhere else nothing is a zero.
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


def _kind(shape: Shape) -> str:
    return "a mapping of fields" if isinstance(shape, Mapping) else "a list"
