"""kube-scheduler itself reads configurations: those that Placet writes, and those it warns of.

It validates a configuration before it looks for an API server, so none is there.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from tests.e2e.cluster import Cluster
from tests.e2e.manifests import pod
from tests.e2e.placet import REPOSITORY
from tests.e2e.policies import define
from tests.e2e.process import MINOR, needs_mutating_policies, until
from tests.support.scheduler_configs import ACCEPTED, REFUSED, SOUND, Wrong, configuration
from tests.support.seeds import CONFIGURATIONS, Printed

pytestmark = pytest.mark.e2e

SECONDS = 60.0


def read_by_kube_scheduler(programs: Path, folder: Path, text: str) -> dict[str, Any] | str:
    """Return the configuration as it was understood, or why it was refused."""
    file, completed = folder / "scheduler.yaml", folder / "completed.yaml"
    file.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [
            programs / "kube-scheduler",
            f"--config={file}",
            f"--write-config-to={completed}",
            "--master=http://127.0.0.1:1",  # an address is wanted, and not called
            "--secure-port=0",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    if done.returncode != 0:
        return done.stderr
    understood = yaml.safe_load(completed.read_text(encoding="utf-8"))
    assert isinstance(understood, dict)
    return understood


def starts(programs: Path, file: Path) -> bool:
    """Whether kube-scheduler has all plugins of a configuration: it builds them before it starts.

    No API server is there, so it is ended then.
    """
    command = [
        *(str(programs / "kube-scheduler"), f"--config={file}", "--master=http://127.0.0.1:1"),
        *("--leader-elect=false", "--secure-port=0"),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        has_started = any("Starting Kubernetes Scheduler" in line for line in process.stderr)
        process.kill()
    return has_started


def placet(*arguments: str, folder: Path) -> str:
    """Return what a command prints."""
    done = subprocess.run(
        [sys.executable, "-m", "cli", *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
        timeout=SECONDS,
    )
    return done.stdout


def seconds(time: str) -> float:
    """Return a duration, which has several forms: `125s` is `2m5s`."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
    parts = re.findall(r"([0-9.]+)(h|ms|m|s)", time)
    return sum(float(number) * units[unit] for number, unit in parts)


@pytest.fixture
def tls(tmp_path: Path) -> Path:
    """Return a folder with a CA, a certificate and its key."""
    authority = trustme.CA()
    certificate = authority.issue_cert("kube-scheduler")
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "tls.crt")
    certificate.private_key_pem.write_to_path(tmp_path / "tls.key")
    return tmp_path


HTTPS = ("--url", "https://10.96.0.50/api/scheduler", "--server-name", "placet")
GANG = """policy ml {
  for pods where true
  gang "jobs" { of pods by peer.labels["job"] at least 3 for at most 2m }
}"""
CLIENT = ("--ca", "ca.crt", "--client-cert", "tls.crt", "--client-key", "tls.key")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--section",),
        ("--verbs", "filter,prioritize,preempt,bind", "--http-timeout", "1500ms"),
        (*HTTPS, *CLIENT),
        (*HTTPS, *CLIENT, "--tls-paths"),
        ("--scheduler-name", "second"),
        ("--policies", "gang.policy"),
        (*HTTPS, *CLIENT, "--bind-http-timeout", "1h"),
        ("--gate", "--bind-http-timeout", "90s"),
    ],
    ids=" ".join,
)
def test_kube_scheduler_understands_what_is_written(
    programs: Path, tls: Path, arguments: tuple[str, ...]
) -> None:
    (tls / "gang.policy").write_text(GANG, encoding="utf-8")
    text = placet("scheduler-config", *arguments, folder=tls)
    if "--section" in arguments:
        head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        text = head + text
    # Paths are those of kube-scheduler's machine: as that runs elsewhere, they have to be whole.
    text = text.replace("File: ", f"File: {tls}/")

    understood = read_by_kube_scheduler(programs, tls, text)

    assert isinstance(understood, dict), understood
    written = yaml.safe_load(text)
    assert understood["percentageOfNodesToScore"] == 100
    # It writes no zeros, and adds none to what we say.
    expected = [
        {name: value for name, value in entry.items() if value is not False}
        for entry in written["extenders"]
    ]
    for entry in (*expected, *understood["extenders"]):
        entry["httpTimeout"] = seconds(entry["httpTimeout"])
    assert understood["extenders"] == expected
    waits = {"--policies", "--bind-http-timeout"} & {*arguments}
    assert len(expected) == (2 if waits else 1)
    assert not waits or starts(programs, tls / "scheduler.yaml")


@pytest.mark.skipif(MINOR > 36, reason="doctor checks arguments as Kubernetes 1.36 does")
@pytest.mark.parametrize("wrong", REFUSED, ids=lambda wrong: wrong.id)
def test_kube_scheduler_refuses_what_doctor_says_it_does(
    programs: Path, tmp_path: Path, wrong: Wrong
) -> None:
    assert isinstance(read_by_kube_scheduler(programs, tmp_path, wrong.text), str)


@pytest.mark.parametrize("wrong", ACCEPTED, ids=lambda wrong: wrong.id)
def test_kube_scheduler_takes_what_only_doctor_finds(
    programs: Path, tmp_path: Path, wrong: Wrong
) -> None:
    understood = read_by_kube_scheduler(programs, tmp_path, wrong.text)
    assert isinstance(understood, dict), understood


@pytest.mark.parametrize("number", range(len(SOUND)))
def test_kube_scheduler_takes_what_is_sound(programs: Path, tmp_path: Path, number: int) -> None:
    wrong = Wrong("", "", SOUND[number])
    understood = read_by_kube_scheduler(programs, tmp_path, wrong.text)
    assert isinstance(understood, dict), understood


@pytest.mark.parametrize("printed", CONFIGURATIONS, ids=lambda printed: printed.id)
def test_what_is_converted_is_read(programs: Path, tmp_path: Path, printed: Printed) -> None:
    """Of every configuration that the texts print with which extenders started."""
    (tmp_path / "old").write_text(printed.text(), encoding="utf-8")
    text = placet("scheduler-config", "--from", "old", folder=tmp_path)
    understood = read_by_kube_scheduler(programs, tmp_path, text)
    assert isinstance(understood, dict), understood
    assert [e["urlPrefix"] for e in understood["extenders"]] == [
        e["urlPrefix"] for e in yaml.safe_load(text)["extenders"]
    ]
    assert starts(programs, tmp_path / "scheduler.yaml")


def test_a_plugin_that_is_not_there_keeps_kube_scheduler_from_starting(
    programs: Path, tmp_path: Path
) -> None:
    """So plugins of others are left out of plugin JSON, which has no kube-scheduler of its own."""
    file = tmp_path / "scheduler.yaml"
    enabled = {"score": {"enabled": [{"name": "PluginX"}]}}
    file.write_text(yaml.safe_dump(configuration(profiles=[{"plugins": enabled}])), "utf-8")
    assert not starts(programs, file)


# ---- the manifests of the chart on a real API server: it takes them all, and namespaces can opt in


DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFESTS = DEPLOY / "kustomize" / "base" / "placet.yaml"
OBJECTS = list(yaml.safe_load_all(MANIFESTS.read_text()))
# What opts pods of a namespace in.
POLICIES = [each for each in OBJECTS if each["kind"].startswith("MutatingAdmissionPolicy")]


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(MANIFESTS, marks=needs_mutating_policies),
        *(
            pytest.param(file, marks=needs_mutating_policies if "policy" in file.stem else ())
            for file in sorted((DEPLOY / "admission").iterdir())
        ),
    ],
    ids=lambda file: file.stem,
)
def test_the_api_server_takes_every_object(cluster: Cluster, file: Path) -> None:
    """With all fields that it knows, and no others."""
    flags = ("--server-side", "--dry-run=server", "--validate=strict", "--force-conflicts")
    text = cluster.kubectl("apply", *flags, "-f", str(file))
    assert text.count("(server dry run)") == len(list(yaml.safe_load_all(file.read_text())))


def test_the_api_server_takes_every_example_of_the_library(cluster: Cluster) -> None:
    define(cluster)
    flags = ("--dry-run=server", "--validate=strict")
    text = cluster.kubectl("apply", *flags, "-f", str(DEPLOY / "examples"))
    assert text.count("(server dry run)") == len([*(DEPLOY / "examples").glob("*.yaml")])


def test_one_name_lists_both_kinds(cluster: Cluster) -> None:
    define(cluster)
    names = ("one-per-zone", "headroom")
    for name in names:
        made = yaml.safe_load((DEPLOY / "examples" / f"{name}.yaml").read_text())
        made["metadata"].pop("namespace", None)
        cluster.kubectl("apply", "-n", cluster.namespace, "-f", "-", text=json.dumps(made))
    try:
        found = cluster.kubectl("get", "placet", "-n", cluster.namespace, "-o", "name")
        assert {line.rpartition("/")[2] for line in found.splitlines()} == set(names)
    finally:
        cluster.kubectl("delete", "clusterplacementpolicies", "--all")


def test_pods_are_as_restricted_as_the_standard_asks(cluster: Cluster) -> None:
    """A namespace that enforces it takes a pod of the Deployment's template."""
    label = "pod-security.kubernetes.io/enforce=restricted"
    cluster.kubectl("label", "namespace", cluster.namespace, label)
    (deployment,) = (each for each in OBJECTS if each["kind"] == "Deployment")
    template = deployment["spec"]["template"]
    # The account is in another namespace.
    spec = template["spec"] | {"serviceAccountName": "default"}
    made = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "placet", "namespace": cluster.namespace},
        "spec": spec,
    }
    cluster.kubectl("create", "serviceaccount", "default", "-n", cluster.namespace)
    done = cluster.try_kubectl("create", "--dry-run=server", "-f", "-", text=json.dumps(made))
    assert done.returncode == 0, done.stderr


@needs_mutating_policies
def test_pods_of_a_namespace_that_opts_in_get_the_second_scheduler(cluster: Cluster) -> None:
    def scheduler(labels: dict[str, str] | None = None, **spec: object) -> str:
        text = json.dumps(pod("asked", cluster.namespace, labels, cpu="100m", **spec))
        answer = cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", text=text)
        found: str = json.loads(answer)["spec"]["schedulerName"]
        return found

    cluster.apply(*POLICIES)
    try:
        assert scheduler() == "default-scheduler"
        cluster.kubectl("label", "namespace", cluster.namespace, "placet.dev/scheduling=enabled")
        until(lambda: scheduler() == "placet", SECONDS, lambda: "the policy in force")
        assert scheduler(schedulerName="default-scheduler") == "placet"
        assert scheduler(schedulerName="other") == "other"
        assert scheduler(nodeName="n-1") == "default-scheduler"
    finally:
        for each in POLICIES:
            cluster.kubectl("delete", each["kind"], each["metadata"]["name"])
