"""Metrics, alerts and dashboard by the programs that use them: promtool and Prometheus."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.deploy.test_monitoring import ALERTS, DASHBOARD, expressions, panels, rules
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installation import Prometheus, prometheus
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.manifests import node, pod
from tests.e2e.placet import Placet, placet
from tests.e2e.process import built_tool, until

pytestmark = pytest.mark.e2e

SECONDS = 60.0
NODES, PODS = 60, 12
RULE_TESTS = Path(__file__).parents[1] / "deploy" / "alerts_test.yaml"
POLICIES = """
policy web {
  for pods where pod.labels["app"] == "web"
  filter "pool" { require node.labels["pool"] == "web" message "not of the pool" }
  score "odd" weight 1 { value 10 / (size(node.pods) - size(node.pods)) }
  score "free" weight 10 { value node.free["cpu"] / node.allocatable["cpu"] range 0 .. 1 }
}
policy beside {
  for pods where pod.labels["app"] == "web"
  weight 7
  filter "never" { require node.name == "nowhere" }
}
policy tried {
  for pods where pod.labels["app"] == "web"
  mode audit
  filter "first" { require node.name == "n0" }
}
"""
# Series that this run has not, by the panel and the legend, and why.
OF_FAULTS: Mapping[str, str] = {
    "Deadlines missed: {{verb}} {{outcome}}": "no call is too slow, and no policy expensive",
    "Work that fails: {{work}}: {{cause}}": "the API server does all that it is asked for",
    "Certificate ends in: {{file}}": "the server has no certificate",
    "Time of policies: {{policy}}: calls a second without a decision": "no policy is expensive",
    "Watch errors: {{resource}}: {{reason}}": "no watch fails",
    "Restarts of tasks: {{task}}": "no task fails",
    "Pods blocked by Placet: pods": "no pod waits",
    "Pods blocked by Placet: {{instance}}": "no pod waits",
    "Gangs by state: {{state}}": "there are no gangs",
    "Gangs released and given up: {{state}} {{reason}}": "there are no gangs",
    "Held members: {{state}}": "there are no gangs",
    "Rows of data: {{source}}": "no policy reads data",
    "Age of data: {{source}}": "no policy reads data",
    "Failures of sources of data: {{source}} {{reason}}": "no policy reads data",
}


@pytest.fixture(scope="module")
def promtool(pytestconfig: pytest.Config) -> Path:
    """Return the program, built if need be."""
    return built_tool(pytestconfig, "promtool")


def run(program: Path, *arguments: str | Path, text: str | None = None) -> None:
    """Run promtool; fail with what it says unless it is content."""
    done = subprocess.run(
        [program, *arguments], input=text, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_are_valid_and_alert_when_they_should(promtool: Path) -> None:
    run(promtool, "check", "rules", "--lint=all", "--lint-fatal", ALERTS)
    run(promtool, "test", "rules", RULE_TESTS)
    tests = RULE_TESTS.read_text(encoding="utf-8")
    assert [rule["alert"] for rule in rules() if f"name: {rule['alert']}\n" not in tests] == []


@pytest.mark.parametrize("name", expressions())
def test_every_expression_is_one_of_promql(promtool: Path, name: str) -> None:
    run(promtool, "--experimental", "promql", "format", expressions()[name])


@pytest.fixture
def live(plane: ControlPlane, cluster: Cluster, tmp_path: Path) -> Iterator[Placet]:
    """Return a Placet that filters, scores, preempts and binds for a kube-scheduler."""
    policies = tmp_path / "live.policy"
    policies.write_text(POLICIES)
    cluster.create_nodes(
        node(f"n{n}", {"pool": "web"} if n < NODES / 2 else {}) for n in range(NODES)
    )
    with ExitStack() as programs:
        watch = f"--kubeconfig={plane.placet_kubeconfig}"
        server = programs.enter_context(placet(tmp_path, policies, watch, "--bind"))
        server.wait_ready()
        server.wait_leading()
        address = f"http://127.0.0.1:{server.port}"
        entry = extender(address, node_cache_capable=True, binds=True)
        programs.enter_context(kube_scheduler(plane, tmp_path, [entry], 100))
        yield server


def test_metrics_panels_and_alerts_of_a_live_run(
    promtool: Path,
    live: Placet,
    cluster: Cluster,
    pytestconfig: pytest.Config,
    tmp_path: Path,
) -> None:
    program = built_tool(pytestconfig, "prometheus")
    with prometheus(program, tmp_path, live.port, ALERTS) as scraper:
        names = [f"web-{number}" for number in range(PODS)]
        web = {"app": "web"}
        cluster.create_pods(pod(name, cluster.namespace, web) for name in names)
        cluster.wait_placed(names)
        status, text = live.get("/metrics")
        assert status == 200
        run(promtool, "check", "metrics", text=text)
        wanted = {f"{title}: {legend}": query for title, query, legend in panels()}
        assert wanted.keys() >= OF_FAULTS.keys(), DASHBOARD
        queries = {name: query for name, query in wanted.items() if name not in OF_FAULTS}

        def empty() -> list[str]:
            return [name for name, query in queries.items() if not scraper.query(query)]

        until(lambda: not empty(), SECONDS, lambda: f"no series: {empty()}", 1.0)
        for name in OF_FAULTS:
            assert scraper.query(wanted[name]) == [], f"{name} needs no fault"
        check_alerts(scraper)


def check_alerts(scraper: Prometheus) -> None:
    """All rules can be evaluated, and none of a sound server is about to fire but the planted."""
    until(
        lambda: all(rule["health"] == "ok" for rule in scraper.rules()),
        SECONDS,
        lambda: f"all rules evaluated: {scraper.rules()}",
    )
    found = {rule["name"]: rule for rule in scraper.rules()}
    assert found.keys() == {rule["alert"] for rule in rules()}
    assert {name for name, rule in found.items() if rule["alerts"]} <= {"PlacetEvaluationErrors"}
