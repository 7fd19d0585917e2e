"""Command `conformance`: holds any extender to what kube-scheduler expects of it."""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import ssl
import tempfile
import time
from argparse import ArgumentTypeError
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import get_args

import aiohttp

from cli.command import CommandError, Exit, flags_of, positive
from cli.conformance.api_server import StandInApi, stand_in_api, write_kubeconfig
from cli.conformance.exchange import Caller, Verb, contracts, own_cluster, read_cluster
from cli.conformance.run import Conformance, ContractResult, counts
from cli.render import REPORT, put_note, put_report
from cli.streams import PassingLine
from grammar.messages.diagnostics import nearest
from grammar.messages.texts import os_reason
from server.settings import SettingsError

EXAMPLES = """\
examples:
  placet conformance http://127.0.0.1:12345/api/scheduler
  placet conformance http://127.0.0.1:12345/api/scheduler --node-cache-capable --cluster nodes.json
  placet conformance http://127.0.0.1:9251 --verbs filter=predicate,prioritize=prioritize
  placet conformance http://127.0.0.1:8888 --verbs filter,bind --node-cache-capable \\
    --start 'my-extender --kubeconfig {kubeconfig}'
  placet conformance http://127.0.0.1:8888 --only C19,C47
"""

_VERBS: tuple[Verb, ...] = get_args(Verb)
_START_SECONDS = 60.0
_END_SECONDS = 5.0


def _verbs(text: str) -> dict[Verb, str]:
    found: dict[Verb, str] = {}
    for each in text.split(","):
        given, _, path = each.strip().partition("=")
        verb = next((verb for verb in _VERBS if verb == given), None)
        if verb is None:
            close = nearest(given, _VERBS)
            known = f"a similar one exists: `{close}`" if close else f"one of {', '.join(_VERBS)}"
            raise ArgumentTypeError(f"there is no verb `{given}`: {known}")
        found[verb] = path.strip("/") or verb
    return found


def _contracts(text: str) -> tuple[str, ...]:
    known = [each.id for each in contracts()]
    found = tuple(each.strip().upper() for each in text.split(","))
    for each in found:
        if each not in known:
            raise ArgumentTypeError(
                f"there is no line `{each}`: they are {known[0]} to {known[-1]}"
            )
    return found


ARGUMENTS = flags_of(
    f"""
  URL
    the `urlPrefix` of the extender
  --verbs LIST=filter,prioritize,preempt
    what the extender answers, with its paths where they differ, as in filter=predicates,bind
  --node-cache-capable
    send names of nodes, as with `nodeCacheCapable: true`; without it nodes are whole
  --cluster PATH,
    nodes and pods to ask with, as kubectl writes them (default: three nodes of its own); pods
    without a node are asked about, best one that passes on some nodes only; may be given again
  --start COMMAND
    start the extender beside a stand-in API server that has the cluster; {{kubeconfig}} stands for
    the file that leads there, which is in KUBECONFIG too
  --only LINES
    lines of the contract: C19,C47
  --http-timeout SECONDS=5
    the longest answer, as `httpTimeout`
  --idle SECONDS=20
    how long a connection is idle for C2; 95 is more than kube-scheduler's 90
  --cacert FILE
    who signed the certificate
  --cert FILE
    a client certificate
  --key FILE
    the key of `--cert`
{REPORT}
""",
    {"--verbs": _verbs, "--only": _contracts, "SECONDS": positive},
)


def run(args: argparse.Namespace) -> int:
    args.url = args.url.rstrip("/")
    if not args.url.startswith(("http://", "https://")):
        raise CommandError(f"`{args.url}` is not a URL", f"write `http://{args.url}`")
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    began = time.monotonic()
    cluster = read_cluster(args.cluster) if args.cluster else own_cluster()
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(stand_in_api(cluster)) if args.start else None
        connector = aiohttp.TCPConnector(limit=0)
        session = await stack.enter_async_context(
            aiohttp.ClientSession(connector=connector, auto_decompress=True)
        )
        caller = Caller(session, args.url, args.verbs, args.http_timeout, _tls(args))
        if api is not None:
            await stack.enter_async_context(_started(args.start, api, caller))
        elif (why := await _unreached(caller)) is not None:
            raise CommandError(
                f"nothing answers at `{args.url}`: {why}",
                "start the extender, or let it be started with --start",
            )
        conformance = Conformance(
            caller, cluster, api, names=args.node_cache_capable, idle_seconds=args.idle
        )
        results, line = list[ContractResult](), PassingLine("")
        async for result in conformance.results(args.only or (), lambda c: line.show(f"{c} …")):
            results.append(result)
            line.show("")
            # For people each one is shown as it comes.
            if args.output == "human":
                print(f"{result.result:<15} {result.id:<4} {result.says}")
                if result.reason:
                    print(f"{'':<21}{result.reason}")
                put_report(result.findings, "human")
    if args.output != "human":
        findings = [each for result in results for each in result.findings]
        cases = (each for result in results for each in result.cases)
        more = {"url": args.url, "contracts": [result.as_json for result in results]}
        put_report(findings, args.output, cases, more)
    put_note(f"{counts(results)} in {time.monotonic() - began:.0f} s", args.output)
    return Exit.FINDINGS if any(each.result == "fail" for each in results) else Exit.OK


def _tls(args: argparse.Namespace) -> ssl.SSLContext | None:
    """How to verify the server; without a CA nothing is verified, as in kube-scheduler (C8)."""
    if not args.url.startswith("https://"):
        return None
    try:
        context = ssl.create_default_context(cafile=args.cacert)
        if args.cacert is None:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if args.cert is not None:
            context.load_cert_chain(args.cert, args.key)
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(
            f"the certificates cannot be read: {os_reason(error)}",
            "give PEM files with --cacert, --cert and --key",
        ) from None
    return context


async def _unreached(caller: Caller) -> str | None:
    """Why no connection can be made, or None."""
    try:
        _, writer = await asyncio.open_connection(caller.host, caller.port)
    except OSError as error:
        return os_reason(error)
    writer.close()
    return None


@asynccontextmanager
async def _started(command: str, api: StandInApi, caller: Caller) -> AsyncIterator[None]:
    """The extender as a process of its own, from when it accepts connections to the block's end."""
    if await _unreached(caller) is None:
        message = f"something answers at `{caller.url}` already"
        raise CommandError(message, "end it, or leave out --start")
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as log:
        kubeconfig = str(write_kubeconfig(Path(folder), api.url))
        words = [word.replace("{kubeconfig}", kubeconfig) for word in shlex.split(command)]
        try:
            process = await asyncio.create_subprocess_exec(
                *words, env={**os.environ, "KUBECONFIG": kubeconfig}, stdout=log, stderr=log
            )
        except OSError as error:
            message = f"`{words[0]}` cannot be started: {os_reason(error)}"
            raise CommandError(message, "give a command that the PATH has") from None
        try:
            await _listens(process, caller, log.fileno())
            yield
        finally:
            if process.returncode is None:
                process.terminate()
                try:
                    await asyncio.wait_for(process.wait(), _END_SECONDS)
                except TimeoutError:
                    process.kill()
                    await process.wait()


async def _listens(process: asyncio.subprocess.Process, caller: Caller, log: int) -> None:
    """Waits until the extender accepts connections. Raises CommandError if it never does."""
    deadline = time.monotonic() + _START_SECONDS
    while await _unreached(caller) is not None:
        if process.returncode is not None or time.monotonic() > deadline:
            size = os.fstat(log).st_size
            text = os.pread(log, 2000, max(size - 2000, 0)).decode("utf-8", "replace").strip()
            what = (
                f"ended with {process.returncode}"
                if process.returncode is not None
                else f"does not listen at `{caller.url}` after {_START_SECONDS:g} s"
            )
            last = next((f": {line}" for line in text.splitlines() if "error" in line.lower()), "")
            raise CommandError(f"the extender {what}{last}", "correct the command of --start")
        await asyncio.sleep(0.1)
    await asyncio.sleep(1)
