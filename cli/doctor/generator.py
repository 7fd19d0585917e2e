"""Generator of kube-scheduler configurations: YAML with the reasons for its values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# In the order of a scheduling cycle. Each is also the path of the verb at Placet.
VERBS = ("filter", "prioritize", "preempt", "bind")
# Those of them that `placet serve` has without `--bind`.
DEFAULT_VERBS = ("filter", "prioritize", "preempt")
# The namespace and name of the Lease of Placet's replicas: the default of `placet serve --lease`.
OUR_LEASE = ("kube-system", "placet")
# The URL of a Placet beside kube-scheduler.
OUR_URL = "http://127.0.0.1:12345/api/scheduler"
# The version of a configuration that every kube-scheduler reads with which Placet works.
GROUP = "kubescheduler.config.k8s.io"
VERSION = f"{GROUP}/v1"
KIND = "KubeSchedulerConfiguration"

Json = dict[str, Any]


def configuration(extenders: Sequence[Json], name: str = "", kubeconfig: str = "") -> Json:
    """A whole KubeSchedulerConfiguration. Empty texts mean kube-scheduler's defaults."""
    made: Json = {"apiVersion": VERSION, "kind": KIND}
    if kubeconfig:
        made["clientConnection"] = {"kubeconfig": kubeconfig}
    if name:
        made["leaderElection"] = {"leaderElect": True, "resourceName": own_lease(name)}
        made["profiles"] = [{"schedulerName": name}]
    return made | section(extenders)


def section(extenders: Sequence[Json]) -> Json:
    """The fields that an existing KubeSchedulerConfiguration needs for Placet."""
    return {"percentageOfNodesToScore": 100, "extenders": [*extenders]}


def with_bind_apart(extender: Json, timeout: str) -> list[Json]:
    """An extender without bind, if it has another verb, and an entry for bind with this timeout.

    That entry asks about every pod, because only one entry may name a managed resource.
    """
    shared = ("urlPrefix", "bindVerb", "enableHTTPS", "tlsConfig")
    apart = {name: extender[name] for name in shared if name in extender}
    main = {name: value for name, value in extender.items() if name != "bindVerb"}
    has_verbs = any(f"{verb}Verb" in main for verb in VERBS)
    return [*([main] * has_verbs), apart | {"httpTimeout": timeout, "ignorable": False}]


def own_lease(name: str, placets: tuple[str, str] | None = OUR_LEASE) -> str:
    """The name of the Lease of a second kube-scheduler whose pods have this `schedulerName`.

    `placets` is the namespace and name of the Lease of Placet's replicas.
    """
    # Whichever of the two holds a common Lease, the other one waits for ever.
    is_placets = name == OUR_LEASE[1] or (placets is not None and name == placets[1])
    return f"{name}-scheduler" if is_placets else name


# ---- YAML with reasons

_NO_CA = "without a CA kube-scheduler trusts any server"
# The reason for a field.
_REASONS: Mapping[str, str] = {
    "kubeconfig": "kube-scheduler ignores its flag --kubeconfig when it has --config",
    "resourceName": "a Lease of its own: with that of kube-scheduler it would wait forever",
    "percentageOfNodesToScore": "with less, Placet gets only a sample of the nodes if there are "
    "100 or more",
    "preemptVerb": "otherwise pods are evicted from nodes that are rejected afterwards",
    "bindVerb": "at most one extender may have it; needs `placet serve --bind`",
    "weight": "each of our 0 to 10 points counts 10 times this: 100, as a built-in plugin at most",
    "caData": _NO_CA,
    "caFile": _NO_CA,
    "serverName": "the name in Placet's certificate",
    "httpTimeout": "the same as `placet serve --http-timeout`, which answers in four fifths of it",
    "nodeCacheCapable": "with whole nodes, kube-scheduler 1.36 treats every node as idle when it "
    "scores",
    "managedResources": "pods that request none of these are scheduled without policies",
    "ignorable": "true would schedule pods without policies when Placet does not answer",
}
# The reasons in an entry for bind alone.
_OF_BIND: Mapping[str, str] = {
    **_REASONS,
    "bindVerb": "of every pod; at most one extender may have it; needs `placet serve --bind`",
    "httpTimeout": "longer than any policy has a binding wait; kube-scheduler goes on meanwhile",
    "ignorable": "true would bind pods whose wait ends in vain",
}
# Texts that need no quotes in any version of YAML.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*(:[A-Za-z0-9_./-]+)*|[0-9.]+m?[smh]")
_WORDS_OF_YAML = frozenset("y n yes no on off true false null".split())


def yaml_of(document: Json) -> str:
    """A document as YAML, with the reason above each field that has one."""
    return "".join(f"{line}\n" for line in _lines(document, _REASONS))


def _lines(fields: Json, reasons: Mapping[str, str]) -> Iterator[str]:
    for name, value in fields.items():
        if (why := reasons.get(name)) is not None:
            yield f"# {why}"
        yield f"{name}:" if isinstance(value, dict | list) else f"{name}: {_scalar(value)}"
        if isinstance(value, dict):
            yield from (f"  {line}" for line in _lines(value, reasons))
        for item in value if isinstance(value, list) else ():
            verbs = [each for each in item if each.endswith("Verb")]
            of_item = _OF_BIND if verbs == ["bindVerb"] else reasons
            first, *others = _lines(item, of_item)
            yield from (f"  - {first}", *(f"    {line}" for line in others))


def _scalar(value: object) -> str:
    is_text = isinstance(value, str) and _PLAIN.fullmatch(value) is not None
    text = str(value)
    return text if is_text and text.lower() not in _WORDS_OF_YAML else json.dumps(value)
