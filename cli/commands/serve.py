"""`placet serve`: answers kube-scheduler, and keeps up with policy files and the cluster."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from importlib.resources import files
from importlib.util import find_spec
from logging import Logger
from pathlib import Path

from prometheus_client import CollectorRegistry

from cli.command import CommandError, Exit, cannot_listen
from cli.demo.demo_cluster import Demo, QuietStart, announcement, move_taken_ports
from cli.render import print_error
from cli.serving.flags import add_flags
from cli.serving.source_flags import data_access
from cli.streams import OutputError, close_output, put_text
from cli.version import version
from engine.cache.cluster_file import ClusterFileError
from engine.cache.reflector import Timing
from engine.cluster.client import Limits
from engine.cluster.connection_configuration import own_namespace
from engine.counting.in_flight_pods import DEFAULT_SCHEDULERS, Schedulers
from engine.errors import ClusterConfigurationError
from engine.objects.peer import DEFAULT_SCHEDULER
from engine.objects.request_pod import SYSTEM_NAMESPACES, Exemptions
from engine.portable.label_conditions import Frozen
from grammar.meaning.schema import load_schema
from policies.disk import Disk
from policies.loader import load
from server.http.tls import Credentials, TlsError, private_file
from server.metrics.metrics import Metrics
from server.runtime.cluster_runtime import Access
from server.runtime.file_cluster import ClusterFiles, SnapshotOrigin
from server.runtime.observers import finish_log, start_logging
from server.runtime.reloader import PolicyReloader
from server.runtime.server_runtime import CannotListenError, Options, serve
from server.settings import (
    SelfSigned,
    Settings,
    SettingsError,
    TlsFiles,
    TraceTarget,
    exposure,
    is_loopback,
    raise_open_files,
    too_few_files,
)
from server.view.history import HistoryError
from server.view.page import DEFAULT_PORT


def exemptions(args: argparse.Namespace) -> Exemptions:
    named = set(args.exempt_namespace)
    always = frozenset() if "none" in named else SYSTEM_NAMESPACES | {own_namespace()}
    return Exemptions(always | (named - {"none"}), by_annotation=not args.no_bypass)


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
    if other := _unwatched(args):
        hint = "leave it out, or name files with --tls-cert and --tls-key"
        raise CommandError(f"--tls-secret has no effect with {other}: no cluster keeps it", hint)
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
    add_flags(parser)


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
    _shared_view(args)
    schedulers = _schedulers(args)
    policies = _policies(args)
    cluster = _cluster(args)
    log = start_logging(args.log_format, verbose=args.verbose)
    quiet = QuietStart()
    raise_open_files()
    for warning in filter(None, (too_few_files(settings), *_idle_flags(args))):
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
        data_access(args),
        frozenset(args.policy_first),
        history=args.history,
        traces=_traces(args),
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

    if args.demo and not args.policies and not args.verbose:
        log.addFilter(quiet)
    try:
        asyncio.run(serve(options, load_schema(), metrics, tls, log, started))
    except KeyboardInterrupt:
        log.info("stopped before it served")
        raise
    except HistoryError as error:
        raise CommandError(str(error), "name another file with --history FILE") from None
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
        log.removeFilter(quiet)
        finish_log()


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
            shared_view=args.view_listen,
            tls=tls_files(args, file),
        )
    except SettingsError as error:
        raise CommandError(str(error), "see placet serve --help") from None


def _shared_view(args: argparse.Namespace) -> None:
    """Raises CommandError for a shared view without a cluster that knows its users."""
    if args.view_listen is not None and (other := _unwatched(args)):
        hint = f"leave out {other}, or use the view on this host (--view-port)"
        raise CommandError(f"--view-listen has no effect with {other}: no cluster has users", hint)


def _traces(args: argparse.Namespace) -> TraceTarget | None:
    """Where spans go. Raises CommandError."""
    if args.traces is None:
        return None
    try:
        has_packages = find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        has_packages = False
    if not has_packages:
        hint = "install them with pip install 'placet[traces]'"
        raise CommandError("--traces needs packages that are not installed", hint)
    return TraceTarget(args.traces, args.trace_ratio)


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
    problems = Disk().run(lambda visit: load(args.policies, visit)).problems
    # A folder may get its files later, but a file that cannot be read is an error.
    wrong = [each for each in problems if each.unread or not Path(each.path).is_dir()]
    for other in wrong[:-1]:
        print_error(other.message, other.hint)
    if wrong:
        raise CommandError(wrong[-1].message, wrong[-1].hint)
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
    is_shared = not is_loopback(args.listen[0])
    return Access(
        args.kubeconfig,
        args.context,
        args.lease,
        args.standby,
        limits,
        timing,
        is_shared,
        args.repair,
    )


def _unwatched(args: argparse.Namespace) -> str:
    """The flag with which no cluster is watched; empty if one is."""
    named = {"--demo": args.demo, "--cluster": args.cluster, "--no-cluster": args.no_cluster}
    return next((flag for flag, is_given in named.items() if is_given), "")


def _idle_flags(args: argparse.Namespace) -> Iterator[str]:
    """The warnings about flags that do nothing because no cluster is watched."""
    given = {
        "--standby": args.standby,
        "--repair": args.repair != "off",
        "--policy-first": args.policy_first,
    }
    if other := _unwatched(args):
        for flag in (flag for flag, is_given in given.items() if is_given):
            hint = f"leave it out, or leave out {other} and name a --kubeconfig"
            yield f"{flag} has no effect with {other}, as no cluster is watched: {hint}"


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
    other = _unwatched(args)
    for flag in (flag for flag, is_given in given.items() if is_given and other):
        hint = f"leave out {flag}, or leave out {other} and name a --kubeconfig"
        message = f"{flag} has no effect with {other}: no pod is bound there"
        raise CommandError(message, hint)
    defaults = DEFAULT_SCHEDULERS
    return Schedulers(
        frozenset(args.scheduler_name) or defaults.names,
        defaults.bind_timeout if args.bind_timeout is None else args.bind_timeout,
        defaults.permit_timeout if args.permit_timeout is None else args.permit_timeout,
        args.bind,
        is_watched=not other,
        lease=args.scheduler_lease or defaults.lease,
        gate=args.gate,
    )


def _folder(package: str, name: str) -> Path:
    """A folder of policies that come with Placet, relative to the working directory if possible."""
    folder = Path(str(files(package).joinpath(name)))
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder
