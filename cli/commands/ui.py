"""UI: the command that opens the page of a running Placet in the browser."""

from __future__ import annotations

import argparse
import asyncio
import sys
import webbrowser
from contextlib import AsyncExitStack

from cli import replicas
from cli.command import CommandError, Exit, flags_of
from server.answers import ReplicaStatus
from server.view.page import ROOT

EXAMPLES = """\
examples:
  placet ui
  placet ui --replica placet-0 --local-port 8080
  placet ui --no-browser
  placet ui --url http://127.0.0.1:12346
"""
_LOOK_SECONDS = 0.5


ARGUMENTS = flags_of(f"""
  --local-port PORT
    the port on 127.0.0.1 that leads to the replica (default: any free port)
  --no-browser
    print the address only, and open no browser
{replicas.PLACET}
""")


def run(args: argparse.Namespace) -> int:
    if args.url is not None and args.local_port:
        raise CommandError(
            "--local-port has no effect with --url", "leave out one: --url needs no port forwarding"
        )
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    async with replicas.replicas(args) as found:
        # The first one that answers; whoever may not forward a port learns it here.
        answers, _ = await replicas.ask_all(found, "/status", ReplicaStatus)
        shown, status = next(iter(answers.items()))
        others = [each for each in found if each is not shown]
        async with AsyncExitStack() as forwards:
            url = await forwards.enter_async_context(shown.on_port(args.local_port or 0))
            address = f"{url}{ROOT}/"
            if others:
                urls = [await forwards.enter_async_context(each.on_port(0)) for each in others]
                ports = [each.rpartition(":")[2] for each in (url, *urls)]
                pairs = zip((shown, *others), ports, strict=True)
                # The page offers them, and gives the list on to that of another replica.
                named = ",".join(f"{each.name}:{port}" for each, port in pairs)
                address += f"?replicas={named}"
            print(f"the view of replica {status.replica}: {address}", flush=True)
            if others:
                names = ", ".join(each.name for each in others)
                print(f"choose another on the page, or by --replica: {names}", flush=True)
            if not args.no_browser and not await asyncio.to_thread(webbrowser.open, address):
                print("there is no browser to open; open the address yourself", file=sys.stderr)
            if args.url is None:
                print("Ctrl-C ends it", flush=True)
                # It raises CommandError when the pod cannot be reached any more.
                while True:
                    await asyncio.sleep(_LOOK_SECONDS)
                    shown.check()
    return Exit.OK
