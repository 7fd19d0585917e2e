"""Expectations about bind: they compare answers with the Bindings that the API server got."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus

from cli.conformance.api_server import ReceivedBinding
from cli.conformance.exchange import Exchange
from cli.conformance.expectations import member

BindingExpectation = Callable[[Sequence[Exchange], Sequence[ReceivedBinding]], str | None]


def bound(exchanges: Sequence[Exchange], bindings: Sequence[ReceivedBinding]) -> str | None:
    """An answer without an error has a Binding (C44)."""
    if text := member(exchanges[0].value, "Error"):
        return f"`Error` says: {text}"
    node = exchanges[0].request["Node"]
    made = [each for each in bindings if each.status == HTTPStatus.CREATED]
    if not made:
        return "the API server got no Binding"
    if made[0].node != node:
        return f"the pod is bound to `{made[0].node}` in place of `{node}`"
    return None


def uid_sent(exchanges: Sequence[Exchange], bindings: Sequence[ReceivedBinding]) -> str | None:
    """The Binding has the pod's uid as its precondition (C43)."""
    uid = exchanges[0].request["PodUID"]
    if any(each.uid != uid for each in bindings):
        return "the Binding does not have the uid of the pod"
    return None


def refused(exchanges: Sequence[Exchange], _: Sequence[ReceivedBinding]) -> str | None:
    """The last answer is a failure of some kind, because no binding was made (C44)."""
    last = exchanges[-1]
    if last.error or last.status != HTTPStatus.OK or member(last.value, "Error"):
        return None
    return "`Error` is empty, and the pod is not bound to the node"


BINDING_EXPECTATIONS: Mapping[str, BindingExpectation] = {
    "bound": bound,
    "uid-sent": uid_sent,
    "refused": refused,
}
