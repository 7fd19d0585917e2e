"""`placet serve`: answers kube-scheduler, and keeps up with the files that say how."""

from __future__ import annotations

import argparse
import asyncio
import errno
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from aiohttp import web
from prometheus_client import CollectorRegistry

from cli.arguments import address, seconds, size
from cli.exits import CommandError, Exit
from cli.serving import announcement
from cli.serving.cluster import Demo, Files, Origin
from cli.serving.logs import FORMATS, start_logging
from cli.serving.observer import LogObserver
from cli.serving.upkeep import Upkeep
from cli.version import version
from engine.cache.documents import ClusterFileError
from policies.loader import load
from policies.watcher import INTERVAL_SECONDS
from server import running
from server.app import create_app
from server.metrics import Metrics
from server.settings import Settings, SettingsError


def configure(parser: argparse.ArgumentParser) -> None:
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
        "JSON is read sixty times as fast as YAML. Without a cluster, requests must carry their "
        "nodes (nodeCacheCapable: false)",
    )
    what.add_argument(
        "--demo",
        action="store_true",
        help="a cluster that comes with Placet, and policies unless there are --policies",
    )
    how = parser.add_argument_group("how it serves")
    how.add_argument(
        "--listen",
        metavar="HOST:PORT",
        type=address,
        default="127.0.0.1:12345",
        help="default: %(default)s",
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
    how.add_argument("--log-format", choices=FORMATS, default="text", help="default: text")
    how.add_argument("-v", "--verbose", action="store_true", help="log every rejection too")


def run(args: argparse.Namespace) -> int:
    settings = _settings(args)
    policies, origin = _sources(args)
    log = start_logging(args.log_format, verbose=args.verbose)
    metrics = Metrics(CollectorRegistry(), version())
    try:
        upkeep = Upkeep(policies, origin, LogObserver(log, metrics), log)
    except ClusterFileError as error:
        raise CommandError(error.message, error.hint) from None
    app = create_app(
        upkeep.engine, upkeep.readiness, settings, metrics, log, version(), upkeep.cluster_size
    )

    def started(url: str) -> None:
        log.info("listening on %s", url)
        if args.demo:
            print(*announcement.demo(url, upkeep), sep="\n", flush=True)

    try:
        asyncio.run(_serve(app, settings, upkeep, started))
    except OSError as error:
        raise _cannot_listen(error, settings) from None
    log.info("stopped")
    return Exit.OK


async def _serve(
    app: web.Application, settings: Settings, upkeep: Upkeep, started: Callable[[str], None]
) -> None:
    """Serves and looks at files until SIGTERM or SIGINT. Raises OSError."""
    watching = asyncio.create_task(_watch(upkeep))
    try:
        await running.serve(app, settings, started)
    finally:
        watching.cancel()


async def _watch(upkeep: Upkeep) -> None:
    while True:
        await asyncio.sleep(INTERVAL_SECONDS)
        # Requests are answered while files are read.
        await asyncio.to_thread(upkeep.refresh)


def _settings(args: argparse.Namespace) -> Settings:
    host, port = args.listen
    try:
        return Settings(
            host=host,
            port=port,
            http_timeout=args.http_timeout,
            body_limit=args.body_limit,
            resolvable_rejections=args.resolvable_rejections,
        )
    except SettingsError as error:
        raise CommandError(str(error), "see placet serve --help") from None


def _cannot_listen(error: OSError, settings: Settings) -> CommandError:
    where = f"{settings.host}:{settings.port}"
    if error.errno == errno.EADDRINUSE:
        hint = "name another with --listen HOST:PORT, or end the program that has it"
        return CommandError(f"cannot listen on `{where}`: the port is taken", hint)
    reason = (error.strerror or str(error)).lower()
    return CommandError(f"cannot listen on `{where}`: {reason}", "name another with --listen")


def _sources(args: argparse.Namespace) -> tuple[list[Path], Origin | None]:
    """The paths of the policies, and where the cluster is from."""
    if args.demo and args.cluster:
        hint = "leave out --demo, and name --policies"
        raise CommandError("--demo has a cluster of its own", hint)
    if not args.policies and not args.demo:
        hint = "name some with --policies PATH, or look around with --demo"
        raise CommandError("there are no policies to decide by", hint)
    for problem in load(args.policies).problems:
        # A folder may be filled later; what is there and cannot be read is a mistake.
        if problem.unread or not Path(problem.path).is_dir():
            raise CommandError(problem.message, problem.hint)
    paths = args.policies or [_folder("policies", "library"), _folder("cli", "demo")]
    origin = Demo() if args.demo else Files(args.cluster) if args.cluster else None
    return paths, origin


def _folder(package: str, name: str) -> Path:
    """A folder of policies that come with Placet, as short as it can be said."""
    folder = Path(str(files(package).joinpath(name)))
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder
