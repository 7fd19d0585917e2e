"""`placet serve`: answers kube-scheduler, and keeps up with the files that say how."""

from __future__ import annotations

import argparse
import asyncio
import errno
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from importlib.resources import files
from logging import Logger
from pathlib import Path

from prometheus_client import CollectorRegistry

from cli.arguments import address, lease, positive, seconds, size
from cli.exits import CommandError, Exit
from cli.serving import announcement, endurance, exempt, tls
from cli.serving.cluster import Demo, Files, NoCluster, Snapshots
from cli.serving.live import Access, Live
from cli.serving.logs import FORMATS, start_logging
from cli.serving.observer import LogObserver
from cli.serving.upkeep import Upkeep, View
from cli.version import version
from engine.cache.documents import ClusterFileError
from engine.cache.timing import Timing
from engine.cluster.configuration import own_namespace
from engine.cluster.throttle import Limits
from engine.errors import ClusterConfigurationError
from engine.journal import Journal
from grammar.schema import Schema, load_schema
from policies.admission import Examiner
from policies.loader import load
from server import running
from server.app import create_app
from server.decisions import Decisions
from server.departure import Departure
from server.health import Check
from server.metrics import Metrics
from server.settings import Settings, SettingsError

_EXAMPLES = """\
examples:
  placet serve --demo
  placet serve --policies policies/ --cluster cluster.json
  placet serve --policies policies/ --kubeconfig ~/.kube/config --listen 127.0.0.1:12345
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    what = parser.add_argument_group("what decides")
    what.add_argument(
        "--policies",
        metavar="PATH",
        nargs="+",
        action="extend",
        default=[],
        type=Path,
        help="policy files, and folders of them; read again when they change",
    )
    what.add_argument(
        "--cluster",
        metavar="SNAPSHOT",
        nargs="+",
        action="extend",
        default=[],
        type=Path,
        help="what `kubectl get nodes,pods -A -o json|yaml` wrote; read again when it changes. "
        "JSON is read sixty times as fast as YAML. Without it, the cluster of the kubeconfig, or "
        "the one that Placet runs in, is watched",
    )
    what.add_argument(
        "--kubeconfig",
        metavar="FILE",
        type=Path,
        help="how to reach the cluster (default: $KUBECONFIG, ~/.kube/config, or the service "
        "account of the pod)",
    )
    what.add_argument("--context", help="a context of the kubeconfig (default: its current one)")
    what.add_argument(
        "--watch-idle",
        metavar="TIME",
        type=seconds,
        default="120s",
        help="a watch that has been silent for so long is begun anew (default: %(default)s)",
    )
    what.add_argument(
        "--kube-api-qps",
        metavar="N",
        type=positive,
        default=200,
        help="requests to the API server a second, in the long run (default: %(default)s)",
    )
    what.add_argument(
        "--kube-api-burst",
        metavar="N",
        type=positive,
        default=400,
        help="requests to the API server that may come together (default: %(default)s)",
    )
    what.add_argument(
        "--lease",
        metavar="NAMESPACE/NAME",
        type=lease,
        default=f"{own_namespace()}/placet",
        help="the Lease by which replicas agree which of them decides by counts and writes; `none` "
        "if there is no other (default: %(default)s)",
    )
    what.add_argument(
        "--standby",
        action="store_true",
        help="be ready only while holding the Lease: for replicas behind one Service",
    )
    what.add_argument(
        "--no-cluster",
        action="store_true",
        help="know no cluster: requests must carry their nodes (nodeCacheCapable: false)",
    )
    what.add_argument(
        "--demo",
        action="store_true",
        help="a cluster that comes with Placet, and policies unless there are --policies",
    )
    exempt.configure(parser)
    how = parser.add_argument_group("how it serves")
    how.add_argument(
        "--listen",
        metavar="HOST:PORT",
        type=address,
        default="127.0.0.1:12345",
        help="where to listen; without HOST on every interface, with port 0 on any free one "
        "(default: %(default)s)",
    )
    how.add_argument(
        "--http-timeout",
        metavar="TIME",
        type=seconds,
        default="5s",
        help="the extender's httpTimeout in kube-scheduler's configuration; "
        "answers take four fifths of it at most (default: %(default)s)",
    )
    how.add_argument(
        "--body-limit",
        metavar="SIZE",
        type=size,
        default="64Mi",
        help="the longest request that is read (default: %(default)s)",
    )
    how.add_argument(
        "--resolvable-rejections",
        action="store_true",
        help="send rejections that evictions could cure as FailedNodes; only for kube-schedulers "
        "newer than 1.36, which let extenders add victims",
    )
    endurance.configure(parser)
    tls.configure(parser)
    how.add_argument(
        "--log-format",
        choices=FORMATS,
        default="text",
        help="of the log on standard error, a line for each event (default: text)",
    )
    how.add_argument(
        "-v", "--verbose", action="store_true", help="log every call and every rejection"
    )


def run(args: argparse.Namespace) -> int:
    settings = _settings(args)
    policies = _policies(args)
    log = start_logging(args.log_format, verbose=args.verbose)
    metrics = Metrics(CollectorRegistry(), version())
    credentials = tls.credentials(settings, metrics, log)
    schema = load_schema()
    departure = Departure()
    view = _view(args, schema, log, lambda: departure.has_begun)
    observer = LogObserver(log, metrics)
    upkeep = Upkeep(policies, view, schema, observer, log, exempt.exemptions(args))
    if isinstance(view, Snapshots):
        try:
            view.read()
        except ClusterFileError as error:
            raise CommandError(error.message, error.hint) from None
    live = view if isinstance(view, Live) else None
    journal = Journal()

    def readiness() -> Sequence[Check]:
        return (departure.check(), *upkeep.readiness())

    app = create_app(
        upkeep.engine,
        readiness,
        settings,
        metrics,
        log,
        version(),
        view.size,
        live,
        live,
        Examiner(schema, lambda: upkeep.policies.validation),
        Decisions(journal),
        departure,
    )

    def started(url: str) -> None:
        log.info("listening on %s", url)
        if args.demo:
            print(*announcement.demo(url, upkeep), sep="\n", flush=True)
        # Not before: what is announced nobody has asked.
        upkeep.engine.journal = journal
        upkeep.engine.later = asyncio.get_running_loop().call_soon

    async def serve() -> None:
        async with AsyncExitStack() as stack:
            if settings.health is not None:
                try:
                    endurance.tell_health(stack, settings.health, readiness, metrics, log)
                except OSError as error:
                    raise _cannot_listen(error, settings.health, "--health-listen") from None
            await _follow(stack, upkeep)
            await running.serve(app, settings, started, credentials, departure)

    try:
        asyncio.run(serve())
    except OSError as error:
        raise _cannot_listen(error, (settings.host, settings.port), "--listen") from None
    except ClusterConfigurationError as error:
        raise CommandError(str(error), error.hint) from None
    log.info("stopped")
    return Exit.OK


async def _follow(stack: AsyncExitStack, upkeep: Upkeep) -> None:
    """Follows cluster and policies until the stack ends. Raises ClusterConfigurationError."""
    if isinstance(upkeep.view, Live):
        await upkeep.view.connect(stack, upkeep)
    looking = asyncio.create_task(upkeep.run())
    stack.callback(looking.cancel)


def _settings(args: argparse.Namespace) -> Settings:
    host, port = args.listen
    try:
        return Settings(
            host=host,
            port=port,
            http_timeout=args.http_timeout,
            body_limit=args.body_limit,
            resolvable_rejections=args.resolvable_rejections,
            max_in_flight=args.max_in_flight,
            lameduck=args.lameduck,
            health=args.health_listen,
            tls=tls.tls_files(args),
        )
    except SettingsError as error:
        raise CommandError(str(error), "see placet serve --help") from None


def _cannot_listen(error: OSError, listen: tuple[str, int], flag: str) -> CommandError:
    where = ":".join(map(str, listen))
    if error.errno == errno.EADDRINUSE:
        hint = f"name another with {flag} HOST:PORT, or end the program that has it"
        return CommandError(f"cannot listen on `{where}`: the port is taken", hint)
    reason = (error.strerror or str(error)).lower()
    return CommandError(f"cannot listen on `{where}`: {reason}", f"name another with {flag}")


def _policies(args: argparse.Namespace) -> list[Path]:
    # A cluster has policies of its own.
    watches = not (args.cluster or args.no_cluster or args.demo)
    if not args.policies and not args.demo and not watches:
        hint = "name some with --policies PATH, or look around with --demo"
        raise CommandError("there are no policies to decide by", hint)
    for problem in load(args.policies).problems:
        # A folder may be filled later; what is there and cannot be read is a mistake.
        if problem.unread or not Path(problem.path).is_dir():
            raise CommandError(problem.message, problem.hint)
    if args.demo and not args.policies:
        return [_folder("policies", "library"), _folder("cli", "demo")]
    return list(args.policies)


def _view(args: argparse.Namespace, schema: Schema, log: Logger, ends: Callable[[], bool]) -> View:
    """Where the cluster is known from."""
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
        return NoCluster()
    if args.demo:
        return Snapshots(Demo(), schema, log)
    if args.cluster:
        return Snapshots(Files(args.cluster), schema, log)
    limits = Limits(args.kube_api_qps, args.kube_api_burst)
    access = Access(args.kubeconfig, args.context, args.lease, args.standby, limits)
    return Live(access, Timing(idle=args.watch_idle), schema, log, ends)


def _folder(package: str, name: str) -> Path:
    """A folder of policies that come with Placet, as short as it can be said."""
    folder = Path(str(files(package).joinpath(name)))
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder
