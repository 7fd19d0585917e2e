"""PlacetConfiguration: the flags of `placet serve` in one table, from which all else follows.

The command line, the help, the fields of a file, the variables and the schema are made of it. A
flag of the command line comes before a variable of the environment, a variable before the file,
and the file before the default. All of them become the words of one command line, so that a value
means the same wherever it is written.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address

from cli.command import FROZEN, CommandError, Flag, flags_of, port, read_text
from cli.doctor.configuration_text import read
from engine.cluster.connection_configuration import own_namespace
from engine.counting.in_flight_pods import BIND_TIMEOUT_SECONDS, KUBE_SCHEDULER_LEASE
from engine.objects.gate import GATE
from engine.objects.peer import DEFAULT_SCHEDULER
from engine.objects.request_pod import SYSTEM_NAMESPACES
from grammar.messages.diagnostics import nearest
from grammar.values.object_names import is_label
from policies.documents import Document
from server.settings import DEFAULT_LISTEN
from server.view.page import DEFAULT_PORT

_TABLE = f"""
configuration:
  --config FILE
    a PlacetConfiguration: the flags of this command as fields, also those that only --help-all
    shows. A flag here, and a variable such as PLACET_HTTP_TIMEOUT, come before it
  --print-config
    print the configuration with where each value is from, and end
policies and cluster:
  --policies PATH...
    policy files, and folders of policy files; read again when they change
  --cluster SNAPSHOT...
    files that `kubectl get nodes,pods,replicasets -A -o json|yaml` wrote; read again when they
    change. JSON is read sixty times as fast as YAML. Without it, Placet watches the cluster of the
    kubeconfig, or the one that it runs in
  --kubeconfig FILE
    how to reach the cluster (default: $KUBECONFIG, ~/.kube/config, or the service account of the
    pod)
  --context NAME
    a context of the kubeconfig (default: its current one)
  --watch-idle TIME=120s
    restart a watch that has been silent for this long
  --kube-api-qps N=200
    requests to the API server per second, on average
  --kube-api-burst N=400
    requests to the API server in a burst
  --lease NAMESPACE/NAME={own_namespace()}/placet
    the Lease of the replica that decides by counts and writes statuses; `none` if there is only one
    replica
  --standby
    be ready only while holding the Lease: for replicas behind one Service
  --no-cluster
    watch no cluster: requests must contain whole nodes (nodeCacheCapable: false)
  --demo
    use an embedded cluster, and embedded policies unless --policies names some
pods and policies:
  --exempt-namespace NS,
    a namespace whose pods are scheduled without any policy; may be repeated; added to
    {", ".join(sorted(SYSTEM_NAMESPACES | {own_namespace()}))} unless one of them is `none`
  --no-bypass
    ignore the annotation by which a pod bypasses policies
  --repair off|dry-run|on=off
    whether pods that break rules where they are may be evicted, as the `repair` of their policy
    says; dry-run shows which; `on` needs deploy/rbac/repair/placet.yaml
  --policy-first NS,
    a namespace whose new pods wait until the policies that are older than them are in force, for at
    most a minute; may be repeated
serving:
  --listen HOST:PORT={DEFAULT_LISTEN}
    the address to listen on; without HOST every interface, with port 0 any free port
  --http-timeout TIME=5s
    the extender's httpTimeout in kube-scheduler's configuration; an answer takes at most four
    fifths of it
  --body-limit SIZE=64Mi
    the largest request body
  --body-budget SIZE
    the most memory for the bodies of all requests and for unsent answers together; requests beyond
    it wait (default: four times --body-limit)
  --resolvable-rejections
    send rejections that an eviction could resolve as FailedNodes; only for kube-scheduler 1.38 or
    newer, which asks extenders for the victims there
  --log-format text|json=text
    the format of the log on standard error, one line per event
  -v --verbose
    log every call and every rejection
data:
  --data-folder FOLDER
    the folder of the files that policies read by `data NAME {{ from file … }}`
  --data-ca FILE
    the CA of the Prometheus servers that policies read (default: those of the system)
  --data-token FILE
    a file with a bearer token for these servers, which is sent over https only
  --data-headers FILE
    a file with headers for these servers, a line for each, such as `X-Scope-OrgID: shop`
binding:
  --bind
    bind pods: for an extender with a bindVerb; needs deploy/rbac/bind/placet.yaml
kube-scheduler:
  --scheduler-name NAME,
    the schedulerName of the pods of a kube-scheduler that calls Placet: of pods that filter was not
    asked about, only these are bound or requeued, and may be on their way to a node when Placet
    starts; the first one is that of new pods of namespaces that opt in; may be repeated (default:
    {DEFAULT_SCHEDULER})
  --scheduler-lease NAMESPACE/NAME={"/".join(KUBE_SCHEDULER_LEASE)}
    the Lease of the kube-schedulers with these names: pods that the last holder had in hand are not
    on their way when another one acquires it
  --bind-timeout TIME={BIND_TIMEOUT_SECONDS:g}s
    bindTimeoutSeconds in kube-scheduler's configuration: for this long a pod with volumes or claims
    may be on its way to a node when Placet starts, unless Placet binds
  --permit-timeout TIME=0s
    the longest time that a Permit plugin of kube-scheduler has a pod wait; any pod may be on its
    way for that much longer
  --gate
    kube-scheduler asks only about pods with the marker `{GATE}`: report the pods of policies that
    were created without it
{FROZEN}
load and shutdown:
  --max-in-flight N=100
    the largest number of calls at the same time; more are refused
  --max-connections N
    the largest number of open connections, half of them from one address; for one more, one that is
    silent is closed (default: four times --max-in-flight)
  --health-listen HOST:PORT
    also serve health and metrics here, over plain HTTP, on a thread of their own: they answer even
    when the server is busy
  --view-port PORT
    the port on 127.0.0.1 of the view, which placet decisions and placet status ask, or `none` for
    no view (default: {DEFAULT_PORT}, or any free port if --listen has port 0)
  --view-listen HOST:PORT
    also serve the view here, over HTTPS with the certificate, to users of the cluster: with a
    token, by their rights to list pods
  --history FILE
    the file of at most 64 MiB in which the numbers of the page's last week survive a restart;
    without it they begin with the replica
  --lameduck TIME=5s
    how long to serve after SIGTERM, while not ready, before connections are refused
HTTPS, the files are read again when they change:
  --tls-cert FILE
    a certificate with its chain (PEM)
  --tls-key FILE
    its key (PEM), not encrypted
  --webhook-listen HOST:PORT
    serve the admission webhooks here, with this certificate, and everything else on --listen over
    plain HTTP: for a kube-scheduler beside Placet
  --tls-secret NAMESPACE/NAME
    instead of both: the Secret where Placet keeps a certificate and a CA that it makes and renews;
    needs deploy/rbac/certificates/placet.yaml
  --tls-name NAME,
    a DNS name or an IP address in the certificate of --tls-secret; may be repeated
  --webhook-configuration NAME,
    a Mutating- or ValidatingWebhookConfiguration whose caBundle is kept equal to the CA of
    --tls-secret; may be repeated
  --client-ca FILE
    CA certificates (PEM): clients must have a certificate of one of them, except for health,
    version and the admission webhooks
  --client-name NAME,
    the common name that client certificates must have; may be repeated (default: any)
"""


def _tls_name(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        pass
    if len(text) > 253 or not all(map(is_label, text.split("."))):
        raise argparse.ArgumentTypeError(f"`{text}` is not a DNS name or an IP address")
    return text


def view_port(text: str) -> int | None:
    """The port of the view; 0 for any free one, and None for `none`."""
    if text in ("none", "0"):
        return None if text == "none" else 0
    return port(text)


# What most people set; `--help-all` shows the others too.
_USUAL = (
    *("config", "print_config", "policies", "cluster", "kubeconfig", "context", "demo"),
    *("listen", "bind", "tls_cert", "tls_key", "verbose"),
)
_OWN = {"--tls-name": _tls_name, "--view-port": view_port}
FLAGS = tuple(replace(e, is_rare=e.key not in _USUAL) for e in flags_of(_TABLE, _OWN))


# ---- where a value is from

KIND = "PlacetConfiguration"
API_VERSION = "placet.dev/v1alpha1"
HEAD = {"apiVersion": API_VERSION, "kind": KIND}
_SWITCH = {"true": True, "false": False}
# A switch, a text, or the texts of a list.
Value = bool | str | list[str]


@dataclass(frozen=True, slots=True)
class Given:
    """A given value and its origin: `flag`, a variable, or a place in a file."""

    flag: Flag
    value: Value
    origin: str

    def words(self) -> Iterator[str]:
        """The value on a command line."""
        if isinstance(self.value, bool):
            yield from [self.flag.name] * self.value
        else:
            texts = self.value if isinstance(self.value, list) else [self.value]
            yield from (f"{self.flag.name}={text}" for text in texts)


@dataclass(frozen=True, slots=True)
class PlacetConfiguration:
    """The configuration of a server: what is given, by flag; the rest has its default."""

    given: Mapping[str, Given] = field(default_factory=dict)

    def words(self) -> list[str]:
        """The command line that says all of it."""
        return [word for each in self.given.values() for word in each.words()]

    def text(self) -> str:
        """The same as a file, with the defaults; each line says where its value is from."""
        lines = [f"{key}: {value}\n" for key, value in HEAD.items()]
        for flag in FIELDS:
            value: Value | None = False if flag.is_switch else [] if flag.many else flag.default
            origin = "default"
            if (known := self.given.get(flag.key)) is not None:
                value, origin = known.value, known.origin
            if value is not None:
                is_number = isinstance(value, str) and value.isdecimal()
                shown = value if is_number else json.dumps(value)
                lines.append(f"{flag.field}: {shown}  # {origin}\n")
        return "".join(lines)


# The flags that are fields: the others name the file, and print what is in force.
FIELDS = tuple(flag for flag in FLAGS if flag.key not in ("config", "print_config"))


def placet_configuration(
    words: Sequence[str], environment: Mapping[str, str]
) -> PlacetConfiguration:
    """The configuration of a server that is started with these words.

    Raises CommandError for a mistake in the environment or in the file.
    """
    parser = argparse.ArgumentParser(
        add_help=False, argument_default=argparse.SUPPRESS, allow_abbrev=False
    )
    for flag in FLAGS:
        kept = {k: v for k, v in flag.options().items() if k in ("action", "nargs")}
        parser.add_argument(*flag.names, **kept)
    # What is on the command line, as it is written there.
    typed = vars(parser.parse_args(words))
    given: dict[str, Given] = {}
    if (file := typed.get("config")) is not None:
        given |= {each.flag.key: each for each in _in_file(file)}
    given |= {each.flag.key: each for each in _in_environment(environment)}
    given |= {f.key: Given(f, typed[f.key], f"flag {f.name}") for f in FIELDS if f.key in typed}
    return PlacetConfiguration(given)


def _in_environment(environment: Mapping[str, str]) -> Iterator[Given]:
    """Commas separate the items of a list. An empty variable is none."""
    for flag in FIELDS:
        text = environment.get(flag.variable, "")
        if not text:
            continue
        value: Value = text
        if flag.is_switch:
            if text not in _SWITCH:
                raise _refused(f"`{flag.variable}`", f"`{text}` is not `true` or `false`")
            value = _SWITCH[text]
        elif flag.many:
            value = text.split(",")
        yield Given(flag, _checked(flag, value, f"`{flag.variable}`"), f"variable {flag.variable}")


def _in_file(name: str) -> Iterator[Given]:
    document = _document(name)
    known = {flag.field: flag for flag in FIELDS}
    for key, written in document.value.items():
        place = f"{name}:{document.line(str(key))}"
        if key in HEAD:
            continue
        flag = known.get(key)
        if flag is None:
            close = nearest(str(key), known)
            hint = f"a similar one exists: `{close}`" if close else "see placet serve --help-all"
            raise CommandError(f"{KIND} has no field `{key}` ({place})", hint)
        value = _value(flag, written, place)
        yield Given(flag, _checked(flag, value, f"`{key}` ({place})"), place)


def _document(name: str) -> Document:
    """The one document of a file, which is a PlacetConfiguration. Raises CommandError."""
    found = read(read_text(name, "check the path"), name)
    head = f"begin it with `apiVersion: {API_VERSION}` and `kind: {KIND}`"
    if len(found) != 1 or not isinstance(found[0].value, dict):
        raise CommandError(f"`{name}` is not one {KIND}", head)
    (document,) = found
    for key, wanted in HEAD.items():
        if (written := document.value.get(key)) != wanted:
            said = f"is `{written}`" if key in document.value else "is missing"
            raise CommandError(f"`{key}` of `{name}` {said}", head)
    for path in document.twice():
        hint = "remove one of them"
        raise CommandError(f"`{path}` is in `{name}` twice", hint)
    return document


def _value(flag: Flag, written: object, place: str) -> Value:
    """The value of a field as texts. Raises CommandError for one of another type."""
    wrong = f"`{flag.field}` ({place}) is"
    if flag.is_switch:
        if isinstance(written, bool):
            return written
        raise CommandError(f"{wrong} not `true` or `false`", f"write `{flag.field}: true`")
    if not flag.many:
        if isinstance(written, str | int | float) and not isinstance(written, bool):
            return str(written)
        raise CommandError(f"{wrong} not one text or number", "write one, in quotes if in doubt")
    if isinstance(written, list) and all(isinstance(each, str) for each in written):
        return list(written)
    raise CommandError(f"{wrong} not a list of texts", f'write `{flag.field}: ["…"]`')


def _checked(flag: Flag, value: Value, where: str) -> Value:
    if not isinstance(value, bool):
        for text in value if isinstance(value, list) else [value]:
            try:
                flag.read(text)
            except (argparse.ArgumentTypeError, ValueError) as error:
                raise _refused(where, str(error)) from None
    return value


def _refused(where: str, why: str) -> CommandError:
    return CommandError(f"{where} is not valid: {why}", "see placet serve --help-all")
