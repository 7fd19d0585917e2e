"""Check of `placet doctor` about the gate: of managedResources, of new pods, and of the server."""

from __future__ import annotations

from collections.abc import Iterator

from cli.doctor.context import ConfigurationContext, Found, error, found, some, warning
from cli.doctor.extender import ExtenderEntry
from engine.objects.gate import ENABLED, GATE, OPT_IN


def gate(ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[Found]:
    """What does not fit together: the marker must be in all three or in none."""
    asks = any(resource.name == GATE for resource in ours.managed_resources)
    at, add = ours.at("managedResources"), f"write `managedResources: [{{name: {GATE}}}]`"
    if asks and not context.gate:
        message = (
            f"without `placet serve --gate` nobody reports pods that were created without `{GATE}`"
        )
        yield warning(at, message, "serve with `--gate`, and give it to this command too")
    if context.gate and not asks:
        message = (
            f"`placet serve --gate` takes pods without `{GATE}` for pods that kube-scheduler does "
            "not ask about, but it asks about every pod"
        )
        yield found(context.worst, at, message, f"{add}, or serve without `--gate`")
    marking, needs = context.marking, context.requirements
    if marking is None:
        return
    portable = () if needs is None else needs.portable
    if asks and not marking.by:
        message = f"nothing gives new pods `{GATE}`, so kube-scheduler asks Placet about none"
        hint = "apply deploy/admission/gate-policy.yaml, or gate.yaml before Kubernetes 1.36"
        yield error(at, message, hint)
    if portable and not marking.tells:
        message = (
            f"nobody is told of the portable policies {some(portable)}: no webhook gets new pods"
        )
        yield warning(at, message, "apply deploy/admission/gate.yaml")
    if marking.by and not asks and not (portable and marking.tells):
        by = some(marking.by)
        message = f"{by} marks new pods for nothing: kube-scheduler asks about every pod"
        yield warning(at, message, f"{add}, or remove {by}")
    outside = [] if needs is None else sorted({*needs.namespaces} - marking.namespaces)
    if asks and outside:
        message = (
            f"policies of {some(outside)} have no effect, because new pods there get no `{GATE}`"
        )
        hint = f"run `kubectl label namespace {outside[0]} {OPT_IN}={ENABLED}`"
        yield found(context.worst, at, message, hint)
