"""The page about asking the running Placet: every command prints the output below it."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from cli.world import read_policies
from engine.cache.cluster_copy import read_documents
from engine.decision.journal import Journal
from engine.engine import Engine
from engine.objects.request_pod import ObjectCodec
from engine.offline import offline_engine
from engine.program.policy_time import DecisionTime
from grammar.meaning.schema import load_schema
from grammar.values.time import Timestamp
from tests.cli.conftest import Placet, placet
from tests.support.builders import controller, node, pod, raw
from tests.support.engines import engine_of, peer_of
from tests.support.kubeconfig import kubeconfig
from tests.support.view_server import Cluster, Parts, running

__all__ = ["placet"]

DOCS = Path(__file__).parents[1] / "docs"
FILES = DOCS / "examples" / "explain"
PAGE = (DOCS / "asking.md").read_text(encoding="utf-8")
_FENCE = re.compile(r"(?ms)^```console\n\$ (placet [^\n]+)\n(.*?)^```$")
EXAMPLES = _FENCE.findall(PAGE)


def decided(folder: Path, at: str, names: list[str], edit: tuple[str, str] = ("", "")) -> Journal:
    """A journal with a decision about shop/web-1 by the example's policy as it was then."""
    text = (FILES / "shop.policy").read_text(encoding="utf-8").replace(*edit)
    (folder / "shop.policy").write_text(text, encoding="utf-8")
    schema = load_schema()
    policies = read_policies([folder / "shop.policy"], schema)
    codec = ObjectCodec(schema, policies.needs.annotations)
    cluster = read_documents([FILES / "cluster.yaml"]).cluster(codec)
    journal = Journal(now=lambda: Timestamp.parse(f"2026-11-21T{at}Z"))
    extender = offline_engine(policies.registry, cluster, codec, journal=journal)
    pod = cluster.pod("shop/web-1")
    with cluster.asking(pod):
        extender.filter(pod.body, names, None, math.inf)
        return journal


GPUS = """
policy gpus in namespace "shop" {
  mode audit
  for pods where "gpu" in pod.labels
  filter "gpu" { require node.labels["gpu"] == pod.labels["gpu"] }
}
"""


def audited() -> Engine:
    """An engine with a policy in audit mode for some days, which three pods were asked about."""
    at = ["2026-11-19T09:12:00Z"]
    time = DecisionTime(now=lambda: Timestamp.parse(at[0]))
    nodes = [node("n1", labels={"gpu": "a"}), node("n2", labels={"gpu": "b"})]
    engine = engine_of(GPUS, nodes, time=time)
    web = controller("ReplicaSet", "web", "shop")
    for name, gpu, on in (("web-1", "c", ""), ("web-2", "c", "n2"), ("web-3", "a", "n2")):
        at[0] = f"2026-11-21T09:4{name[-1]}:00Z"
        asked = pod(f"gpu-{name}", "shop", labels={"gpu": gpu}, owner=web)
        engine.filter(raw(asked), ["n1", "n2"], None, math.inf)
        if on:
            asked["spec"]["nodeName"] = on
            engine.audits.log.pod_changed(None, peer_of(asked), 1)
    return engine


@pytest.fixture(scope="module", autouse=True)
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Two replicas; the first one decided before the policy was edited and n-3 was there."""
    folder = tmp_path_factory.mktemp("asking")
    first = decided(folder, "09:58:00", ["n-1", "n-2"], ("1Gi", "256Mi"))
    second = decided(folder, "09:41:00", ["n-1", "n-2", "n-3"])
    with (
        running(
            Parts(first, cluster=Cluster(engine=audited())), Parts(second, "placet-1")
        ) as found,
        pytest.MonkeyPatch.context() as patch,
    ):
        file = kubeconfig(folder / "kubeconfig", found.api_url, {"token": "t"})
        patch.setenv("KUBECONFIG", str(file))
        yield


@pytest.mark.parametrize(("command", "shown"), EXAMPLES, ids=[c for c, _ in EXAMPLES])
def test_a_command_prints_what_the_page_shows(
    placet: Placet, monkeypatch: pytest.MonkeyPatch, command: str, shown: str
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(FILES)
    done = placet(*shlex.split(command)[1:])
    assert (done.out + done.err).rstrip() == shown.rstrip()


def test_the_page_has_examples_of_every_command() -> None:
    assert {command.split()[1] for command, _ in EXAMPLES} == {
        "audit",
        "decisions",
        "explain",
        "status",
    }


def test_the_role_has_the_rights_that_the_page_names() -> None:
    """`get` opens a WebSocket, and API servers from 1.35 on want `create` too."""
    role, binding = yaml.safe_load_all(re.findall(r"(?ms)^```yaml\n(.*?)^```$", PAGE)[0])
    rights = {r: set(rule["verbs"]) for rule in role["rules"] for r in rule["resources"]}
    assert rights == {"pods": {"list"}, "pods/portforward": {"get", "create"}}
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
