"""`placet serve`: answers kube-scheduler, and keeps up with policy files and the cluster."""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Mapping
from importlib.resources import files
from ipaddress import ip_address
from logging import Logger
from pathlib import Path

from prometheus_client import CollectorRegistry

from cli.command import (
    CommandError,
    Exit,
    add_context_arguments,
    add_frozen_arguments,
    address,
    cannot_listen,
    lease,
    pause,
    positive,
    seconds,
    size,
)
from cli.data_sources import add_source_arguments, data_access
from cli.demo.demo_cluster import Demo, announcement
from cli.demo.start import QuietStart, move_taken_ports
from cli.placet_configuration import add_configuration_arguments
from cli.streams import OutputError, close_output, put_text
from cli.version import version
from engine.cache.cluster_file import ClusterFileError
from engine.cache.reflector import Timing
from engine.cluster.client import Limits
from engine.cluster.connection_configuration import own_namespace
from engine.counting.in_flight_pods import (
    BIND_TIMEOUT_SECONDS,
    DEFAULT_SCHEDULERS,
    KUBE_SCHEDULER_LEASE,
    Schedulers,
)
from engine.errors import ClusterConfigurationError
from engine.objects.gate import GATE
from engine.objects.peer import DEFAULT_SCHEDULER
from engine.objects.request_pod import SYSTEM_NAMESPACES, Exemptions
from engine.portable.label_conditions import Frozen
from grammar.meaning.schema import load_schema
from policies.disk import Disk
from policies.loader import load
from server.http.tls import Credentials, TlsError, private_file
from server.metrics.metrics import Metrics
from server.metrics.misconfiguration import exposure
from server.runtime.cluster_runtime import Access
from server.runtime.file_cluster import ClusterFiles, SnapshotOrigin
from server.runtime.observers import FORMATS, finish_log, start_logging
from server.runtime.reloader import (
    ConfigurationFile,
    PolicyReloader,
    ServerConfiguration,
    UnusableConfigurationError,
)
from server.runtime.server_runtime import CannotListenError, Options, serve
from server.settings import (
    DEFAULT_LISTEN,
    SelfSigned,
    Settings,
    SettingsError,
    TlsFiles,
    raise_open_files,
    too_few_files,
)
from server.view.view import DEFAULT_PORT

_NAME = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def exemptions(args: argparse.Namespace) -> Exemptions:
    named = set(args.exempt_namespace)
    always = frozenset() if "none" in named else SYSTEM_NAMESPACES | {own_namespace()}
    return Exemptions(always | (named - {"none"}), by_annotation=not args.no_bypass)


def _namespace(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"`{text}` is not a valid namespace name")
    return text


def _object_name(text: str) -> str:
    if len(text) > 253 or not all(map(_NAME.fullmatch, text.split("."))):
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
    if len(text) > 253 or not all(map(_NAME.fullmatch, text.split("."))):
        raise argparse.ArgumentTypeError(f"`{text}` is not a DNS name or an IP address")
    return text


def tls_files(args: argparse.Namespace, file: Path | None = None) -> TlsFiles | None:
    """The files that the flags name; None is plain HTTP. Raises CommandError.

    `file` is for a certificate that is kept in a Secret.
    """
    if args.client_name and args.client_ca is None:
        hint = "name the CA of those clients with --client-ca FILE"
        raise CommandError("--client-name has no effect without --client-ca", hint)
    if file is not None:
        return _kept_file(args, file)
    names, webhooks = args.tls_name, args.webhook_configuration
    for flag, given in (("--tls-name", names), ("--webhook-configuration", webhooks)):
        if given:
            hint = "name the Secret with --tls-secret NAMESPACE/NAME"
            raise CommandError(f"{flag} has no effect without --tls-secret", hint)
    if args.tls_cert is None and args.tls_key is None:
        if args.client_ca is not None:
            hint = "name a certificate with --tls-cert FILE and --tls-key FILE"
            raise CommandError("--client-ca has no effect without --tls-cert", hint)
        return None
    if args.tls_cert is None or args.tls_key is None:
        given, missing = "--tls-cert", "--tls-key"
        if args.tls_cert is None:
            given, missing = missing, given
        raise CommandError(f"{given} has no effect without {missing}", f"add {missing} FILE")
    return TlsFiles(args.tls_cert, args.tls_key, args.client_ca, frozenset(args.client_name))


def _kept_file(args: argparse.Namespace, file: Path) -> TlsFiles:
    """The file of a certificate that Placet keeps in a Secret. Raises CommandError."""
    for flag in ("--tls-cert", "--tls-key"):
        if vars(args)[flag.removeprefix("--").replace("-", "_")] is not None:
            hint = f"leave out --tls-secret or {flag}"
            raise CommandError(f"--tls-secret and {flag} each name a certificate", hint)
    for flag, is_given in _unwatched(args).items():
        if is_given:
            hint = "leave it out, or name files with --tls-cert and --tls-key"
            raise CommandError(f"--tls-secret has no effect with {flag}: no cluster keeps it", hint)
    if not args.tls_name:
        hint = "add the DNS name of Placet for its clients, as --tls-name placet.kube-system.svc"
        raise CommandError("--tls-secret has no effect without --tls-name", hint)
    names, origin = frozenset(args.client_name), self_signed(args).shown
    return TlsFiles(file, file, args.client_ca, names, origin)


def self_signed(args: argparse.Namespace) -> SelfSigned:
    """The certificate of `--tls-secret`."""
    names = tuple(dict.fromkeys(args.tls_name))
    return SelfSigned(args.tls_secret, names, tuple(args.webhook_configuration))


def _unusable(error: TlsError) -> CommandError:
    hint = "use PEM files: a certificate with its chain, and its key without a password"
    return CommandError(str(error), hint)


def credentials(settings: Settings, metrics: Metrics, log: Logger) -> Credentials | None:
    """The credentials from the files; None is plain HTTP. Raises CommandError."""
    if settings.tls is None:
        return None
    try:
        return Credentials(settings.tls, metrics, log)
    except TlsError as error:
        raise _unusable(error) from None


EXAMPLES = """\
examples:
  placet serve --demo
  placet serve --policies policies/ --cluster cluster.json
  placet serve --policies policies/ --kubeconfig ~/.kube/config --listen 127.0.0.1:12345
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_configuration_arguments(parser)
    what = parser.add_argument_group("policies and cluster")
    what.add_argument(
        "--policies",
        metavar="PATH",
        nargs="+",
        action="extend",
        default=[],
        type=Path,
        help="policy files, and folders of policy files; read again when they change",
    )
    what.add_argument(
        "--cluster",
        metavar="SNAPSHOT",
        nargs="+",
        action="extend",
        default=[],
        type=Path,
        help="files that `kubectl get nodes,pods -A -o json|yaml` wrote; read again when they "
        "change. JSON is read sixty times as fast as YAML. Without it, Placet watches the "
        "cluster of the kubeconfig, or the one that it runs in",
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
    who = parser.add_argument_group("pods without policies")
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
        "--lameduck",
        metavar="TIME",
        type=pause,
        default="5s",
        help="how long to serve after SIGTERM, while not ready, before connections are refused "
        "(default: %(default)s)",
    )
    tls = parser.add_argument_group("HTTPS", "the files are read again when they change")
    tls.add_argument(
        "--tls-cert", metavar="FILE", type=Path, help="a certificate with its chain (PEM)"
    )
    tls.add_argument("--tls-key", metavar="FILE", type=Path, help="its key (PEM), not encrypted")
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
        type=Path,
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
    how.add_argument(
        "--log-format",
        choices=FORMATS,
        default="text",
        help="the format of the log on standard error, one line per event (default: text)",
    )
    how.add_argument(
        "-v", "--verbose", action="store_true", help="log every call and every rejection"
    )


def run(args: argparse.Namespace) -> int:
    if args.print_config:
        put_text(args.configuration.text())
        return Exit.OK
    if args.tls_secret is None:
        return _run(args)
    with private_file() as file:
        return _run(args, file)


def _run(args: argparse.Namespace, file: Path | None = None) -> int:
    """Serves; `file` is for a certificate that is kept in a Secret."""
    moved = tuple(move_taken_ports(args, _view_port(args))) if args.demo else ()
    settings = _settings(args, file)
    schedulers = _schedulers(args)
    policies = _policies(args)
    cluster = _cluster(args)
    log = start_logging(args.log_format, verbose=args.verbose)
    quiet = QuietStart()
    if args.demo and not args.policies and not args.verbose:
        log.addFilter(quiet)
    raise_open_files()
    if warning := too_few_files(settings):
        log.warning("%s", warning)
    metrics = Metrics(CollectorRegistry(), version())
    tls = credentials(settings, metrics, log) if file is None else None
    options = Options(
        settings,
        policies,
        cluster,
        exemptions(args),
        version(),
        schedulers,
        _view_port(args),
        args.scheduler_name[0] if args.scheduler_name else DEFAULT_SCHEDULER,
        Frozen.of(args.frozen_label, args.frozen_annotation),
        self_signed(args) if file is not None else None,
        args.configuration.document(),
        _file(args, file),
        data_access(args),
    )

    def started(url: str, reloader: PolicyReloader) -> None:
        log.info("listening on %s", url)
        if warning := exposure(settings):
            log.warning("%s", warning)
        log.removeFilter(quiet)
        if args.demo:
            try:
                print(*announcement(url, options.view_port, reloader, moved), sep="\n", flush=True)
            except (BrokenPipeError, OutputError) as error:
                close_output()
                log.warning("the introduction to the demo is lost: %s", error)

    try:
        asyncio.run(serve(options, load_schema(), metrics, tls, log, started))
    except KeyboardInterrupt:
        log.info("stopped before it served")
        raise
    except CannotListenError as error:
        raise cannot_listen(error.error, error.address, error.flag) from None
    except TlsError as error:
        raise _unusable(error) from None
    except ClusterFileError as error:
        raise CommandError(error.message, error.hint) from None
    except ClusterConfigurationError as error:
        raise CommandError(str(error), error.hint) from None
    else:
        log.info("stopped")
        return Exit.OK
    finally:
        finish_log()


# The flags whose changes in the configuration file need no restart.
APPLIED = (
    "exempt_namespace",
    "http_timeout",
    "log_format",
    "max_connections",
    "max_in_flight",
    "no_bypass",
    "verbose",
)


def _file(args: argparse.Namespace, file: Path | None) -> ConfigurationFile | None:
    """The configuration file, to be read again; `file` is for a certificate kept in a Secret."""
    if args.config is None:
        return None
    flags = {flag.key: flag for flag in args.configuration.flags}

    def read() -> ServerConfiguration:
        try:
            again = args.read_again()
            # The others keep the values that the server was started with.
            changed = {key: vars(again)[key] for key in APPLIED}
            merged = argparse.Namespace(**{**vars(args), **changed})
            settings = _settings(merged, file)
        except CommandError as error:
            raise UnusableConfigurationError(error.message) from None
        document = again.configuration.document()
        exempt = exemptions(merged)
        return ServerConfiguration(document, settings, exempt, merged.log_format, merged.verbose)

    return ConfigurationFile(args.config, read, {flags[key].field for key in APPLIED})


def _settings(args: argparse.Namespace, file: Path | None) -> Settings:
    host, port = args.listen
    try:
        return Settings(
            host=host,
            port=port,
            http_timeout=args.http_timeout,
            body_limit=args.body_limit,
            body_budget=args.body_budget,
            resolvable_rejections=args.resolvable_rejections,
            max_in_flight=args.max_in_flight,
            max_connections=args.max_connections,
            binds=args.bind,
            lameduck=args.lameduck,
            health=args.health_listen,
            webhooks=args.webhook_listen,
            tls=tls_files(args, file),
        )
    except SettingsError as error:
        raise CommandError(str(error), "see placet serve --help") from None


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


def _view_port(args: argparse.Namespace) -> int | None:
    # Whoever lets the system choose a port runs several servers on one host.
    default = DEFAULT_PORT if args.listen[1] else 0
    given: int | None = vars(args).get("view_port", default)
    return given


def _policies(args: argparse.Namespace) -> list[Path]:
    # A live cluster can have policies of its own.
    watches = not (args.cluster or args.no_cluster or args.demo)
    if not args.policies and not args.demo and not watches:
        hint = "name some with --policies PATH, or look around with --demo"
        raise CommandError("there are no policies", hint)
    for problem in Disk().run(lambda visit: load(args.policies, visit)).problems:
        # A folder may get its files later, but a file that cannot be read is an error.
        if problem.unread or not Path(problem.path).is_dir():
            raise CommandError(problem.message, problem.hint)
    if args.demo and not args.policies:
        return [_folder("policies", "library"), _folder("cli", "demo")]
    return list(args.policies)


def _cluster(args: argparse.Namespace) -> Access | SnapshotOrigin | None:
    named = {
        "--demo": args.demo,
        "--cluster": bool(args.cluster),
        "--no-cluster": args.no_cluster,
        "--kubeconfig": args.kubeconfig is not None or args.context is not None,
    }
    given = [flag for flag, is_given in named.items() if is_given]
    if len(given) > 1:
        hint = f"leave out {' or '.join(given)}"
        raise CommandError(f"{' and '.join(given)} each name a cluster", hint)
    if args.no_cluster:
        return None
    if args.demo:
        return Demo()
    if args.cluster:
        return ClusterFiles(args.cluster)
    limits = Limits(args.kube_api_qps, args.kube_api_burst)
    timing = Timing(idle=args.watch_idle)
    return Access(args.kubeconfig, args.context, args.lease, args.standby, limits, timing)


def _unwatched(args: argparse.Namespace) -> Mapping[str, bool]:
    """Whether the flags are given with which no cluster is watched."""
    return {
        "--demo": args.demo,
        "--cluster": bool(args.cluster),
        "--no-cluster": args.no_cluster,
    }


def _schedulers(args: argparse.Namespace) -> Schedulers:
    """The schedulers that call this server. Raises CommandError."""
    given = {
        "--bind": args.bind,
        "--scheduler-name": bool(args.scheduler_name),
        "--scheduler-lease": args.scheduler_lease is not None,
        "--bind-timeout": args.bind_timeout is not None,
        "--permit-timeout": args.permit_timeout is not None,
        "--gate": args.gate,
    }
    unwatched = _unwatched(args)
    for flag in (flag for flag, is_given in given.items() if is_given):
        for other in (other for other, is_given in unwatched.items() if is_given):
            hint = f"leave out {flag}, or leave out {other} and name a --kubeconfig"
            message = f"{flag} has no effect with {other}: no pod is bound there"
            raise CommandError(message, hint)
    defaults = DEFAULT_SCHEDULERS
    return Schedulers(
        frozenset(args.scheduler_name) or defaults.names,
        defaults.bind_timeout if args.bind_timeout is None else args.bind_timeout,
        defaults.permit_timeout if args.permit_timeout is None else args.permit_timeout,
        args.bind,
        is_watched=not any(unwatched.values()),
        lease=args.scheduler_lease or defaults.lease,
        gate=args.gate,
    )


def _folder(package: str, name: str) -> Path:
    """A folder of policies that come with Placet, relative to the working directory if possible."""
    folder = Path(str(files(package).joinpath(name)))
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder
