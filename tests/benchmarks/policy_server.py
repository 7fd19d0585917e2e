"""An API server with many policy objects, and few nodes; prints its address.

The argument is the number of namespaces, each with one PlacementPolicy: a third have the same text,
a third use policies of the library, and a third have texts that differ by a constant. `POST /edits`
changes the rules of one of the last ones. Statuses are taken, and `GET /statuses` counts them.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from aiohttp import web

from engine.cache.informers import BUDGETS, CONTROLLERS, NAMESPACES, NODES, PODS, POLICIES
from tests.support import builders
from tests.support.builders import placement_policy
from tests.support.fake_api_server import FakeApiServer, listening

_NODES = 100
_OBJECTS = next(resource.path for resource in POLICIES if resource.name == "placementpolicies")
_SAME = """\
share "spot" {
  of replicas on nodes where node.labels["karpenter.sh/capacity-type"] == "spot"
  at most 40% strict
}
spread "zones" { over node.zone skew at most 1 strict }
limit "one per node" { per node at most 1 strict }
"""
_USES = 'use "library/no-spot"\nuse "library/one-per-zone"\n'
_OWN = """\
let pool = node.labels[?"pool"].orValue("shared")
filter "pool" {{ require pool == "team-{number}" || pool == "shared" message "for others" }}
filter "headroom" {{ require node.usage["memory"] <= 0.9 }}
score "pack cpu" weight 20 {{ value node.usage["cpu"] range 0 .. 1 }}
"""
_MORE = 'score "few pods" weight 5 {{ value size(node.pods) range {edit} .. 0 }}\n'


class PolicyServer(FakeApiServer):
    """The objects, and what a client says of them."""

    def __init__(self, policies: int) -> None:
        super().__init__()
        self._edits = self._statuses = 0
        resources = (NODES, PODS, NAMESPACES, BUDGETS, *POLICIES, *CONTROLLERS.values())
        for resource in resources:
            self.open(resource.path)
        for number in range(_NODES):
            made = builders.node(f"n{number}", f"eu-{number % 3}")
            self.put(NODES.path, f"n{number}", **made)
        for number in range(policies):
            self._write(number, 1, (_SAME, _USES, _OWN.format(number=number))[number % 3])

    def _write(self, number: int, generation: int, rules: str) -> None:
        made = placement_policy({"podSelector": {"matchLabels": {"app": "web"}}, "rules": rules})
        metadata = {
            "uid": f"{number:036x}",
            "generation": generation,
            "creationTimestamp": builders.CREATED,
        }
        known = self.objects(_OBJECTS).get(f"team-{number}/web", {})
        kept = {"status": known["status"]} if "status" in known else {}
        self.put(_OBJECTS, f"team-{number}/web", **{**made, "metadata": metadata, **kept})

    async def handle(self, request: web.Request) -> web.StreamResponse:
        match request.method, request.path:
            case "POST", "/edits":
                self._edits += 1
                self._write(
                    2, 1 + self._edits, _OWN.format(number=2) + _MORE.format(edit=self._edits)
                )
                return web.json_response({})
            case "GET", "/statuses":
                return web.json_response(self._statuses)
            case "POST", _:
                return web.json_response({})
            case "PATCH", path if path.endswith("/status"):
                return web.json_response(self._patched(path, json.loads(await request.read())))
            case _:
                return await super().handle(request)

    def _patched(self, path: str, patch: dict[str, Any]) -> dict[str, Any]:
        _, _, _, _, _, namespace, _, name, _ = path.split("/")
        key = f"{namespace}/{name}"
        known = self.objects(_OBJECTS)[key]
        status = {**known.get("status", {}), **patch["status"]}
        kept = {field: value for field, value in status.items() if value is not None}
        self._statuses += 1
        self.put(_OBJECTS, key, **{**known, "status": kept})
        return self.objects(_OBJECTS)[key]


async def main() -> None:
    server = PolicyServer(int(sys.argv[1]))
    async with listening(server):
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        # Until whoever started it closes its input.
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
