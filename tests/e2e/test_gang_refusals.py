"""Gangs beside a second extender: it refuses places of which Placet knows no reason.

What it refuses comes first, by name or by a score. The second gang knows it from the first one.
"""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.gangs import RACK, GangServer, by_group, entries, group, policy, wait_whole
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.manifests import node
from tests.e2e.placet import placet
from tests.e2e.recorder import recorder

pytestmark = pytest.mark.e2e

WITHIN = f'within node.labels["{RACK}"]'
SCORED = 'node.name in ["b2", "c1"]'
SECOND = """policy second {
  for pods where true
  filter "known here alone" { require !(REFUSED) message "another extender" }
}"""


@pytest.mark.parametrize(
    ("refused", "within", "score", "calls", "given_up"),
    [
        ('node.name.startsWith("a")', "", "", 12, 0),
        (SCORED, "", f'score "first" weight 10 {{ value {SCORED} }}', 12, 0),
        ('node.name.startsWith("a")', WITHIN, "", 20, 1),
        ('node.name == "a2"', WITHIN, "", 24, 1),
        ('!node.name.startsWith("c")', WITHIN, "", 36, 2),
    ],
    ids=["first names", "best scores", "a rack", "half a rack", "two racks"],
)
def test_a_place_that_a_second_extender_refuses_is_tried_last(
    plane: ControlPlane,
    cluster: Cluster,
    tmp_path: Path,
    refused: str,
    within: str,
    score: str,
    calls: int,
    given_up: int,
) -> None:
    """Three racks have room for a gang of four each; its calls and vain tries have a bound."""
    cluster.create_nodes(node(f"{rack}{n}", {RACK: rack}, cpu="2") for rack in "abc" for n in "12")
    first, second = tmp_path / "first", tmp_path / "second"
    texts = {first: policy("job", within, score), second: SECOND.replace("REFUSED", refused)}
    with ExitStack() as running:
        servers = []
        for folder, text in texts.items():
            folder.mkdir()
            (folder / "p.policy").write_text(text)
            flags = f"--kubeconfig={plane.placet_kubeconfig}", "--bind", "--lease=none"
            servers.append(running.enter_context(placet(folder, folder / "p.policy", *flags)))
        for server in servers:
            server.wait_ready()
        own, other = (running.enter_context(recorder(server.port)) for server in servers)
        chain = [*entries(own.address), extender(other.address, node_cache_capable=True)]
        scheduler = running.enter_context(kube_scheduler(plane, tmp_path, chain))
        gangs = GangServer(servers[0], scheduler, first / "p.policy")
        cluster.create_pods(group(cluster, "one", 4))
        wait_whole(cluster, gangs, "one", size=4)
        asked = len(own.calls("filter"))
        vain = [call for call in other.calls("filter") if not call.answer["NodeNames"]]
        assert vain
        assert asked <= calls
        assert gangs.given_up() <= given_up
        where = by_group(cluster.placements())["one"]
        cluster.delete_pods()
        cluster.create_pods(group(cluster, "two", 4))
        wait_whole(cluster, gangs, "two", size=4)
        assert by_group(cluster.placements())["two"] == where
        assert gangs.given_up() <= given_up
        refusals = [call for call in other.calls("filter") if not call.answer["NodeNames"]]
        assert len(refusals) == len(vain)
