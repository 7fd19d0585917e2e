"""Configurations of kube-scheduler: one that is sound, and many with one thing wrong each.

What kube-scheduler makes of them is said here, tried end to end, and what `placet doctor` is tested
by: so the two agree.
"""

import base64
import json
from dataclasses import dataclass, replace
from typing import Any

Json = dict[str, Any]

OURS: Json = {
    "urlPrefix": "http://127.0.0.1:12345/api/scheduler",
    "filterVerb": "filter",
    "prioritizeVerb": "prioritize",
    "preemptVerb": "preempt",
    "weight": 10,
    "httpTimeout": "5s",
    "nodeCacheCapable": True,
    "ignorable": False,
}
# One of somebody else's, which does nothing that could be in the way.
OTHER: Json = {
    "urlPrefix": "http://127.0.0.1:9251",
    "prioritizeVerb": "score",
    "weight": 1,
    "nodeCacheCapable": True,
    "httpTimeout": "1s",
}
# Our other entry, where bindings wait.
BIND_APART: Json = {
    "urlPrefix": OURS["urlPrefix"],
    "bindVerb": "bind",
    "httpTimeout": "2m5s",
    "ignorable": False,
}
HTTPS: Json = {"urlPrefix": "https://127.0.0.1:12345/api/scheduler", "enableHTTPS": True}
PEM = base64.b64encode(b"-----BEGIN CERTIFICATE-----\n").decode()
NO_PEM = base64.b64encode(b"no PEM").decode()


def configuration(*extenders: Json, **fields: Any) -> Json:
    """Return a sound configuration with these extenders and fields."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "extenders": list(extenders or [OURS]),
    } | fields


def ours(*without: str, **fields: Any) -> Json:
    """Return our entry with these fields, and without those."""
    return {name: value for name, value in (OURS | fields).items() if name not in without}


@dataclass(frozen=True, slots=True)
class Wrong:
    """A configuration with one thing wrong. `refused` says that kube-scheduler does not start."""

    code: str
    place: str
    written: Json | str
    severity: str = "warning"
    refused: bool = False

    @property
    def text(self) -> str:
        """The file."""
        return self.written if isinstance(self.written, str) else json.dumps(self.written)

    @property
    def id(self) -> str:
        """A name for the test's log."""
        return f"{self.code} at {self.place}"


def whole(code: str, place: str, *extenders: Json, **fields: Any) -> Wrong:
    """Return a configuration that is wrong at a place."""
    return Wrong(code, place, configuration(*extenders, **fields))


def entry(code: str, field: str, *without: str, **fields: Any) -> Wrong:
    """Return one whose only extender is wrong at a field."""
    return Wrong(code, f"extenders[0].{field}", configuration(ours(*without, **fields)))


def resource(name: str, **fields: Any) -> Json:
    """Return a field that manages a resource."""
    return {"managedResources": [{"name": name, **fields}]}


def tls(**fields: Any) -> Json:
    """Return the fields of an extender with HTTPS."""
    return HTTPS | {"tlsConfig": fields}


def _without_timeout(entry: Json) -> Json:
    return {name: value for name, value in entry.items() if name != "httpTimeout"}


_REPEATED = json.dumps(configuration()).replace('"weight": 10', '"weight": 10, "weight": 9')
_SECOND = {"schedulerName": "second"}
_FILTERS = OTHER | {"filterVerb": "filter"}
_SILENT = OURS | {"filterVerb": ""}

# kube-scheduler does not start with any of these.
_REFUSED = [
    whole("version", "apiVersion", apiVersion="kubescheduler.config.k8s.io/v1beta3"),
    Wrong("version", "kind", {"extenders": [OURS], "percentageOfNodesToScore": 100}),
    entry("unknown-field", "wieght", wieght=1),
    entry("unknown-field", "enableHttps", enableHttps=False),
    entry("unknown-field", "tlsConfig.ca", **tls(insecure=True, ca="")),
    whole("unknown-field", "Extenders", Extenders=[]),
    Wrong("repeated-field", "extenders[0].weight", _REPEATED),
    entry("wrong-type", "weight", "prioritizeVerb", weight="10"),
    entry("wrong-type", "weight", weight=1.5),
    entry("wrong-type", "ignorable", ignorable="false"),
    entry("wrong-type", "httpTimeout", httpTimeout=5),
    entry("wrong-type", "httpTimeout", httpTimeout="5 s"),
    entry("wrong-type", "httpTimeout", httpTimeout="1d"),
    entry("wrong-type", "httpTimeout", httpTimeout="99999999999h"),
    entry("wrong-type", "httpTimeout", httpTimeout=None),
    entry("wrong-type", "preemptVerb", preemptVerb=5),
    entry("wrong-type", "tlsConfig", tlsConfig=[]),
    entry("wrong-type", "tlsConfig.caData", **tls(caData="!")),
    whole("wrong-type", "extenders", extenders={}),
    entry("weight", "weight", "weight"),
    entry("weight", "weight", weight=0),
    whole("weight", "extenders[1].weight", OURS, OTHER | {"weight": -1}),
    whole("two-binders", "extenders[1].bindVerb", ours(bindVerb="bind"), OTHER | {"bindVerb": "b"}),
    entry("resource-name", "managedResources[0].name", **resource("cpu")),
    entry("resource-name", "managedResources[0].name", **resource("")),
    entry("resource-name", "managedResources[0].name", **resource("-a.b/c")),
    entry("resource-name", "managedResources[0].name", **resource("requests.a.b/c")),
    entry("resource-name", "managedResources[0].name", **resource("x.kubernetes.io/c")),
    whole(
        "resource-name",
        "extenders[1].managedResources[0].name",
        ours(**resource("a.b/c")),
        OTHER | resource("a.b/c"),
    ),
    whole(
        "resource-name",
        "extenders[1].managedResources[0].name",
        ours(**resource("a.b/c")),
        BIND_APART | resource("a.b/c"),
    ),
    whole("two-binders", "extenders[1].bindVerb", ours(bindVerb="bind"), BIND_APART),
    entry("tls-conflict", "tlsConfig.insecure", **tls(insecure=True, caFile="/ca")),
    entry("no-certificate", "tlsConfig", **tls(caData=NO_PEM)),
    entry("no-certificate", "tlsConfig", **tls(insecure=True, certData=PEM, keyData=NO_PEM)),
    Wrong("text", "", json.dumps(configuration()) + "\n---\n"),
    Wrong("text", "", json.dumps(configuration())[:-1] + ",}"),
    entry("wrong-type", "weight", weight=2**63),
    whole("wrong-type", "parallelism", parallelism=0),
    whole("wrong-type", "parallelism", parallelism=8.0),
    whole("wrong-type", "podInitialBackoffSeconds", podInitialBackoffSeconds=0),
    whole("wrong-type", "clientConnection.burst", clientConnection={"burst": -1}),
    whole("sampled-nodes", "percentageOfNodesToScore", percentageOfNodesToScore=101),
    whole(
        "sampled-nodes",
        "profiles[0].percentageOfNodesToScore",
        profiles=[{"percentageOfNodesToScore": -1}],
    ),
]
# It starts, and calls cannot succeed.
_BROKEN = [
    whole(
        "placets-lease",
        "leaderElection.resourceName",
        profiles=[{"schedulerName": "placet"}],
        leaderElection={"resourceName": "placet"},
    ),
    whole("no-extender", "extenders", extenders=[]),
    whole("no-extender", "extenders", extenders=None),
    whole("no-extender", "extenders", OTHER),
    whole("no-extender", "extenders", OTHER, OTHER | {"urlPrefix": "http://[::1]:1"}),
    entry("url", "urlPrefix", urlPrefix="127.0.0.1:12345/api/scheduler"),
    entry("url", "urlPrefix", urlPrefix="http://placet:99999"),
    entry("url", "urlPrefix", urlPrefix="http://127.0.0.1:12345/api/scheduler?a=b"),
    entry("url", "urlPrefix", urlPrefix="http://127.0.0.1:12345/api/scheduler#a"),
    entry("url", "urlPrefix", urlPrefix="http://127.0.0.1:12345 /api/scheduler"),
    entry("no-ca", "tlsConfig", **HTTPS),
    whole("verb", "extenders[1].bindVerb", OURS, BIND_APART | {"bindVerb": "/bind"}),
    entry("no-encryption", "urlPrefix", enableHTTPS=True),
    entry("no-encryption", "urlPrefix", tlsConfig={"serverName": "placet"}),
    entry("timeout", "httpTimeout", httpTimeout="4999ms"),
    entry("timeout", "httpTimeout", httpTimeout="-5s"),
    entry("verb", "filterVerb", filterVerb="/filter"),
    entry("verb", "filterVerb", filterVerb="predicates"),
    entry("verb", "prioritizeVerb", prioritizeVerb="filter"),
    Wrong(
        "missing-verb",
        "extenders[0]",
        configuration(ours("filterVerb", "prioritizeVerb", "preemptVerb")),
    ),
]
# It works, and not as well as it could.
_WEAK = [
    entry("tls-conflict", "tlsConfig", **tls(insecure=True, certData=PEM)),
    whole("later-filter", "extenders[1]", OURS, _FILTERS),
    whole("later-filter", "extenders[0]", _FILTERS | {"ignorable": True}, OURS),
    whole("asked-twice", "extenders[2].urlPrefix", OTHER, _SILENT, _SILENT),
    whole("ignorable", "extenders[1].ignorable", OURS, BIND_APART | {"ignorable": True}),
    whole("timeout", "extenders[1].httpTimeout", OURS, _without_timeout(BIND_APART)),
    whole(
        "managed-resources",
        "extenders[1].managedResources",
        OURS,
        BIND_APART | resource("a.b/c"),
    ),
    whole(
        "managed-resources",
        "extenders[1].managedResources",
        OURS | resource("a.b/c"),
        BIND_APART,
    ),
    whole("sampled-nodes", "percentageOfNodesToScore", percentageOfNodesToScore=50),
    whole("sampled-nodes", "percentageOfNodesToScore", percentageOfNodesToScore=None),
    whole(
        "sampled-nodes",
        "profiles[0].percentageOfNodesToScore",
        profiles=[{"percentageOfNodesToScore": 0}],
    ),
    whole("shared-lease", "leaderElection.resourceName", profiles=[_SECOND]),
    entry("url", "urlPrefix", urlPrefix="http://127.0.0.1:12345/placet"),
    entry("url", "urlPrefix", urlPrefix="http://placet:"),
    entry("url", "urlPrefix", urlPrefix="http://127.0.0.1/api/scheduler"),
    entry("service-name", "urlPrefix", urlPrefix="http://placet.kube-system.svc:80"),
    entry("service-name", "urlPrefix", urlPrefix="http://placet:80"),
    entry("no-ca", "tlsConfig", **(HTTPS | {"enableHTTPS": False})),
    entry("no-ca", "tlsConfig.insecure", **tls(insecure=True)),
    entry("no-encryption", "urlPrefix", urlPrefix="http://10.0.0.1:12345"),
    entry("timeout", "httpTimeout", "httpTimeout"),
    entry("timeout", "httpTimeout", httpTimeout="5m"),
    entry("missing-verb", "filterVerb", "filterVerb"),
    entry("missing-verb", "preemptVerb", "preemptVerb"),
    entry("whole-nodes", "nodeCacheCapable", "nodeCacheCapable"),
    entry("whole-nodes", "nodeCacheCapable", nodeCacheCapable=False),
    entry("ignorable", "ignorable", ignorable=True),
    entry("ignorable", "ignorable", ignorable=True, bindVerb="bind"),
    entry("managed-resources", "managedResources", **resource("a.b/c")),
    entry(
        "managed-resources",
        "managedResources[0].ignoredByScheduler",
        **resource("a.b/c", ignoredByScheduler=True),
    ),
]
REFUSED = [replace(wrong, severity="error", refused=True) for wrong in _REFUSED]
ACCEPTED = [*(replace(wrong, severity="error") for wrong in _BROKEN), *_WEAK]

# Odd, and as good as any.
SOUND = [
    configuration(),
    configuration(OTHER, OURS),
    configuration(OURS, BIND_APART),
    configuration(BIND_APART, OTHER, OURS),
    configuration(OTHER | {"filterVerb": "f"}, OURS),
    configuration(OURS, profiles=[{"schedulerName": "default-scheduler"}, {"schedulerName": "b"}]),
    configuration(profiles=[_SECOND], leaderElection={"resourceName": "second"}),
    configuration(profiles=[_SECOND], leaderElection={"leaderElect": False}),
    configuration(leaderElection={"resourceName": "placet", "resourceNamespace": "shop"}),
    configuration(leaderElection={"resourceName": "placet", "leaderElect": False}),
    configuration(ours(tlsConfig=None, managedResources=None)),
    {
        name: value
        for name, value in configuration(profiles=[{"percentageOfNodesToScore": 100}]).items()
        if name != "percentageOfNodesToScore"
    },
    configuration(ours(urlPrefix="http://127.0.0.1:12345/", filterVerb="api/scheduler/filter")),
    configuration(ours(bindVerb="bind", httpTimeout="1m0.5s") | {"httpTimeout": "7.5s"}),
    configuration(
        parallelism=8,
        clientConnection={"qps": 50.5},
        podMaxBackoffSeconds=10,
        profiles=[
            {
                "plugins": {"score": {"disabled": [{"name": "*"}]}},
                "pluginConfig": [{"name": "NodeResourcesFit", "args": {}}],
            }
        ],
    ),
]
