"""`placet doctor`: every finding where it belongs, none where all is well, and how it is told."""

import asyncio
import json
from pathlib import Path

import pytest

from cli.scheduling.checks import OF_ALL, OF_OURS
from tests.cli.conftest import Placet
from tests.support.fake_api_server import Answer, fake_api_server
from tests.support.kubeconfig import kubeconfig
from tests.support.scheduler_configs import (
    ACCEPTED,
    OTHER,
    OURS,
    REFUSED,
    SOUND,
    Json,
    Wrong,
    configuration,
    ours,
)

STRICT = 'policy strict in namespace "web" { limit "one" { per node at most 1 strict } }\n'
# What has no case among the configurations, because it depends on policies too.
ONLY_WITH_POLICIES = {"no-binder"}
SPEC: Json = {
    "hostNetwork": True,
    "containers": [
        {
            "command": ["kube-scheduler", "--config=/etc/kubernetes/scheduler.yaml"],
            "volumeMounts": [{"name": "conf", "mountPath": "/etc/kubernetes"}],
        }
    ],
    "volumes": [{"name": "conf", "hostPath": {"path": "/nowhere"}}],
}
MANIFEST: Json = {"apiVersion": "v1", "kind": "Pod", "spec": SPEC}


def written(folder: Path, value: Json | str, name: str = "s.yaml") -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    (folder / name).write_text(text, encoding="utf-8")
    return name


def found(placet: Placet, *arguments: str, stdin: str = "") -> list[tuple[str, str, str]]:
    """Return code, place and severity of each finding."""
    done = placet("doctor", "--format", "json", *arguments, stdin=stdin)
    assert done.err == ""
    findings = json.loads(done.out)["findings"]
    assert done.code == any(f["severity"] == "error" for f in findings)
    return [(f["code"], f["place"], f["severity"]) for f in findings]


@pytest.mark.parametrize("wrong", [*REFUSED, *ACCEPTED], ids=lambda wrong: wrong.id)
def test_what_is_wrong_is_found_where_it_is(placet: Placet, wrong: Wrong) -> None:
    findings = found(placet, "-", stdin=wrong.text)
    assert (wrong.code, wrong.place, wrong.severity) in findings
    # One thing is wrong: what else there is to say about it is no worse than that.
    errors = {code for code, _, severity in findings if severity == "error"}
    assert errors <= ({wrong.code} if wrong.severity == "error" else set())


@pytest.mark.parametrize("wrong", REFUSED, ids=lambda wrong: wrong.id)
def test_what_kube_scheduler_refuses_is_said_to_be(placet: Placet, wrong: Wrong) -> None:
    done = placet("doctor", "--format", "plain", "-", stdin=wrong.text)
    says = ("kube-scheduler refuses to start", "kube-scheduler 1.36 does not read")
    assert any(text in done.out for text in says)


@pytest.mark.parametrize("wrong", ACCEPTED, ids=lambda wrong: wrong.id)
def test_what_kube_scheduler_takes_is_not_said_to_be_refused(placet: Placet, wrong: Wrong) -> None:
    assert "refuses to start" not in placet("doctor", "-", stdin=wrong.text).out


@pytest.mark.parametrize("sound", SOUND, ids=range(len(SOUND)))
def test_sound_configuration_has_no_findings(placet: Placet, sound: Json) -> None:
    assert found(placet, "-", stdin=json.dumps(sound)) == []


def test_every_check_has_a_case() -> None:
    tried = {wrong.code for wrong in (*REFUSED, *ACCEPTED)}
    assert tried | ONLY_WITH_POLICIES == {*OF_ALL, *OF_OURS}


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

s.yaml: `extenders[0]` is taken for Placet: it is the only one
1 error
"""
    )


def test_plain_is_one_line_each(placet: Placet, folder: Path) -> None:
    done = placet("doctor", "--format", "plain", written(folder, configuration(ours("weight"))))
    assert done.out.count("\n") == 1
    assert done.out.startswith("s.yaml:1: extenders[0].weight: error[weight]: with a ")
    assert done.err.endswith("taken for Placet: it is the only one\n1 error\n")


def test_warnings_alone_are_success_unless_strict(placet: Placet, folder: Path) -> None:
    file = written(folder, configuration(percentageOfNodesToScore=50))
    assert placet("doctor", file).code == 0
    assert placet("doctor", "--strict", file).code == 1
    assert placet("doctor", "--strict", written(folder, configuration())).code == 0


@pytest.mark.parametrize(
    ("extenders", "place", "because"),
    [
        ([OURS], "extenders[0]", "it is the only one"),
        ([OTHER], "extenders[0]", "it is the only one"),
        ([OTHER, OURS], "extenders[1]", "port 12345 and ends in `/api/scheduler`"),
        ([OTHER, ours(urlPrefix="http://h/api/scheduler")], "extenders[1]", "its URL ends in"),
        ([OTHER, ours(urlPrefix="http://h:12345")], "extenders[1]", "its URL has the port 12345"),
    ],
    ids=["only", "only whatever it is", "path and port", "path", "port"],
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


@pytest.mark.parametrize(
    ("policy", "entry", "expected"),
    [
        (STRICT, ours(bindVerb="bind"), []),
        (STRICT, OURS, [("no-binder", "warning")]),
        (
            STRICT,
            ours(bindVerb="bind", ignorable=True),
            [("ignorable", "error"), ("ignorable", "warning")],
        ),
        (STRICT.replace("strict }", "best effort weight 1 }"), ours(ignorable=True), []),
        (STRICT.replace("{ limit", "{ mode audit limit"), ours(ignorable=True), []),
        (
            'policy b in namespace "web" { bind "x" { require node.ready } }',
            OURS,
            [("no-binder", "warning")],
        ),
        (
            'policy s in namespace "web" { score "x" weight 1 { value 1 } }',
            ours("prioritizeVerb"),
            [("missing-verb", "warning")],
        ),
        (
            STRICT,
            ours(bindVerb="bind", managedResources=[{"name": "a.b/c"}]),
            [("managed-resources", "error")],
        ),
    ],
    ids=["all", "no bind", "ignorable", "best effort", "audit", "bind clause", "score", "managed"],
)
def test_policies_say_what_they_need(
    placet: Placet, folder: Path, policy: str, entry: Json, expected: list[tuple[str, str]]
) -> None:
    (folder / "a.policy").write_text(policy, encoding="utf-8")
    findings = found(placet, "--policies", "a.policy", "-", stdin=json.dumps(configuration(entry)))
    codes = [(code, severity) for code, _, severity in findings]
    assert codes == expected


def test_policies_with_errors_are_an_error(placet: Placet, folder: Path) -> None:
    (folder / "a.policy").write_text("policy a {", encoding="utf-8")
    done = placet("doctor", "--policies", "a.policy", "-", stdin=json.dumps(configuration()))
    assert done.code == 2
    assert "the policies have" in done.err


def test_old_policy_is_read_by_its_own_rules(placet: Placet) -> None:
    """Any case will do, times are nanoseconds, and what is unknown has no effect."""
    entry = {name.lower(): value for name, value in ours(httpTimeout=5 * 10**9).items()}
    policy = {"kind": "Policy", "apiVersion": "v1", "extenders": [entry], "predicates": []}
    assert found(placet, "-", stdin=json.dumps(policy)) == []
    entry |= {"httptimeout": "5s", "wieght": 1, "enableHttps": True}
    assert {
        (code, severity) for code, _, severity in found(placet, "-", stdin=json.dumps(policy))
    } == {
        ("wrong-type", "error"),
        ("unknown-field", "warning"),
        ("no-encryption", "error"),
    }


def config_map(text: str, **metadata: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {
            "a.yaml": text,
            "audit.yaml": "kind: Policy\napiVersion: audit.k8s.io/v1",
            "b": "x: [",
        },
    }


def test_config_map_is_looked_into(placet: Placet, folder: Path) -> None:
    """With the lines of the file, where the text has lines of its own there."""
    text = "kind: KubeSchedulerConfiguration\napiVersion: x\nextenders: []\n"
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  a.yaml: |\n"
    file = written(folder, head + "".join(f"    {line}\n" for line in text.splitlines()))
    lines = placet("doctor", "--format", "plain", file).out.splitlines()
    assert [line.partition(" error")[0] for line in lines] == [
        "s.yaml:6: percentageOfNodesToScore: warning[sampled-nodes]: "
        + lines[0].partition("[sampled-nodes]: ")[2],
        "s.yaml:7: apiVersion:",
        "s.yaml:8: extenders:",
    ]
    maps = {"kind": "List", "items": [config_map(text, namespace="kube-system", name="c")]}
    done = placet("doctor", "--format", "plain", written(folder, maps))
    assert "s.yaml kube-system/c/a.yaml: extenders: error[no-extender]" in done.out


@pytest.mark.parametrize(
    ("network", "dns", "severity"),
    [
        (True, None, "error"),
        (True, "ClusterFirst", "error"),
        (True, "Default", "error"),
        (True, "ClusterFirstWithHostNet", None),
        (False, "ClusterFirst", None),
        (False, None, None),
        (False, "Default", "error"),
    ],
)
def test_manifest_says_whether_service_names_resolve(
    placet: Placet, folder: Path, network: bool, dns: str | None, severity: str | None
) -> None:
    entry = ours(urlPrefix="https://placet.kube-system.svc/api/scheduler", enableHTTPS=True)
    file = written(folder, configuration(entry | {"tlsConfig": {"caFile": "/ca.crt"}}))
    spec = SPEC | {"hostNetwork": network, "dnsPolicy": dns}
    manifest = written(folder, MANIFEST | {"spec": spec}, "m.yaml")
    expected = [("service-name", "extenders[0].urlPrefix", severity)] if severity else []
    assert found(placet, file, manifest) == expected


def test_manifest_leads_to_its_configuration(placet: Placet, folder: Path) -> None:
    written(folder, configuration(ours("weight")), "scheduler.yaml")
    text = json.dumps(MANIFEST)
    manifest = written(folder, text.replace("/nowhere", str(folder)), "m.yaml")
    assert found(placet, manifest) == [("weight", "extenders[0].weight", "error")]
    done = placet("doctor", written(folder, text, "m.yaml"))
    assert done.code == 2
    assert "`/etc/kubernetes/scheduler.yaml`, which is not on this machine" in done.err
    bare = text.replace("--config=/etc/kubernetes/scheduler.yaml", "--v=2")
    done = placet("doctor", written(folder, bare, "m.yaml"))
    assert done.code == 2
    assert "without `--config`" in done.err


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "there is no KubeSchedulerConfiguration in `s.yaml`"),
        ("- 1", "there is no KubeSchedulerConfiguration in `s.yaml`"),
        ("kind: Pod\nspec: {containers: 1}", "there is no KubeSchedulerConfiguration"),
        ("kind: [", "`s.yaml` is neither YAML nor JSON: "),
        ("[" * 5000, "`s.yaml` is nested too deeply"),
        ("a: !!python/name:os.system x", "`s.yaml` is neither YAML nor JSON: "),
    ],
    ids=["empty", "list", "pod", "broken", "deep", "tag"],
)
def test_what_is_no_configuration_is_an_error(
    placet: Placet, folder: Path, text: str, error: str
) -> None:
    done = placet("doctor", written(folder, text))
    assert (done.code, done.out) == (2, "")
    assert f"error: {error}" in done.err


async def test_cluster_is_looked_into(
    placet: Placet, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ConfigMap of kube-system that holds none is passed over."""
    monkeypatch.setenv("NO_PROXY", "*")  # a proxy of whoever runs the tests is not for loopback
    monkeypatch.setenv("no_proxy", "*")
    path = "/api/v1/namespaces/kube-system/configmaps"
    async with fake_api_server() as server:
        file = kubeconfig(folder / "kubeconfig", server.url, {"token": "static"})
        asking = ("doctor", "--format", "plain", "--kubeconfig", str(file))
        server.put(path, "kube-system/other", data={"a": "b", "c": "["}, binaryData={})
        none = await asyncio.to_thread(placet, *asking)
        server.put(
            path, "kube-system/s", data={"s.yaml": json.dumps(configuration(ours("weight")))}
        )
        one = await asyncio.to_thread(placet, *asking)
        server.answers.append(Answer(403, b""))
        refused = await asyncio.to_thread(placet, *asking)
        url = server.url
    assert none.code == 2
    assert "there is no KubeSchedulerConfiguration in" in none.err
    assert one.out.startswith(f"{url} kube-system/s/s.yaml: extenders[0].weight: error[weight]")
    assert refused.code == 2
    assert "cannot read the ConfigMaps of kube-system" in refused.err


def test_nothing_to_look_at_is_an_error(placet: Placet) -> None:
    assert placet("doctor").code == 2
    assert placet("doctor", "missing.yaml").code == 2


@pytest.mark.parametrize(
    "text",
    [
        "extenders: [1, null, [], {urlPrefix: 5, tlsConfig: 1, managedResources: [1, {name: 2}]}]",
        "extenders: x\nprofiles: 5\nleaderElection: 5\npercentageOfNodesToScore: x",
        "profiles: [1, {schedulerName: 5}]\nextenders: [{httpTimeout: 1e400, weight: .inf}]",
        "extenders: &a [{urlPrefix: h}, *a]",
        "extenders: [{urlPrefix: 'http://[', filterVerb: '////', httpTimeout: 99999999999999h}]",
    ],
)
def test_nonsense_is_told_as_findings(placet: Placet, text: str) -> None:
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    assert found(placet, "-", stdin=head + text) != []


def test_every_finding_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")
    assert [code for code in (*OF_ALL, *OF_OURS) if f"`{code}`" not in page] == []
