"""`placet doctor`: formats, flags, the choice of the extender, and errors."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Placet
from tests.support.fake_api_server import Answer, fake_api_server
from tests.support.kubeconfig import kubeconfig
from tests.support.scheduler_configs import BIND_APART, OTHER, OURS, Json, configuration, ours


def written(folder: Path, value: Json | str, name: str = "s.yaml") -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    (folder / name).write_text(text, encoding="utf-8")
    return name


def found(placet: Placet, *arguments: str, stdin: str = "") -> list[tuple[str, str, str]]:
    """Return code, place and severity of each finding."""
    done = placet("doctor", "-o", "json", *arguments, stdin=stdin)
    assert done.err == ""
    findings = json.loads(done.out)["diagnostics"]
    assert done.code == any(f["severity"] == "error" for f in findings)
    return [(f["code"], f["place"], f["severity"]) for f in findings]


def test_human_shows_file_line_and_place(placet: Placet, folder: Path) -> None:
    file = written(
        folder,
        """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 100
extenders:
  - urlPrefix: http://127.0.0.1:12345/api/scheduler
    filterVerb: filter
    preemptVerb: preempt
    httpTimeout: 5s
    nodeCacheCapable: true
    wieght: 10
""",
    )
    done = placet("doctor", file)
    assert (done.code, done.err) == (1, "")
    assert (
        done.out
        == """\
error[unknown-field]: there is no field `wieght`: kube-scheduler refuses to start
 --> s.yaml:10: extenders[0].wieght
  = help: a similar name exists: `weight`

s.yaml: `extenders[0]` is taken for Placet: its URL has `:12345` and `/api/scheduler`
1 error
"""
    )


def test_plain_is_one_line_each(placet: Placet, folder: Path) -> None:
    done = placet("doctor", "-o", "plain", written(folder, configuration(ours("weight"))))
    assert done.out.count("\n") == 1
    assert done.out.startswith("s.yaml:1: extenders[0].weight: error[weight]: with a ")
    assert done.err.endswith("`:12345` and `/api/scheduler`\n1 error\n")


def test_warnings_alone_are_success_unless_strict(placet: Placet, folder: Path) -> None:
    file = written(folder, configuration(percentageOfNodesToScore=50))
    assert placet("doctor", file).code == 0
    assert placet("doctor", "--strict", file).code == 1
    assert placet("doctor", "--strict", written(folder, configuration())).code == 0


@pytest.mark.parametrize(
    ("extenders", "place", "because"),
    [
        ([OTHER, OURS], "extenders[1]", "its URL has `:12345` and `/api/scheduler`"),
        ([OTHER, ours(urlPrefix="http://h/api/scheduler")], "extenders[1]", "`/api/scheduler`"),
        ([OTHER, ours(urlPrefix="http://h:12345")], "extenders[1]", "its URL has `:12345`"),
        ([OTHER, ours(urlPrefix="http://placet")], "extenders[1]", "its URL has `placet`"),
    ],
    ids=["path and port", "path", "port", "name"],
)
def test_says_which_extender_is_taken_for_placet(
    placet: Placet, extenders: list[Json], place: str, because: str
) -> None:
    done = placet("doctor", "-", stdin=json.dumps(configuration(*extenders)))
    assert f"`{place}` is taken for Placet: " in done.out
    assert because in done.out


def test_url_says_which_extender_is_placet(placet: Placet) -> None:
    text = json.dumps(configuration(OTHER | {"filterVerb": "filter"}, OURS))
    assert found(placet, "-", stdin=text) == []
    codes = {code for code, *_ in found(placet, "--url", OTHER["urlPrefix"], "-", stdin=text)}
    assert {"later-filter", "timeout"} <= codes
    done = placet("doctor", "--url", "http://127.0.0.1:9252", "-", stdin=text)
    assert (done.code, done.out) == (2, "")
    assert "a similar one exists: `http://127.0.0.1:9251`" in done.err


def test_timeout_is_compared_with_that_of_serve(placet: Placet) -> None:
    text = json.dumps(configuration(ours(httpTimeout="2s")))
    assert found(placet, "-", stdin=text) == [("timeout", "extenders[0].httpTimeout", "error")]
    assert found(placet, "--http-timeout", "2s", "-", stdin=text) == []


def test_lease_is_compared_with_that_of_serve(placet: Placet) -> None:
    lease = {"resourceName": "guard", "resourceNamespace": "shop"}
    text = json.dumps(configuration(leaderElection=lease))
    wrong = [("placets-lease", "leaderElection.resourceName", "error")]
    assert found(placet, "--lease", "shop/guard", "-", stdin=text) == wrong
    assert found(placet, "-", stdin=text) == []
    assert found(placet, "--lease", "none", "-", stdin=text) == []


def test_policies_with_errors_are_an_error(placet: Placet, folder: Path) -> None:
    (folder / "a.policy").write_text("policy a {", encoding="utf-8")
    done = placet("doctor", "--policies", "a.policy", "-", stdin=json.dumps(configuration()))
    assert done.code == 2
    assert "the policies have" in done.err


async def test_cluster_is_looked_into(placet: Placet, folder: Path) -> None:
    """A ConfigMap of kube-system that holds none is passed over."""
    path = "/api/v1/namespaces/kube-system/configmaps"
    async with fake_api_server() as server:
        file = kubeconfig(folder / "kubeconfig", server.url, {"token": "static"})
        asking = ("doctor", "-o", "plain", "--kubeconfig", str(file))
        server.put(path, "kube-system/other", data={"a": "b", "c": "["}, binaryData={})
        none = await asyncio.to_thread(placet, *asking)
        server.put(
            path, "kube-system/s", data={"s.yaml": json.dumps(configuration(ours("weight")))}
        )
        one = await asyncio.to_thread(placet, *asking)
        server.answers.append(Answer(403, b""))
        refused = await asyncio.to_thread(placet, *asking)
        server.answers.append(Answer(200, b'{"metadata": {"resourceVersion": "1"}, "items": []}'))
        server.answers.append(Answer(200, b"<html>"))
        other = await asyncio.to_thread(placet, *asking)
        url = server.url
    assert none.code == 2
    assert "there is no KubeSchedulerConfiguration in" in none.err
    assert one.out.startswith(f"{url} kube-system/s/s.yaml: extenders[0].weight: error[weight]")
    assert refused.code == 2
    assert "you may not list configmaps in the namespace `kube-system`" in refused.err
    assert other.code == 2
    assert "the API server's answer is not a list" in other.err


async def test_policies_of_the_cluster_are_compared(placet: Placet, folder: Path) -> None:
    """A gang waits two minutes; of what the cluster has, nothing else is said to be unused."""
    gang = 'gang "g" { of pods by peer.labels["job"] at least 3 for at most 2m }'
    policies = "/apis/placement-policy.scheduling.x-k8s.io/v1/placementpolicies"
    file = written(folder, configuration(OURS, BIND_APART | {"httpTimeout": "60s"}))
    async with fake_api_server() as server:
        config = kubeconfig(folder / "kubeconfig", server.url, {"token": "static"})
        server.put(
            "/api/v1/namespaces/kube-system/configmaps",
            "kube-system/s",
            data={"s.yaml": json.dumps(configuration(OURS, BIND_APART))},
        )
        asking = ("--bind", "--kubeconfig", str(config), file)
        without = await asyncio.to_thread(found, placet, *asking)
        server.put(policies, "ml/broken", spec={"rules": "gang"})
        broken = await asyncio.to_thread(found, placet, *asking)
        server.put(policies, "ml/jobs", spec={"podSelector": {}, "rules": gang})
        short = await asyncio.to_thread(found, placet, *asking)
    assert set(broken) - set(without) == {("broken-policies", "", "warning")}
    assert set(short) - set(broken) == {("waiting-bind", "extenders[1].httpTimeout", "error")}


def test_nothing_to_look_at_is_an_error(placet: Placet) -> None:
    assert placet("doctor").code == 2
    assert placet("doctor", "missing.yaml").code == 2


def test_manifest_leads_to_a_file_on_this_machine(placet: Placet, folder: Path) -> None:
    file = folder / written(folder, configuration(ours("weight")))
    container = {"command": ["kube-scheduler", f"--config={file}"]}
    manifest = {"kind": "Pod", "spec": {"containers": [container]}}
    done = placet("doctor", "-o", "plain", written(folder, manifest, "m.yaml"))
    assert done.out.startswith(f"{file}:1: extenders[0].weight: error[weight]: ")


def test_what_is_no_configuration_is_an_error(placet: Placet, folder: Path) -> None:
    done = placet("doctor", written(folder, "kind: ["))
    assert (done.code, done.out) == (2, "")
    assert "error: `s.yaml` is neither YAML nor JSON: " in done.err
