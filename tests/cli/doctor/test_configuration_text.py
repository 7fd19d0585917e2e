"""Configurations as texts: found in files and manifests, and written back as they were."""

import json
from pathlib import Path

import pytest
import yaml

from cli.command import CommandError
from cli.doctor.configuration_text import SchedulerConfiguration, configurations
from cli.doctor.generator import yaml_of
from tests.support.scheduler_configs import Json, configuration

TEXT = "kind: KubeSchedulerConfiguration\napiVersion: x\nextenders: []\n"
SPEC: Json = {
    "hostNetwork": True,
    "containers": [{"command": ["kube-scheduler", "--config=/etc/kubernetes/scheduler.yaml"]}],
}
MANIFEST: Json = {"apiVersion": "v1", "kind": "Pod", "spec": SPEC}


def read(*texts: str) -> list[SchedulerConfiguration]:
    return configurations([("s.yaml", text) for text in texts])


@pytest.mark.parametrize(
    "text",
    [
        f"{TEXT}...\n  x: [",
        TEXT.replace(" []", "\n%YAML 1.1\n- {}"),
        '\t\n{\n\t"kind": "KubeSchedulerConfiguration", "apiVersion": "x", "extenders": null}',
    ],
)
def test_what_kube_scheduler_does_not_read_may_be_wrong(text: str) -> None:
    (found,) = read(text)
    assert found.fields.api_version == "x"
    assert found.extenders == ()


def test_literal_text_of_a_config_map_has_the_lines_of_the_file() -> None:
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  a.yaml: |\n"
    (found,) = read(head + "".join(f"    {line}\n" for line in TEXT.splitlines()))
    assert found.source == "s.yaml"
    assert [found.line(path) for path in ("apiVersion", "extenders[0].url", "x")] == [7, 8, 6]


def test_other_text_of_a_config_map_has_a_name_and_no_lines() -> None:
    policy = '{"apiVersion": "v1", "extenders": [], "predicates": []}'
    data = {"a.yaml": TEXT, "audit.yaml": "kind: Policy\napiVersion: audit.k8s.io/v1", "b": "x: ["}
    data |= {"c": "no extenders: [", "policy.cfg": policy}
    metadata = {"namespace": "kube-system", "name": "c"}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    found, without_kind = read(json.dumps({"kind": "List", "items": [config_map]}))
    assert found.source == "s.yaml kube-system/c/a.yaml"
    assert without_kind.source == "s.yaml kube-system/c/policy.cfg"
    assert found.line("apiVersion") == 0


@pytest.mark.parametrize(
    ("network", "dns", "resolves"),
    [
        (True, None, False),
        (True, "ClusterFirst", False),
        (True, "Default", False),
        (True, "ClusterFirstWithHostNet", True),
        (False, "ClusterFirst", True),
        (False, None, True),
        (False, "Default", False),
    ],
)
def test_manifest_says_whether_service_names_resolve(
    network: bool, dns: str | None, resolves: bool
) -> None:
    spec = SPEC | {"hostNetwork": network, "dnsPolicy": dns}
    (found,) = read(json.dumps(configuration()), json.dumps(MANIFEST | {"spec": spec}))
    assert found.manifest is not None
    assert found.manifest.resolves_services == resolves


def test_manifest_leads_to_its_configuration(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(json.dumps(configuration()), encoding="utf-8")
    text = json.dumps(MANIFEST).replace("/etc/kubernetes/scheduler.yaml", str(path))
    (found,) = read(text)
    assert found.source == str(path)
    assert len(found.extenders) == 1


def test_manifest_that_leads_nowhere_is_an_error() -> None:
    text = json.dumps(MANIFEST)
    with pytest.raises(CommandError, match=r"`/etc/kubernetes/scheduler.yaml`, which is not on"):
        read(text)
    with pytest.raises(CommandError, match=r"without `--config`"):
        read(text.replace("--config=/etc/kubernetes/scheduler.yaml", "--v=2"))


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
def test_what_is_no_configuration_is_an_error(text: str, error: str) -> None:
    with pytest.raises(CommandError) as raised:
        read(text)
    assert raised.value.message.startswith(error)


# ---- generator: values as YAML, whatever they are


ODD_TEXTS = [
    "",
    "a b",
    "yes",
    "1.5",
    "5s",
    "1m",
    "#x",
    "x: y",
    "x #y",
    '"',
    "é\n",
    "-",
    "null",
    "2020-01-01",
    "a:b",
    "a:",
    "~",
    "0x1f",
    "1e3",
    ".inf",
    "*a",
    "[",
    "http://h:1/p",
    "kube.io/x",
]


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_any_text_comes_back_as_it_was(text: str) -> None:
    document = {"x": text, "y": [{"a": text, "b": {"c": text}}]}
    assert yaml.safe_load(yaml_of(document)) == document
