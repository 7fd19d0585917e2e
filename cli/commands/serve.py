"""`placet serve`: answers kube-scheduler, and keeps up with policy files and the cluster."""

from __future__ import annotations

import argparse
import asyncio
import stat
from collections.abc import Collection
from dataclasses import fields
from functools import partial
from importlib.resources import files
from pathlib import Path
from ssl import PROTOCOL_TLS_CLIENT, SSLContext

from prometheus_client import CollectorRegistry

from cli.command import CommandError, Exit, read_file, read_text, unreadable
from cli.demo.demo_cluster import Demo, announcement
from cli.placet_configuration import FLAGS
from cli.render import print_error
from cli.streams import OutputError, close_output, put_text
from cli.version import version
from engine.cluster.connection_configuration import own_namespace
from engine.cluster.data_fetching import headers_of
from engine.counting.in_flight_pods import DEFAULT_SCHEDULERS, Schedulers
from engine.errors import ClusterConfigurationError
from engine.objects.peer import DEFAULT_SCHEDULER
from engine.objects.request_pod import SYSTEM_NAMESPACES, Exemptions
from engine.selectors.terms import Frozen
from grammar.meaning.schema import load_schema
from policies.disk import Disk, Visit
from policies.loader import load
from server.capabilities.table import CAPABILITY_METRICS
from server.http.tls import Credentials, TlsError, load_authority, private_file
from server.metrics.metrics import Metrics
from server.options import Options
from server.runtime.file_cluster import ClusterFiles
from server.runtime.observers import finish_log, start_logging
from server.runtime.policies import PolicyReloader
from server.runtime.server_runtime import serve
from server.settings import (
    SelfSigned,
    SettingsError,
    TlsFiles,
    exposure,
    raise_open_files,
    too_few_files,
)
from server.view.page import DEFAULT_PORT

# Flags without an effect where no cluster is watched.
_WATCHED = (
    *("standby", "repair", "policy_first", "tls_secret", "view_listen", "bind", "gate"),
    *("scheduler_name", "scheduler_lease", "bind_timeout", "permit_timeout"),
)
# Flags without an effect unless one of the others is given too.
_NEEDS = (
    ("client_name", "client_ca"),
    ("client_ca", "tls_cert", "tls_secret"),
    ("tls_cert", "tls_key"),
    ("tls_key", "tls_cert"),
    ("tls_name", "tls_secret"),
    ("webhook_configuration", "tls_secret"),
    ("tls_secret", "tls_name"),
)
# Flags of which one alone may be given.
_ALTERNATIVES = (
    ("cluster", "demo", "cluster", "no_cluster", "kubeconfig", "context"),
    ("certificate", "tls_secret", "tls_cert"),
)


def _check_together(given: Collection[str]) -> None:
    """Raises CommandError for flags that do not go together."""
    for what, *flags in _ALTERNATIVES:
        found = [_name(key) for key in flags if key in given]
        if len(found) > 1 and found != ["--kubeconfig", "--context"]:
            named = f"{' and '.join(found)} each name a {what}"
            raise CommandError(named, f"leave out {' or '.join(found)}")
    for key, *needed in _NEEDS:
        if key in given and not any(each in given for each in needed):
            text = f"{_name(key)} has no effect without {_name(needed[0])}"
            raise CommandError(text, f"add {_name(needed[0])}")
    unwatched = [key for key in ("demo", "cluster", "no_cluster") if key in given]
    for key in _WATCHED:
        if unwatched and key in given:
            flag, other = _name(key), _name(unwatched[0])
            hint = f"leave out {flag}, or leave out {other} and name a --kubeconfig"
            text = f"{flag} has no effect with {other}: no cluster is watched"
            raise CommandError(text, hint)


def _name(key: str) -> str:
    return f"--{key.replace('_', '-')}"


EXAMPLES = """\
examples:
  placet serve --demo
  placet serve --policies policies/ --cluster cluster.json
  placet serve --policies policies/ --kubeconfig ~/.kube/config --listen 127.0.0.1:12345
"""


ARGUMENTS = FLAGS


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
    given = args.configuration.given.values()
    _check_together({each.flag.key for each in given if each.value not in (False, "off", [])})
    options = _options(args, file)
    Disk().run(partial(_check_data, options))
    log = start_logging(args.log_format, verbose=args.verbose)
    raise_open_files()
    if warning := too_few_files(options):
        log.warning("%s", warning)
    metrics = Metrics(CollectorRegistry(), version(), CAPABILITY_METRICS)

    def started(url: str, reloader: PolicyReloader) -> None:
        log.info("listening on %s", url)
        if warning := exposure(options):
            log.warning("%s", warning)
        if args.demo:
            try:
                print(*announcement(url, options.view_port, reloader), sep="\n", flush=True)
            except (BrokenPipeError, OutputError) as error:
                close_output()
                log.warning("the introduction to the demo is lost: %s", error)

    try:
        tls = None
        if options.tls is not None and file is None:
            tls = Credentials(options.tls, metrics, log)
        asyncio.run(serve(options, load_schema(), metrics, tls, log, started))
    except KeyboardInterrupt:
        log.info("stopped before it served")
        raise
    except TlsError as error:
        hint = "use PEM files: a certificate with its chain, and its key without a password"
        raise CommandError(str(error), hint) from None
    except ClusterConfigurationError as error:
        raise CommandError(str(error), error.hint) from None
    else:
        log.info("stopped")
        return Exit.OK
    finally:
        finish_log()


def _options(args: argparse.Namespace, file: Path | None) -> Options:
    """The options of the server: each flag that is one, and what several flags make together.

    `file` is for a certificate that is kept in a Secret. Without any there is plain HTTP.
    Raises CommandError.
    """
    known = {each.name for each in fields(Options)}
    given = {key: value for key, value in vars(args).items() if key in known}
    names, named = args.scheduler_name, set(args.exempt_namespace)
    always = frozenset() if "none" in named else SYSTEM_NAMESPACES | {own_namespace()}
    host, port = args.listen
    watches = not (args.demo or args.cluster or args.no_cluster)
    tls, self_signed, clients = None, None, (args.client_ca, frozenset(args.client_name))
    if file is not None:
        own = tuple(dict.fromkeys(args.tls_name))
        self_signed = SelfSigned(args.tls_secret, own, tuple(args.webhook_configuration))
        tls = TlsFiles(file, file, *clients, self_signed.shown)
    elif args.tls_cert is not None:
        tls = TlsFiles(args.tls_cert, args.tls_key, *clients)
    made = {
        "host": host,
        "port": port,
        "tls": tls,
        "version": version(),
        "policies": _policies(args, watches=watches),
        "watches": watches,
        "snapshots": Demo() if args.demo else ClusterFiles(args.cluster) if args.cluster else None,
        "exemptions": Exemptions(always | (named - {"none"}), by_annotation=not args.no_bypass),
        "schedulers": Schedulers(
            frozenset(names) or DEFAULT_SCHEDULERS.names,
            args.bind_timeout,
            args.permit_timeout,
            args.bind,
            is_watched=watches,
            lease=args.scheduler_lease,
            gate=args.gate,
        ),
        "scheduler": names[0] if names else DEFAULT_SCHEDULER,
        "frozen": Frozen.of(args.frozen_label, args.frozen_annotation),
        "policy_first": frozenset(args.policy_first),
        "self_signed": self_signed,
    }
    if "view_port" not in args.configuration.given:
        # Whoever lets the system choose a port runs several servers on one host.
        made["view_port"] = DEFAULT_PORT if port else 0
    try:
        return Options(**{**given, **made})
    except SettingsError as error:
        raise CommandError(str(error), "see placet serve --help-all") from None


def _policies(args: argparse.Namespace, *, watches: bool) -> list[Path]:
    # A live cluster can have policies of its own.
    if not args.policies and not args.demo and not watches:
        hint = "name some with --policies PATH, or look around with --demo"
        raise CommandError("there are no policies", hint)
    problems = Disk().run(lambda visit: load(args.policies, visit)).problems
    # A wrong path is an error. What is there and gives no text is broken, which stops nothing else.
    wrong = [each for each in problems if each.is_gone and Path(each.path) in args.policies]
    for other in wrong[:-1]:
        print_error(other.message, other.hint)
    if wrong:
        raise CommandError(wrong[-1].message, wrong[-1].hint)
    if args.demo and not args.policies:
        return [_folder("policies", "library"), _folder("cli", "demo")]
    return list(args.policies)


def _check_data(options: Options, visit: Visit) -> None:
    """Raises CommandError for what cannot be used as a source of data."""
    folder, ca, token = options.data_folder, options.data_ca, options.data_token
    for path in (folder, ca, token, options.data_headers):
        if path is None:
            continue
        try:
            visit(path)
            is_folder = stat.S_ISDIR(path.stat().st_mode)
        except OSError as error:
            raise unreadable(str(path), error, "check the path") from None
        if path is folder and not is_folder:
            raise CommandError(f"`{path}` is not a folder", "name the folder of the files")
    if ca is not None:
        try:
            load_authority(SSLContext(PROTOCOL_TLS_CLIENT), ca)
        except TlsError as error:
            raise CommandError(str(error), "use a PEM file of certificates") from None
    if token is not None and not read_text(str(token), "check the path").strip():
        raise CommandError(f"`{token}` contains no token", "write the token into the file")
    if (headers := options.data_headers) is not None:
        try:
            headers_of(read_file(str(headers), "check the path"))
        except ValueError as error:
            hint = "write one a line, such as `X-Scope-OrgID: shop`; a token has `--data-token`"
            raise CommandError(f"`{headers}`: {error}", hint) from None


def _folder(package: str, name: str) -> Path:
    """A folder of policies that come with Placet, relative to the working directory if possible."""
    folder = Path(str(files(package).joinpath(name)))
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder
