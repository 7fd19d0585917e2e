"""The flags of `placet serve`, and the types of their values."""

from __future__ import annotations

import argparse
from ipaddress import ip_address

from cli.command import (
    add_context_arguments,
    add_frozen_arguments,
    address,
    given_path,
    lease,
    pause,
    positive,
    seconds,
    size,
)
from cli.serving.placet_configuration import add_configuration_arguments
from cli.serving.source_flags import add_source_arguments
from engine.cluster.connection_configuration import own_namespace
from engine.counting.in_flight_pods import BIND_TIMEOUT_SECONDS, KUBE_SCHEDULER_LEASE
from engine.objects.gate import GATE
from engine.objects.peer import DEFAULT_SCHEDULER
from engine.objects.request_pod import SYSTEM_NAMESPACES
from grammar.values.named_formats import is_label, is_subdomain
from server.runtime.observers import FORMATS
from server.settings import DEFAULT_LISTEN, SettingsError, parse_trace_url
from server.view.page import DEFAULT_PORT


def _namespace(text: str) -> str:
    if not is_label(text):
        raise argparse.ArgumentTypeError(f"`{text}` is not a valid namespace name")
    return text


def _object_name(text: str) -> str:
    if not is_subdomain(text):
        raise argparse.ArgumentTypeError(f"`{text}` is not a valid name of an object")
    return text


def _secret(text: str) -> tuple[str, str]:
    namespace, slash, name = text.partition("/")
    if not slash:
        raise argparse.ArgumentTypeError(f"`{text}` is not a Secret such as kube-system/placet-tls")
    return _namespace(namespace), _object_name(name)


def _tls_name(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        pass
    if len(text) > 253 or not all(map(is_label, text.split("."))):
        raise argparse.ArgumentTypeError(f"`{text}` is not a DNS name or an IP address")
    return text


def scheduler_lease(text: str) -> tuple[str, str]:
    """The namespace and name of the Lease of a kube-scheduler."""
    named = lease(text)
    if named is None:
        raise argparse.ArgumentTypeError(f"`{text}` is not a Lease such as kube-system/placet")
    return named


def view_port(text: str) -> int | None:
    """The port of the view, or None for `none`."""
    if text == "none":
        return None
    if not text.isdecimal() or not text.isascii() or int(text[:9]) > 65535:
        raise argparse.ArgumentTypeError(f"`{text}` is not a port, and not `none`")
    return int(text)


def _trace_url(text: str) -> str:
    try:
        return parse_trace_url(text)
    except SettingsError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _part(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not a number between 0 and 1")
    return found


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `placet serve`."""
    add_configuration_arguments(parser)
    what = parser.add_argument_group("policies and cluster")
    what.add_argument(
        "--policies",
        metavar="PATH",
        nargs="+",
        action="extend",
        default=[],
        type=given_path,
        help="policy files, and folders of policy files; read again when they change",
    )
    what.add_argument(
        "--cluster",
        metavar="SNAPSHOT",
        nargs="+",
        action="extend",
        default=[],
        type=given_path,
        help="files that `kubectl get nodes,pods,replicasets -A -o json|yaml` wrote; read again "
        "when they change. JSON is read sixty times as fast as YAML. Without it, Placet watches "
        "the cluster of the kubeconfig, or the one that it runs in",
    )
    add_context_arguments(
        what,
        "how to reach the cluster (default: $KUBECONFIG, ~/.kube/config, or the service "
        "account of the pod)",
    )
    what.add_argument(
        "--watch-idle",
        metavar="TIME",
        type=seconds,
        default="120s",
        help="restart a watch that has been silent for this long (default: %(default)s)",
    )
    what.add_argument(
        "--kube-api-qps",
        metavar="N",
        type=positive,
        default=200,
        help="requests to the API server per second, on average (default: %(default)s)",
    )
    what.add_argument(
        "--kube-api-burst",
        metavar="N",
        type=positive,
        default=400,
        help="requests to the API server in a burst (default: %(default)s)",
    )
    what.add_argument(
        "--lease",
        metavar="NAMESPACE/NAME",
        type=lease,
        default=f"{own_namespace()}/placet",
        help="the Lease of the replica that decides by counts and writes statuses; `none` if there "
        "is only one replica (default: %(default)s)",
    )
    what.add_argument(
        "--standby",
        action="store_true",
        help="be ready only while holding the Lease: for replicas behind one Service",
    )
    what.add_argument(
        "--no-cluster",
        action="store_true",
        help="watch no cluster: requests must contain whole nodes (nodeCacheCapable: false)",
    )
    what.add_argument(
        "--demo",
        action="store_true",
        help="use an embedded cluster, and embedded policies unless --policies names some",
    )
    _add_pods(parser)
    how = parser.add_argument_group("serving")
    how.add_argument(
        "--listen",
        metavar="HOST:PORT",
        type=address,
        default=DEFAULT_LISTEN,
        help="the address to listen on; without HOST every interface, with port 0 any free port "
        "(default: %(default)s)",
    )
    how.add_argument(
        "--http-timeout",
        metavar="TIME",
        type=seconds,
        default="5s",
        help="the extender's httpTimeout in kube-scheduler's configuration; "
        "an answer takes at most four fifths of it (default: %(default)s)",
    )
    how.add_argument(
        "--body-limit",
        metavar="SIZE",
        type=size,
        default="64Mi",
        help="the largest request body (default: %(default)s)",
    )
    how.add_argument(
        "--body-budget",
        metavar="SIZE",
        type=size,
        help="the most memory for the bodies of all requests and for unsent answers together; "
        "requests beyond it wait (default: four times --body-limit)",
    )
    how.add_argument(
        "--resolvable-rejections",
        action="store_true",
        help="send rejections that an eviction could resolve as FailedNodes; only for "
        "kube-scheduler 1.38 or newer, which asks extenders for the victims there",
    )
    add_source_arguments(parser)
    binding = parser.add_argument_group("binding")
    binding.add_argument(
        "--bind",
        action="store_true",
        help="bind pods: for an extender with a bindVerb; needs deploy/rbac/bind/placet.yaml",
    )
    scheduler = parser.add_argument_group("kube-scheduler")
    scheduler.add_argument(
        "--scheduler-name",
        metavar="NAME",
        action="append",
        default=[],
        help="the schedulerName of the pods of a kube-scheduler that calls Placet: of pods that "
        "filter was not asked about, only these are bound or requeued, and may be on their way to "
        "a node when Placet starts; the first one is that of new pods of namespaces that opt in; "
        f"may be repeated (default: {DEFAULT_SCHEDULER})",
    )
    scheduler.add_argument(
        "--scheduler-lease",
        metavar="NAMESPACE/NAME",
        type=scheduler_lease,
        help="the Lease of the kube-schedulers with these names: pods that the last holder had in "
        "hand are not on their way when another one acquires it "
        f"(default: {'/'.join(KUBE_SCHEDULER_LEASE)}, of {DEFAULT_SCHEDULER})",
    )
    scheduler.add_argument(
        "--bind-timeout",
        metavar="TIME",
        type=seconds,
        help="bindTimeoutSeconds in kube-scheduler's configuration: for this long a pod with "
        "volumes or claims may be on its way to a node when Placet starts, unless Placet binds "
        f"(default: {BIND_TIMEOUT_SECONDS:g}s)",
    )
    scheduler.add_argument(
        "--permit-timeout",
        metavar="TIME",
        type=seconds,
        help="the longest time that a Permit plugin of kube-scheduler has a pod wait; any pod may "
        "be on its way for that much longer (default: 0s)",
    )
    scheduler.add_argument(
        "--gate",
        action="store_true",
        help=f"kube-scheduler asks only about pods with the marker `{GATE}`: report the pods that "
        "policies select and that were created without it",
    )
    add_frozen_arguments(scheduler)
    endurance = parser.add_argument_group("load and shutdown")
    endurance.add_argument(
        "--max-in-flight",
        metavar="N",
        type=positive,
        default=100,
        help="the largest number of calls at the same time; more are refused "
        "(default: %(default)s)",
    )
    endurance.add_argument(
        "--max-connections",
        metavar="N",
        type=positive,
        help="the largest number of open connections, half of them from one address; for one more, "
        "one that is silent is closed (default: four times --max-in-flight)",
    )
    endurance.add_argument(
        "--health-listen",
        metavar="HOST:PORT",
        type=address,
        help="also serve health and metrics here, over plain HTTP, on a thread of their own: they "
        "answer even when the server is busy",
    )
    endurance.add_argument(
        "--view-port",
        metavar="PORT",
        type=view_port,
        default=argparse.SUPPRESS,
        help="the port on 127.0.0.1 of the view, which placet decisions and placet status ask, or "
        f"`none` for no view (default: {DEFAULT_PORT}, or any free port if --listen has port 0)",
    )
    endurance.add_argument(
        "--view-listen",
        metavar="HOST:PORT",
        type=address,
        help="also serve the view here, over HTTPS with the certificate, to users of the cluster: "
        "with a token, by their rights to list pods",
    )
    endurance.add_argument(
        "--history",
        metavar="FILE",
        type=given_path,
        help="the file of at most 64 MiB in which the numbers of the page's last week survive a "
        "restart; without it they begin with the replica",
    )
    endurance.add_argument(
        "--lameduck",
        metavar="TIME",
        type=pause,
        default="5s",
        help="how long to serve after SIGTERM, while not ready, before connections are refused "
        "(default: %(default)s)",
    )
    tls = parser.add_argument_group("HTTPS", "the files are read again when they change")
    tls.add_argument(
        "--tls-cert", metavar="FILE", type=given_path, help="a certificate with its chain (PEM)"
    )
    tls.add_argument(
        "--tls-key", metavar="FILE", type=given_path, help="its key (PEM), not encrypted"
    )
    tls.add_argument(
        "--webhook-listen",
        metavar="HOST:PORT",
        type=address,
        help="serve the admission webhooks here, with this certificate, and everything else on "
        "--listen over plain HTTP: for a kube-scheduler beside Placet",
    )
    tls.add_argument(
        "--tls-secret",
        metavar="NAMESPACE/NAME",
        type=_secret,
        help="instead of both: the Secret where Placet keeps a certificate and a CA that it makes "
        "and renews; needs deploy/rbac/certificates/placet.yaml",
    )
    tls.add_argument(
        "--tls-name",
        metavar="NAME",
        action="append",
        default=[],
        type=_tls_name,
        help="a DNS name or an IP address in the certificate of --tls-secret; may be repeated",
    )
    tls.add_argument(
        "--webhook-configuration",
        metavar="NAME",
        action="append",
        default=[],
        type=_object_name,
        help="a Mutating- or ValidatingWebhookConfiguration whose caBundle is kept equal to the CA "
        "of --tls-secret; may be repeated",
    )
    tls.add_argument(
        "--client-ca",
        metavar="FILE",
        type=given_path,
        help="CA certificates (PEM): clients must have a certificate of one of them, except for "
        "health, version and the admission webhooks",
    )
    tls.add_argument(
        "--client-name",
        metavar="NAME",
        action="append",
        default=[],
        help="the common name that client certificates must have; may be repeated (default: any)",
    )
    _add_log(how)


def _add_log(how: argparse._ArgumentGroup) -> None:
    """The flags of the log and of traces."""
    how.add_argument(
        "--log-format",
        choices=FORMATS,
        default="text",
        help="the format of the log on standard error, one line per event (default: text)",
    )
    how.add_argument(
        "--traces",
        metavar="URL",
        type=_trace_url,
        help="send a span for each call to this collector, as OTLP over HTTP; the uid of a pod is "
        "the id of its trace",
    )
    how.add_argument(
        "--trace-ratio",
        metavar="PART",
        type=_part,
        default=1.0,
        help="the part of pods that have spans, between 0 and 1 (default: all)",
    )
    how.add_argument(
        "-v", "--verbose", action="store_true", help="log every call and every rejection"
    )


def _add_pods(parser: argparse.ArgumentParser) -> None:
    """The flags about pods that are not decided about, or not yet."""
    who = parser.add_argument_group("pods and policies")
    defaults = ", ".join(sorted(SYSTEM_NAMESPACES | {own_namespace()}))
    who.add_argument(
        "--exempt-namespace",
        metavar="NS",
        action="append",
        default=[],
        type=_namespace,
        help="a namespace whose pods are scheduled without any policy; may be repeated; added to "
        f"{defaults} unless one of them is `none`",
    )
    who.add_argument(
        "--no-bypass",
        action="store_true",
        help="ignore the annotation by which a pod bypasses policies",
    )
    who.add_argument(
        "--repair",
        choices=("off", "dry-run", "on"),
        default="off",
        help="whether pods that break rules where they are may be evicted, as the `repair` of their"
        " policy says; dry-run shows which; `on` needs deploy/rbac/repair/placet.yaml (default: "
        "%(default)s)",
    )
    who.add_argument(
        "--policy-first",
        metavar="NS",
        action="append",
        default=[],
        type=_namespace,
        help="a namespace whose new pods wait until the policies that are older than them are in "
        "force, for at most a minute; may be repeated",
    )
