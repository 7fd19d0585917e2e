"""The least that an extender on aiohttp can do: names are cut out of the body and sent back."""

from __future__ import annotations

import asyncio
import sys

from aiohttp import web

from server.http.sockets import runner_options
from server.settings import Settings

_KEY = b'"NodeNames":'
_BEFORE = b'{"Nodes":null,"NodeNames":'
_AFTER = b',"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}'


async def echo(request: web.Request) -> web.Response:
    body = await request.read()
    names = body[body.rindex(_KEY) + len(_KEY) : body.rindex(b"]") + 1]
    answer = b"".join((_BEFORE, names, _AFTER))
    return web.Response(body=answer, content_type="application/json")


async def abstain(request: web.Request) -> web.Response:
    await request.read()
    return web.Response(body=b"[]", content_type="application/json")


async def main() -> None:
    settings = Settings()
    app = web.Application(client_max_size=settings.body_limit)
    app.router.add_post("/filter", echo)
    app.router.add_post("/prioritize", abstain)
    runner = web.AppRunner(app, **runner_options(settings))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sys.stdout.write(f"listening on http://127.0.0.1:{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
