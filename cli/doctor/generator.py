"""Generator of kube-scheduler configurations: fields with their reasons, as YAML or JSON.

With the versions of the configuration that each kube-scheduler reads. Their source: the KEP-785 and
the pull requests kubernetes#104782, #117649 and #119994.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from grammar.values.time import SECOND, Duration

# In the order of a scheduling cycle. Each is also the path of the verb at Placet.
VERBS = ("filter", "prioritize", "preempt", "bind")
# Those of them that `placet serve` has without `--bind`.
DEFAULT_VERBS = ("filter", "prioritize", "preempt")
# The namespace and name of the Lease of Placet's replicas: the default of `placet serve --lease`.
OUR_LEASE = ("kube-system", "placet")
# The URL of a Placet beside kube-scheduler.
OUR_URL = "http://127.0.0.1:12345/api/scheduler"

GROUP = "kubescheduler.config.k8s.io"
# The version that Placet's own tests run, and whose fields the checks know.
KNOWN_MINOR = 36
# The last minor version that reads a Policy.
LAST_POLICY = 22
# The versions of the configuration, with the first and the last minor version that reads each.
_SERVED = {"v1": (25, 999), "v1beta3": (23, 28), "v1beta2": (22, 27), "v1beta1": (19, 22)}
_VERSION = re.compile(r"v?1\.([0-9]{1,3})(\.[0-9]+)?([-+].*)?")


def minor_version(text: str) -> int:
    """The minor version in `1.36`, `v1.36.4` or `v1.36.4-gke.1`. Raises ArgumentTypeError."""
    found = _VERSION.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"`{text}` is not a version such as 1.36")
    return int(found[1])


def api_versions(minor: int) -> tuple[str, ...]:
    """The values of `apiVersion` that a kube-scheduler reads, the newest first."""
    found = (name for name, (first, last) in _SERVED.items() if first <= minor <= last)
    return tuple(f"{GROUP}/{name}" for name in found)


@dataclass(frozen=True, slots=True)
class Reasoned:
    """A value of a field with the reason for it, which YAML has as a comment above the field."""

    value: Any
    why: str


# Fields by name. A value is a scalar, more fields, a list of fields, or one of these with a reason.
Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tls:
    """The `tlsConfig`: Placet's CA and kube-scheduler's certificate; each part may be None.

    Bytes are the content of a file, a text is its path on kube-scheduler's machine.
    """

    ca: bytes | str | None = None
    certificate: bytes | str | None = None
    key: bytes | str | None = None
    server_name: str = ""
    insecure: bool = False

    @property
    def fields(self) -> Fields:
        made: dict[str, Any] = {}
        if self.insecure:
            made["insecure"] = Reasoned(True, "trusts any server: for trials only")
        if self.server_name:
            made["serverName"] = Reasoned(self.server_name, "the name in Placet's certificate")
        for name, given in (("ca", self.ca), ("cert", self.certificate), ("key", self.key)):
            why = "without a CA kube-scheduler trusts any server" if name == "ca" else ""
            if given is not None:
                suffix = "Data" if isinstance(given, bytes) else "File"
                made[f"{name}{suffix}"] = Reasoned(given, why)
        return made


@dataclass(frozen=True, slots=True)
class Extender:
    """What kube-scheduler is told of Placet. With a `bind_timeout`, bind has an entry of its own.

    That entry asks about every pod, because only one entry may name a managed resource.
    """

    url: str
    verbs: tuple[str, ...] = DEFAULT_VERBS
    weight: int = 10
    http_timeout: Duration = Duration(5 * SECOND)  # noqa: RUF009 - it is immutable
    node_cache_capable: bool = True
    ignorable: bool = False
    tls: Tls = Tls()
    managed_resources: tuple[str, ...] = ()
    # More resources, which kube-scheduler itself ignores.
    ignored_resources: tuple[str, ...] = ()
    bind_timeout: Duration | None = None

    def binding(self, bind_timeout: Duration) -> Extender:
        """The same, with an entry for bind alone."""
        verbs = tuple(verb for verb in VERBS if verb in (*self.verbs, "bind"))
        return replace(self, verbs=verbs, bind_timeout=bind_timeout)

    @property
    def entries(self) -> list[Fields]:
        """Its entries of `extenders`."""
        if self.bind_timeout is None or "bind" not in self.verbs:
            return [self._entry(self.verbs)]
        verbs = tuple(verb for verb in self.verbs if verb != "bind")
        why = _WHY_EVERY if self._resources else _WHY_VERB["bind"]
        apart = {
            "urlPrefix": self.url,
            "bindVerb": Reasoned("bind", why),
            **self._connection,
            "httpTimeout": Reasoned(self.bind_timeout, _WHY_LONG),
            "ignorable": Reasoned(False, _WHY_HELD),
        }
        return [*([self._entry(verbs)] if verbs else []), apart]

    def _entry(self, verbs: tuple[str, ...]) -> Fields:
        made: dict[str, Any] = {"urlPrefix": self.url}
        made |= {f"{verb}Verb": Reasoned(verb, _WHY_VERB[verb]) for verb in verbs}
        if "prioritize" in verbs:
            made["weight"] = Reasoned(self.weight, _WHY_WEIGHT if self.weight == 10 else "")
        made |= self._connection
        made["httpTimeout"] = Reasoned(self.http_timeout, _WHY_TIMEOUT)
        why = _WHY_NAMES if self.node_cache_capable else _WHY_OBJECTS
        made["nodeCacheCapable"] = Reasoned(self.node_cache_capable, why)
        if self._resources:
            made["managedResources"] = Reasoned(self._resources, _WHY_MANAGED)
        why = _WHY_IGNORED if self.ignorable else _WHY_NEEDED
        made["ignorable"] = Reasoned(self.ignorable, why)
        return made

    @property
    def _connection(self) -> Fields:
        made: dict[str, Any] = {}
        if self.url.lower().startswith("https:"):
            made["enableHTTPS"] = True
        if self.tls.fields:
            made["tlsConfig"] = self.tls.fields
        return made

    @property
    def _resources(self) -> list[Fields]:
        ignored = Reasoned(True, "kube-scheduler no longer checks whether a node has enough of it")
        return [
            *({"name": name} for name in self.managed_resources),
            *({"name": name, "ignoredByScheduler": ignored} for name in self.ignored_resources),
        ]


def configuration(
    extender: Extender,
    name: str = "",
    kubeconfig: str = "",
    api_version: str = f"{GROUP}/v1",
) -> Fields:
    """A whole KubeSchedulerConfiguration. Empty texts mean kube-scheduler's defaults."""
    made: dict[str, Any] = {"apiVersion": api_version, "kind": "KubeSchedulerConfiguration"}
    if kubeconfig:
        why = "kube-scheduler ignores its flag --kubeconfig when it has --config"
        made["clientConnection"] = {"kubeconfig": Reasoned(kubeconfig, why)}
    if name:
        why = "a Lease of its own: with that of kube-scheduler it would wait forever"
        lease = Reasoned(own_lease(name), why)
        made["leaderElection"] = {"leaderElect": True, "resourceName": lease}
        made["profiles"] = [{"schedulerName": name}]
    return {**made, **section(extender)}


def own_lease(name: str, placets: tuple[str, str] | None = OUR_LEASE) -> str:
    """The name of the Lease of a second kube-scheduler whose pods have this `schedulerName`.

    `placets` is the namespace and name of the Lease of Placet's replicas.
    """
    # Whichever of the two holds a common Lease, the other one waits for ever.
    is_placets = name == OUR_LEASE[1] or (placets is not None and name == placets[1])
    return f"{name}-scheduler" if is_placets else name


def section(extender: Extender) -> Fields:
    """The fields that an existing KubeSchedulerConfiguration needs for Placet."""
    return {
        "percentageOfNodesToScore": Reasoned(100, _WHY_ALL),
        "extenders": extender.entries,
    }


def policy(extender: Extender) -> Fields:
    """The Policy that kube-scheduler read up to 1.22, in which one field has another name."""
    renamed = [
        {"enableHttps" if name == "enableHTTPS" else name: value for name, value in entry.items()}
        for entry in extender.entries
    ]
    return {"kind": "Policy", "apiVersion": "v1", "extenders": renamed}


_WHY_VERB = {
    "filter": "",
    "prioritize": "",
    "preempt": "otherwise pods are evicted from nodes that are rejected afterwards",
    "bind": "at most one extender may have it; needs `placet serve --bind`",
}
_WHY_TIMEOUT = "the same as `placet serve --http-timeout`, which answers in four fifths of it"
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


# ---- text: YAML with comments, and JSON for schedulers that read nothing else

# Texts that need no quotes in any version of YAML.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*(:[A-Za-z0-9_./-]+)*")
_WORDS_OF_YAML = frozenset("y n yes no on off true false null".split())


def yaml_text(fields: Fields) -> str:
    """YAML in block style; the reason for a field is a comment above it."""
    return "".join(f"{line}\n" for line in _lines(fields, ""))


def json_text(fields: Fields) -> str:
    """Indented JSON; durations are nanoseconds, as in a Policy."""
    return json.dumps(_plain(fields), indent=2) + "\n"


def _lines(fields: Fields, indent: str) -> Iterator[str]:
    for name, given in fields.items():
        value, why = (given.value, given.why) if isinstance(given, Reasoned) else (given, "")
        if why:
            yield f"{indent}# {why}"
        if isinstance(value, list):
            yield f"{indent}{name}:"
            for item in value:
                first, *others = _lines(item, f"{indent}    ")
                yield f"{indent}  - {first.strip()}"
                yield from others
        elif isinstance(value, Mapping):
            yield f"{indent}{name}:"
            yield from _lines(value, f"{indent}  ")
        else:
            yield f"{indent}{name}: {_scalar(value)}"


def _scalar(value: str | int | bytes | Duration) -> str:
    if isinstance(value, bytes | Duration):
        return str(value if isinstance(value, Duration) else _plain(value))
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS_OF_YAML:
        return value
    return json.dumps(value)


def _plain(value: Any) -> Any:
    match value:
        case Reasoned(inner):
            return _plain(inner)
        case Duration(nanos):
            return nanos
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case Mapping():
            return {name: _plain(inner) for name, inner in value.items()}
        case list():
            return [_plain(item) for item in value]
        case scalar:
            return scalar
