"""Checks of `placet doctor` about the gate: managedResources, what marks new pods, and the server.

`Marking` is what a cluster does to new pods, read from its admission objects and its namespaces.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cli.doctor.extender import ExtenderEntry
from engine.objects.gate import ENABLED, GATE, OPT_IN, STRICT
from grammar.messages.diagnostics import Severity
from grammar.messages.texts import named

_SHOWN = 3
Json = dict[str, Any]
# The path of a field, the severity, the message and the hint.
GateFinding = tuple[str, Severity, str, str]


@dataclass(frozen=True, slots=True)
class Marking:
    """`by` are the objects that mark new pods, `namespaces` the namespaces that opt in.

    `tells` says that new pods get what portable policies say: one of these is the webhook.
    """

    by: tuple[str, ...]
    namespaces: frozenset[str]
    tells: bool = False

    @classmethod
    def of(cls, objects: Sequence[Json], namespaces: Sequence[Json]) -> Marking:
        """From MutatingWebhookConfigurations, MutatingAdmissionPolicies and their bindings."""
        bound = {
            each["spec"].get("policyName")
            for each in objects
            if each["kind"] == "MutatingAdmissionPolicyBinding"
        }
        marking = [each for each in objects if _marks(each, bound)]
        by = (f"{each['kind']} {each['metadata']['name']}" for each in marking)
        tells = any(each["kind"] == "MutatingWebhookConfiguration" for each in marking)
        labels = ((each["metadata"]["name"], each["metadata"].get("labels")) for each in namespaces)
        inside = (name for name, found in labels if (found or {}).get(OPT_IN) in (ENABLED, STRICT))
        return cls(tuple(by), frozenset(inside), tells)


def _marks(found: Json, bound: set[str]) -> bool:
    if found["kind"] == "MutatingAdmissionPolicy":
        text = json.dumps(found["spec"].get("mutations"))
        return GATE in text and found["metadata"]["name"] in bound
    return any(_path(each).endswith("/admission/gate") for each in found.get("webhooks") or ())


def _path(webhook: Json) -> str:
    client: Mapping[str, Any] = webhook["clientConfig"]
    path: str = client.get("url") or (client.get("service") or {}).get("path") or ""
    return path


def findings(
    ours: ExtenderEntry,
    *,
    serves: bool,
    marking: Marking | None,
    namespaces: Sequence[str],
    portable: Sequence[str],
    worst: Severity,
) -> Iterator[GateFinding]:
    """What does not fit together. `serves` says that `placet serve` has `--gate`.

    `marking` is None if the cluster is not known. `namespaces` are the namespaces of policies,
    `portable` the policies to tell to others, and `worst` is the severity of pods that pass without
    policies.
    """
    asks = any(resource.name == GATE for resource in ours.managed)
    at = ours.at("managedResources")
    add = f"write `managedResources: [{{name: {GATE}}}]`"
    if asks and not serves:
        message = (
            f"without `placet serve --gate` nobody reports pods that were created without `{GATE}`"
        )
        yield at, "warning", message, "serve with `--gate`, and give it to this command too"
    if serves and not asks:
        message = (
            f"`placet serve --gate` takes pods without `{GATE}` for pods that kube-scheduler does "
            "not ask about, but it asks about every pod"
        )
        yield at, worst, message, f"{add}, or serve without `--gate`"
    if marking is None:
        return
    by = named([f"`{name}`" for name in marking.by], _SHOWN)
    if asks and not marking.by:
        message = f"nothing gives new pods `{GATE}`, so kube-scheduler asks Placet about none"
        hint = "apply deploy/admission/gate-policy.yaml, or gate.yaml before Kubernetes 1.36"
        yield at, "error", message, hint
    if portable and not marking.tells:
        shown = named([f"`{name}`" for name in portable], _SHOWN)
        message = f"nobody is told of the portable policies {shown}: no webhook gets new pods"
        yield at, "warning", message, "apply deploy/admission/gate.yaml"
    if marking.by and not asks and not (portable and marking.tells):
        message = f"{by} marks new pods for nothing: kube-scheduler asks about every pod"
        yield at, "warning", message, f"{add}, or remove {by}"
    outside = sorted({*namespaces} - marking.namespaces)
    if asks and outside:
        shown = named([f"`{name}`" for name in outside], _SHOWN)
        message = f"policies of {shown} have no effect, because new pods there get no `{GATE}`"
        hint = f"run `kubectl label namespace {outside[0]} {OPT_IN}={ENABLED}`"
        yield at, worst, message, hint
