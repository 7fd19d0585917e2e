"""Generator of kube-scheduler configurations: YAML with the reasons for its values."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from grammar.values.time import SECOND, Duration

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


@dataclass(frozen=True, slots=True)
class Extender:
    """Extender as kube-scheduler is told of it. With a `bind_timeout`, bind has an entry apart.

    That entry asks about every pod, because only one entry may name a managed resource. `tls` has
    the fields of the `tlsConfig`: bytes are the content of a file, a text is its path on
    kube-scheduler's machine.
    """

    url: str
    verbs: tuple[str, ...] = DEFAULT_VERBS
    weight: int = 10
    http_timeout: Duration = Duration(5 * SECOND)  # noqa: RUF009 - it is immutable
    node_cache_capable: bool = True
    ignorable: bool = False
    tls: Mapping[str, bytes | str | bool] = field(default_factory=dict)
    managed_resources: tuple[str, ...] = ()
    # More resources, which kube-scheduler itself ignores.
    ignored_resources: tuple[str, ...] = ()
    bind_timeout: Duration | None = None

    def binding(self, bind_timeout: Duration) -> Extender:
        """The same, with an entry for bind alone."""
        verbs = tuple(verb for verb in VERBS if verb in (*self.verbs, "bind"))
        return replace(self, verbs=verbs, bind_timeout=bind_timeout)

    def lines(self) -> Iterator[str]:
        """Its entries of `extenders`."""
        if self.bind_timeout is None or "bind" not in self.verbs:
            yield from _item(self._entry(self.verbs))
            return
        if verbs := tuple(verb for verb in self.verbs if verb != "bind"):
            yield from _item(self._entry(verbs))
        yield from _item(self._bind_entry(self.bind_timeout))

    def _bind_entry(self, timeout: Duration) -> Iterator[str]:
        resources = self.managed_resources or self.ignored_resources
        yield from field_lines("urlPrefix", self.url)
        yield from field_lines("bindVerb", "bind", _WHY_EVERY if resources else _WHY_VERB["bind"])
        yield from self._connection()
        yield from field_lines("httpTimeout", timeout, _WHY_LONG)
        yield from field_lines("ignorable", False, _WHY_HELD)

    def _entry(self, verbs: tuple[str, ...]) -> Iterator[str]:
        yield from field_lines("urlPrefix", self.url)
        for verb in verbs:
            yield from field_lines(f"{verb}Verb", verb, _WHY_VERB[verb])
        if "prioritize" in verbs:
            yield from field_lines("weight", self.weight, _WHY_WEIGHT if self.weight == 10 else "")
        yield from self._connection()
        yield from field_lines("httpTimeout", self.http_timeout, _WHY_TIMEOUT)
        why = _WHY_NAMES if self.node_cache_capable else _WHY_OBJECTS
        yield from field_lines("nodeCacheCapable", self.node_cache_capable, why)
        resources = [_item(field_lines("name", name)) for name in self.managed_resources]
        for name in self.ignored_resources:
            ignored = field_lines("ignoredByScheduler", True, _WHY_UNCHECKED)
            resources.append(_item([*field_lines("name", name), *ignored]))
        if resources:
            yield from field_lines("managedResources", [*chain(*resources)], _WHY_MANAGED)
        why = _WHY_IGNORED if self.ignorable else _WHY_NEEDED
        yield from field_lines("ignorable", self.ignorable, why)

    def _connection(self) -> Iterator[str]:
        if self.url.lower().startswith("https:"):
            yield from field_lines("enableHTTPS", True)
        if self.tls:
            lines = (
                field_lines(name, each, _WHY_TLS.get(name, "")) for name, each in self.tls.items()
            )
            yield from field_lines("tlsConfig", [*chain(*lines)])


def configuration(extender: Extender, name: str = "", kubeconfig: str = "") -> str:
    """A whole KubeSchedulerConfiguration. Empty texts mean kube-scheduler's defaults."""
    made = [*field_lines("apiVersion", VERSION), *field_lines("kind", KIND)]
    if kubeconfig:
        why = "kube-scheduler ignores its flag --kubeconfig when it has --config"
        made += field_lines("clientConnection", field_lines("kubeconfig", kubeconfig, why))
    if name:
        why = "a Lease of its own: with that of kube-scheduler it would wait forever"
        lease = field_lines("resourceName", own_lease(name), why)
        made += field_lines("leaderElection", [*field_lines("leaderElect", True), *lease])
        made += field_lines("profiles", _item(field_lines("schedulerName", name)))
    return "".join(f"{line}\n" for line in made) + section(extender)


def section(extender: Extender) -> str:
    """The fields that an existing KubeSchedulerConfiguration needs for Placet."""
    made = field_lines("percentageOfNodesToScore", 100, _WHY_ALL)
    made += field_lines("extenders", [*extender.lines()])
    return "".join(f"{line}\n" for line in made)


def own_lease(name: str, placets: tuple[str, str] | None = OUR_LEASE) -> str:
    """The name of the Lease of a second kube-scheduler whose pods have this `schedulerName`.

    `placets` is the namespace and name of the Lease of Placet's replicas.
    """
    # Whichever of the two holds a common Lease, the other one waits for ever.
    is_placets = name == OUR_LEASE[1] or (placets is not None and name == placets[1])
    return f"{name}-scheduler" if is_placets else name


_WHY_VERB = {
    "filter": "",
    "prioritize": "",
    "preempt": "otherwise pods are evicted from nodes that are rejected afterwards",
    "bind": "at most one extender may have it; needs `placet serve --bind`",
}
_WHY_TLS = dict.fromkeys(("caData", "caFile"), "without a CA kube-scheduler trusts any server") | {
    "insecure": "trusts any server: for trials only",
    "serverName": "the name in Placet's certificate",
}
_WHY_TIMEOUT = "the same as `placet serve --http-timeout`, which answers in four fifths of it"
_WHY_UNCHECKED = "kube-scheduler no longer checks whether a node has enough of it"
_WHY_MANAGED = "pods that request none of these are scheduled without policies"
_WHY_EVERY = "of every pod: one entry alone may name a resource; needs `placet serve --bind`"
_WHY_LONG = "longer than any policy has a binding wait; kube-scheduler goes on meanwhile"
_WHY_HELD = "true would bind pods whose wait ends in vain"
_WHY_WEIGHT = "each of our 0 to 10 points counts 10 times this: 100, as a built-in plugin at most"
_WHY_ALL = "with less, Placet gets only a sample of the nodes if there are 100 or more"
_WHY_NAMES = "with whole nodes, kube-scheduler 1.36 treats every node as idle when it scores"
_WHY_OBJECTS = "whole nodes in requests: kube-scheduler 1.36 then treats every node as idle"
_WHY_NEEDED = "true would schedule pods without policies when Placet does not answer"
_WHY_IGNORED = "when Placet does not answer, pods are scheduled without policies"

# Texts that need no quotes in any version of YAML.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*(:[A-Za-z0-9_./-]+)*")
_WORDS_OF_YAML = frozenset("y n yes no on off true false null".split())


def field_lines(
    name: str, value: str | int | bytes | Duration | list[str], why: str = ""
) -> list[str]:
    """The lines of a field of YAML, with the reason above it. A list has the lines inside it."""
    comment = [f"# {why}"] if why else []
    match value:
        case list():
            return [*comment, f"{name}:", *(f"  {line}" for line in value)]
        case bytes():
            shown = base64.b64encode(value).decode("ascii")
        case Duration():
            shown = str(value)
        case str() if _PLAIN.fullmatch(value) and value.lower() not in _WORDS_OF_YAML:
            shown = value
        case _:
            shown = json.dumps(value)
    return [*comment, f"{name}: {shown}"]


def _item(lines: Iterable[str]) -> list[str]:
    first, *others = lines
    return [f"- {first}", *(f"  {line}" for line in others)]
