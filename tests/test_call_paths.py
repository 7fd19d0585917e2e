"""Call paths: how many files a call enters, and how often it moves from one to another.

A reader who follows a call opens these files in this order. The bounds are for a share and a score
on four nodes: from the bytes that arrive on a connection to those that are written to it, from the
bytes of a pod event to the cache, from a pod to the JSON of its explanation, and from a text to the
policies in force. A check of a file with one mistake has a bound, too. Only files of the five
packages count.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import pytest
from prometheus_client import CollectorRegistry

from cli.command import Exit
from cli.main import main
from engine.cache import store
from engine.cache.cluster_copy import NamedPod
from engine.decision.recent_answers import AfterDecision
from engine.enforced import EnforcedPolicies, enforced
from engine.explanation.explanation import Analyst, Asker, PodQuestion
from grammar.tree.source import Source
from policies.validation import Validator
from server.app import AppParts, create_app
from server.http.middleware import MisconfigurationWarnings
from server.http.sockets import CONNECTIONS
from server.metrics.metrics import Metrics
from server.runtime.policies import PolicyReader
from server.settings import Settings
from server.view.page import json_of
from tests.support.builders import node, pod, raw
from tests.support.engines import CODEC, SCHEMA, cache_of, engine_over
from tests.support.mirror import MemoryTransport
from tests.support.rows import rows
from tests.support.served import LOG, PROCESSES

ROOT = Path(__file__).parents[1]
PACKAGES = ("cli", "engine", "grammar", "policies", "server")

# Most files, and most moves between them.
FILTER = (20, 71)
PRIORITIZE = (19, 93)
POD_EVENT = (11, 51)
# A mistake is found, its hint is tried, and the text is checked again.
ONE_MISTAKE = (60, 3200)
QUESTION = (45, 700)
# Each kind of clause has a file in the language, and one in the engine.
EDIT = (59, 7_050)

POLICY = """
policy p {
  for pods where pod.labels["app"] == "web"
  filter "ready" { require node.labels["cap"] == "spot" || node.labels["cap"] == "od" }
  share "s" {
    pods where peer.labels["app"] == "web"
    on nodes where node.labels["cap"] == "spot" at most 40% strict
  }
  score "pack" weight 40 { value node.usage["cpu"] range 0 .. 1 }
}
"""
EDITED = """
policy p in namespace "shop" {
  for pods where pod.labels["app"] == "web"
  let cap = node.labels["cap"]
  filter "ready" { require cap == "spot" || cap == "od" message "no capacity for {pod.name}" }
  limit "few" { per node at most MOST strict }
  share "s" {
    pods where peer.labels["app"] == "web"
    on nodes where cap == "spot" at most 40% strict
  }
  spread "zones" { over node.zone skew at most 1 weight 10 }
  score "pack" weight 40 { value node.usage["cpu"] range 0 .. 1 }
}
"""
NODES = [node(f"n{i}", f"z{i}", labels={"cap": "spot" if i % 2 else "od"}) for i in range(4)]
WEB = pod("web-1", labels={"app": "web"})


# ---- what a call enters


@dataclass(frozen=True, slots=True)
class CallPath:
    """The files that a call entered, each time it moved to another one."""

    moves: tuple[str, ...]

    def report(self) -> str:
        """The files in the order in which they are first entered, with their share of the moves."""
        counts = Counter(self.moves)
        lines = [f"{counts[file]:4}  {file}" for file in dict.fromkeys(self.moves)]
        return "\n".join([f"{len(counts)} files, {len(self.moves)} moves:", *lines])

    def check(self, bounds: tuple[int, int]) -> None:
        files, moves = bounds
        if len(set(self.moves)) > files or len(self.moves) > moves:
            pytest.fail(f"at most {files} files and {moves} moves, but {self.report()}")


def path_of(call: Callable[[], object]) -> CallPath:
    """Follow a call through the files of the packages."""
    folders = tuple(f"{ROOT / package}/" for package in PACKAGES)
    moves: list[str] = []
    stack: list[str] = []

    def profile(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event not in ("call", "return") or not file.startswith(folders):
            return
        if event == "call":
            stack.append(file)
        elif stack:
            stack.pop()
        if stack and stack[-1] != (moves[-1] if moves else None):
            moves.append(stack[-1])

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(before)
    return CallPath(tuple(Path(file).relative_to(ROOT).as_posix() for file in moves))


# ---- a server without sockets


class Extender:
    """A server with one connection, over four nodes."""

    def __init__(self) -> None:
        self.cache = cache_of(NODES)
        after = AfterDecision(later=asyncio.get_running_loop().call_soon)
        engine = engine_over(POLICY, self.cache, after=after)
        self.cache.add_event_handler(engine.in_flight.pod_changed)
        self.store = store.pods(CODEC, self.cache)
        metrics = Metrics(CollectorRegistry(), "1.2.3")
        warnings = MisconfigurationWarnings(LOG, metrics, lambda: 0)
        app = create_app(AppParts(engine, lambda: (), Settings(), metrics, LOG, "1.2.3", warnings))
        self._transport = MemoryTransport()
        connection = app[CONNECTIONS].admit(asyncio.Protocol, "127.0.0.1")
        assert not isinstance(connection, str)
        connection.connection_made(self._transport)
        self._connection = connection
        names = json.dumps([each["metadata"]["name"] for each in NODES], separators=(",", ":"))
        body = b'{"Pod":%b,"Nodes":null,"NodeNames":%b}\n' % (raw(WEB), names.encode())
        head = b"Host: placet\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: %d\r\n" % len(
            body
        )
        self._rest = b"%bContent-Type: application/json\r\n\r\n%b" % (head, body)

    def filter(self) -> bytes:
        return self._ask(b"filter")

    def prioritize(self) -> bytes:
        return self._ask(b"prioritize")

    def _ask(self, verb: bytes) -> bytes:
        """The answer to a call that arrives as a whole."""
        self._connection.data_received(b"POST /%b HTTP/1.1\r\n%b" % (verb, self._rest))
        head, _, answer = self._transport.take().partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK")
        return answer

    def bind_event(self) -> None:
        """A watch shows the pod on a node."""
        bound = WEB | {"spec": WEB["spec"] | {"nodeName": "n0"}}
        self.store.upsert("default/web-1", "7", raw(bound))


@pytest.fixture
async def extender() -> Extender:
    """A server that has answered filter before: what it keeps for the pod is there."""
    found = Extender()
    for _ in range(2):
        assert json.loads(found.filter())["NodeNames"]
        # The turn of the next decision comes, and what is done after an answer is done.
        for _ in range(100):
            await asyncio.sleep(0)
    return found


# ---- the bounds


async def test_a_warm_filter_call(extender: Extender) -> None:
    path_of(extender.filter).check(FILTER)


async def test_a_prioritize_call(extender: Extender) -> None:
    """The first one after filter: the scores of the nodes are evaluated."""
    answers: list[bytes] = []
    path_of(lambda: answers.append(extender.prioritize())).check(PRIORITIZE)
    assert len(json.loads(answers[0])) == len(NODES)


async def test_a_pod_event(extender: Extender) -> None:
    path_of(extender.bind_event).check(POD_EVENT)


@rows(
    ("condition", "hint"),
    {
        "one of the parser": ("node.ready and node.zone == 'a'", "write `&&`"),
        "one of types": ("node.hostname == 'a'", "write `node.name`"),
    },
)
def test_a_check_of_one_mistake(
    condition: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second one: what is read once is there."""
    path = tmp_path / "web.policy"
    path.write_text(f'cluster policy web {{ filter "x" {{ require {condition} }} }}\n')
    assert main(["check", str(path)]) == Exit.FINDINGS
    found = path_of(lambda: main(["check", str(path)]))
    assert capsys.readouterr().out.count(hint) == 2
    found.check(ONE_MISTAKE)


def test_a_question_about_a_pod() -> None:
    """What `placet explain` and `GET /api/v1/explain` ask, with an analyst who was asked before."""
    policies = enforced(Validator(SCHEMA).validate([Source("p.policy", POLICY)]))
    engine = engine_over("", cache_of(NODES))
    engine.adopt(policies.registry)
    analyst, asked = Analyst(engine, policies, SCHEMA), PodQuestion(NamedPod.of(raw(WEB)))
    answers: list[bytes] = []

    def ask() -> None:
        answers.append(json_of(analyst.at_once(asked, Asker("placet-0", is_live=True))))

    ask()
    path_of(ask).check(QUESTION)
    assert json.loads(answers[-1])["nodes"] == len(NODES)


def test_a_good_edit_of_a_policy(tmp_path: Path) -> None:
    """What the reloader of the server does in its thread."""
    written = tmp_path / "p.policy"
    written.write_text(EDITED.replace("MOST", "2"))
    reader = PolicyReader([tmp_path], SCHEMA, LOG, PROCESSES[0])
    reader.read({})
    written.write_text(EDITED.replace("MOST", "30"))
    assert not reader.changed(), "the file may be half written"
    found: list[EnforcedPolicies] = []

    def edit() -> None:
        assert reader.changed()
        found.append(reader.read({}))

    path_of(edit).check(EDIT)
    assert found[0].broken == []
    assert [program.address for program in found[0].registry.programs] == ["shop/p"]


# ---- the measurement itself


async def test_a_path_begins_at_the_connection_and_reaches_the_engine(extender: Extender) -> None:
    """Else the bounds hold because nothing was measured."""
    moves = path_of(extender.filter).moves
    assert moves[0] == moves[-1] == "server/http/connections.py"
    assert {file.partition("/")[0] for file in moves} >= {"server", "engine"}
    assert path_of(extender.bind_event).moves[0].startswith("engine/cache/")


def test_a_bound_that_breaks_lists_the_files() -> None:
    path = CallPath(("server/a.py", "engine/b.py", "server/a.py"))
    path.check((2, 3))
    listed = "2 files, 3 moves:\n   2  server/a.py\n   1  engine/b.py"
    for bounds in ((2, 2), (1, 3)):
        with pytest.raises(pytest.fail.Exception, match=listed):
            path.check(bounds)
