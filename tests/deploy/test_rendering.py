"""The chart as helm renders it, in each mode and for versions of Kubernetes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.placet_configuration import placet_configuration
from tests.deploy.chart import CHART, ROOT
from tests.deploy.kustomize import MANIFESTS, NoHelmError, helm, manifests, program
from tests.support.rows import rows

pytestmark = pytest.mark.e2e

VERSIONS = {"1.33.0": "v1.33.0", "1.35.2-gke.100": "v1.35.2", "1.36.0": "v1.36.0"}
DEFAULTS = "defaults"
CI = {path.stem.removesuffix("-values"): path for path in sorted((CHART / "ci").glob("*.yaml"))}
OF_NOWHERE = frozenset({"CustomResourceDefinition"})
Objects = Mapping[tuple[str, str], Any]


@pytest.fixture(scope="module", autouse=True)
def built_helm() -> None:
    """Skip the tests of this module where there is no helm."""
    try:
        program()
    except NoHelmError as error:
        pytest.skip(str(error))


def helm_template(*flags: str) -> subprocess.CompletedProcess[str]:
    """What helm makes of the chart."""
    return helm("template", "placet", CHART, "--namespace", "kube-system", *flags)


@cache
def rendered(*flags: str) -> Objects:
    """The objects by kind and name."""
    done = helm_template(*flags)
    assert done.returncode == 0, done.stderr
    found = [each for each in yaml.safe_load_all(done.stdout) if each is not None]
    objects = {(each["kind"], _where(each)): each for each in found}
    assert len(objects) == len(found), "two objects have one name"
    return objects


def _where(value: Any) -> str:
    """The name; with the namespace if that is not the release's."""
    namespace = value["metadata"].get("namespace", "kube-system")
    name: str = value["metadata"]["name"]
    return name if namespace == "kube-system" else f"{namespace}/{name}"


def of_ci(name: str, version: str = "1.36.0") -> Objects:
    given = () if name == DEFAULTS else ("--values", str(CI[name]))
    return rendered("--kube-version", version, *given)


def pod_of(objects: Objects) -> Any:
    (workload,) = (v for (kind, _), v in objects.items() if kind in ("Deployment", "DaemonSet"))
    return workload["spec"]["template"]


def container(objects: Objects, name: str = "placet") -> Any:
    (found,) = (c for c in pod_of(objects)["spec"]["containers"] if c["name"] == name)
    return found


def configuration(objects: Objects, of: str = "config", file: str = "placet.yaml") -> Any:
    return yaml.safe_load(objects["ConfigMap", f"placet-{of}"]["data"][file])


def rules(objects: Objects, kind: str = "ClusterRole", name: str = "placet") -> set[str]:
    """Each right as a line of text."""
    found = objects[kind, name]["rules"]
    return {
        f"{verb} {resource}.{group} {','.join(rule.get('resourceNames', []))}".strip()
        for rule in found
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


each_version = pytest.mark.parametrize("version", VERSIONS)
each_ci = pytest.mark.parametrize("name", [DEFAULTS, *CI])


@each_version
@each_ci
def test_every_object_has_the_labels_and_a_namespace_if_it_is_in_one(
    name: str, version: str
) -> None:
    objects = of_ci(name, version)
    for (kind, _), each in objects.items():
        labels = each["metadata"].get("labels", {})
        if kind != "CustomResourceDefinition":
            assert labels["app.kubernetes.io/instance"] == "placet"
        if name == "second-scheduler" and kind != "CustomResourceDefinition":
            assert labels["team"] == "platform"


@each_version
def test_second_scheduler_has_the_version_of_the_cluster(version: str) -> None:
    image = container(of_ci(DEFAULTS, version), "kube-scheduler")["image"]
    assert image == f"registry.k8s.io/kube-scheduler:{VERSIONS[version]}"


@each_version
@each_ci
def test_placet_reads_its_configuration(name: str, version: str, tmp_path: Path) -> None:
    """Every field exists, and has a value that the flag takes."""
    file = tmp_path / "placet.yaml"
    file.write_text(of_ci(name, version)["ConfigMap", "placet-config"]["data"]["placet.yaml"])
    read = placet_configuration([f"--config={file}"], {})
    fields = {each.flag.field for each in read.given.values()}
    assert {"listen", "healthListen", "lease", "schedulerName"} <= fields


def test_image_of_the_scheduler_can_be_another() -> None:
    flags = ("--kube-version", "1.36.0", "--set", "scheduler.image.tag=v1.36.1")
    assert container(rendered(*flags), "kube-scheduler")["image"].endswith(":v1.36.1")


def test_older_versions_of_kubernetes_are_refused() -> None:
    assert "kubeVersion" in helm_template("--kube-version", "1.32.0").stderr


def test_a_digest_comes_before_a_tag() -> None:
    assert container(of_ci("second-scheduler"))["image"].startswith(
        "registry.example/placet@sha256:"
    )


# ---- what runs


def test_leases_do_not_collide() -> None:
    """Neither with each other nor with that of the cluster's own kube-scheduler."""
    objects = of_ci(DEFAULTS)
    ours = configuration(objects)
    theirs = configuration(objects, "scheduler", "scheduler.yaml")["leaderElection"]
    lease = f"{theirs['resourceNamespace']}/{theirs['resourceName']}"
    assert (ours["lease"], lease) == ("kube-system/placet", "kube-system/placet-scheduler")
    assert ours["schedulerLease"] == lease
    leases = {rule for rule in rules(objects, "Role") if "leases" in rule}
    assert leases == {
        "create leases.coordination.k8s.io",
        *(f"{verb} leases.coordination.k8s.io placet" for verb in ("get", "update", "patch")),
        *(f"{verb} leases.coordination.k8s.io placet-scheduler" for verb in ("get", "update")),
    }


def test_both_sides_agree() -> None:
    objects = of_ci("second-scheduler")
    ours = configuration(objects)
    theirs = configuration(objects, "scheduler", "scheduler.yaml")
    (profile,), (extender,) = theirs["profiles"], theirs["extenders"]
    assert ours["schedulerName"] == [profile["schedulerName"]] == ["careful"]
    assert profile["plugins"] == {"score": {"disabled": [{"name": "ImageLocality"}]}}
    assert ours["httpTimeout"] == extender["httpTimeout"] == "2s"
    assert extender["urlPrefix"] == f"http://{ours['listen']}/api/scheduler"
    assert ours["listen"] == "127.0.0.1:12345"
    assert (ours["bind"], extender["bindVerb"]) == (True, "bind")
    assert theirs["percentageOfNodesToScore"] == 100
    assert (extender["nodeCacheCapable"], extender["ignorable"]) == (True, False)


def test_bindings_that_wait_have_an_entry_of_their_own() -> None:
    """That of the other verbs keeps its short timeout."""
    objects = rendered("--set", "bind.enabled=true,bind.httpTimeout=10m")
    main, apart = configuration(objects, "scheduler", "scheduler.yaml")["extenders"]
    assert apart == {
        "urlPrefix": main["urlPrefix"],
        "bindVerb": "bind",
        "httpTimeout": "10m",
        "ignorable": False,
    }
    assert (main["httpTimeout"], main.get("bindVerb")) == ("5s", None)
    assert configuration(objects)["bind"] is True


@each_version
@each_ci
def test_pods_are_restricted(name: str, version: str) -> None:
    """By the Pod Security Standard, but for the host's network of a control plane."""
    spec = pod_of(of_ci(name, version))["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec.get("hostNetwork", False) == (name == "control-plane")
    assert spec["automountServiceAccountToken"] is True
    for each in spec["containers"]:
        context = each["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert {"startupProbe", "livenessProbe", "readinessProbe"} <= each.keys()
        limits, requests = each["resources"]["limits"], each["resources"]["requests"]
        assert limits == {"memory": requests["memory"]}
    kinds = {key for volume in spec["volumes"] for key in volume if key != "name"}
    # A claim is of ci/second-scheduler-values.yaml; the standard allows it.
    assert kinds <= {"configMap", "secret", "emptyDir", "projected", "persistentVolumeClaim"}
    assert spec["priorityClassName"] == "system-cluster-critical"


@each_ci
def test_every_mount_has_its_volume_and_every_probe_its_port(name: str) -> None:
    objects = of_ci(name)
    spec = pod_of(objects)["spec"]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    mounted = {mount["name"] for each in spec["containers"] for mount in each["volumeMounts"]}
    assert mounted == set(volumes)
    maps = {v["configMap"]["name"] for v in volumes.values() if "configMap" in v}
    assert {f"placet-{m}" for m in ("config",)} <= maps
    assert maps - {name for kind, name in objects if kind == "ConfigMap"} <= {"kube-root-ca.crt"}
    for each in spec["containers"]:
        ports = {port["name"] for port in each["ports"]}
        probes = [
            each[f"{probe}Probe"]["httpGet"] for probe in ("startup", "liveness", "readiness")
        ]
        assert {probe["port"] for probe in probes} <= ports


def test_new_configuration_makes_new_pods_and_new_policies_do_not() -> None:
    flags = ("--kube-version", "1.36.0", "--set-string", r"policies.a\.policy=one")
    before = pod_of(rendered(*flags))["metadata"]["annotations"]

    def after(*more: str) -> set[str]:
        annotations: dict[str, str] = pod_of(rendered(*flags, *more))["metadata"]["annotations"]
        return {key for key in before if annotations[key] != before[key]}

    assert after("--set-string", r"policies.a\.policy=two") == set()
    assert after("--set", "config.maxInFlight=7") == {"checksum/config"}
    assert after("--set", "scheduler.weight=7") == {"checksum/scheduler"}


def test_values_of_pods_arrive() -> None:
    objects = of_ci("second-scheduler")
    pod = pod_of(objects)
    assert pod["metadata"]["labels"]["tier"] == "control"
    assert pod["metadata"]["annotations"]["example.com/owner"] == "platform"
    spec = pod["spec"]
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["nodeSelector"] == {"pool": "infra"}
    assert spec["tolerations"] == [{"key": "infra", "operator": "Exists"}]
    assert spec["affinity"] == {"nodeAffinity": {}}
    placet = container(objects)
    assert placet["args"] == ["serve", "--config=/etc/placet/placet.yaml", "--verbose"]
    assert {"name": "TZ", "value": "UTC"} in placet["env"]
    assert {"name": "more", "mountPath": "/more"} in placet["volumeMounts"]
    assert "--profiling=false" in container(objects, "kube-scheduler")["args"]
    assert objects["ConfigMap", "placet-policies"]["data"].keys() == {"shop.policy"}


def test_what_sources_of_data_need_is_mounted() -> None:
    objects = of_ci("second-scheduler")
    configured = configuration(objects)
    mounts = {each["name"]: each["mountPath"] for each in container(objects)["volumeMounts"]}
    assert configured["dataFolder"] == mounts["data"]
    assert configured["dataCa"] == f"{mounts['data-ca']}/ca.crt"
    assert configured["dataToken"] == f"{mounts['data-token']}/token"
    assert configured["dataHeaders"] == f"{mounts['data-headers']}/headers"
    volumes = {each["name"]: each for each in pod_of(objects)["spec"]["volumes"]}
    assert volumes["data"] == {"name": "data", "persistentVolumeClaim": {"claimName": "prices"}}
    assert volumes["data-ca"]["secret"]["secretName"] == "monitoring-ca"
    assert volumes["data-token"]["secret"]["secretName"] == "monitoring-token"
    egress = objects["NetworkPolicy", "placet"]["spec"]["egress"]
    assert {"ports": [{"port": 9090}]} in egress
    plain = rendered()
    assert "dataFolder" not in configuration(plain)
    assert not {each["name"] for each in pod_of(plain)["spec"]["volumes"]} & {"data", "data-ca"}


@each_ci
def test_selectors_select_the_pods_and_not_the_test(name: str) -> None:
    objects = of_ci(name)
    labels = pod_of(objects)["metadata"]["labels"].items()
    selectors = [
        each["spec"]["selector"].get("matchLabels", each["spec"]["selector"])
        for (kind, _), each in objects.items()
        if kind in {"Deployment", "DaemonSet", "PodDisruptionBudget", "Service", "PodMonitor"}
    ]
    tested = objects["Pod", "placet-test"]["metadata"]["labels"].items()
    assert selectors
    for selector in selectors:
        assert selector.items() <= labels
        assert not selector.items() <= tested


# ---- modes


def test_modes_have_their_workload() -> None:
    def kinds(name: str) -> set[str]:
        wanted = {"Deployment", "DaemonSet", "PodDisruptionBudget", "Service"}
        return {kind for kind, _ in of_ci(name)} & wanted

    # A Service is for the webhooks, or for the calls too.
    assert kinds(DEFAULTS) == {"Deployment", "PodDisruptionBudget", "Service"}
    assert kinds("control-plane") == {"DaemonSet", "Service"}
    assert kinds("service") == {"Deployment", "PodDisruptionBudget", "Service"}
    assert {kind for kind, _ in of_ci(DEFAULTS, "1.35.2-gke.100")} >= {"Service"}


def test_control_plane_is_beside_kube_scheduler() -> None:
    objects = rendered("--kube-version", "1.36.0", "--set", "mode=control-plane")
    spec = pod_of(objects)["spec"]
    assert spec["nodeSelector"] == {"node-role.kubernetes.io/control-plane": ""}
    assert spec["tolerations"] == [{"operator": "Exists"}]
    ours = configuration(objects)
    assert (ours["listen"], ours["healthListen"]) == ("127.0.0.1:12345", "127.0.0.1:12347")
    probe = container(objects)["readinessProbe"]["httpGet"]
    assert probe == {"path": "/readyz", "port": "health", "host": "127.0.0.1"}
    assert objects["DaemonSet", "placet"]["spec"]["updateStrategy"] == {"type": "OnDelete"}


def test_service_demands_certificates() -> None:
    objects = of_ci("service")
    ours = configuration(objects)
    assert ours["listen"] == ":12345"
    assert ours["clientName"] == ["system:kube-scheduler"]
    mounts = {m["mountPath"] for m in container(objects)["volumeMounts"]}
    for field in ("tlsCert", "tlsKey", "clientCa"):
        assert ours[field].rpartition("/")[0] in mounts
    certificate = objects["Certificate", "placet"]["spec"]
    assert certificate["ipAddresses"] == ["10.96.0.50"]
    assert "placet.kube-system.svc" in certificate["dnsNames"]
    service = objects["Service", "placet"]["spec"]
    assert (service["clusterIP"], service["sessionAffinity"]) == ("10.96.0.50", "ClientIP")
    strategy = objects["Deployment", "placet"]["spec"]["strategy"]["rollingUpdate"]
    assert strategy == {"maxSurge": 1, "maxUnavailable": 0}
    given = of_ci("service-secret")
    assert not [kind for kind, _ in given if kind in ("Certificate", "Issuer")]
    volumes = {v["name"]: v for v in pod_of(given)["spec"]["volumes"]}
    assert volumes["tls"]["secret"]["secretName"] == "placet-certificate"
    assert volumes["clients"]["secret"]["secretName"] == "clients"


# ---- rights


def shipped(name: str, *path: str) -> set[str]:
    """The rights of a role in deploy/rbac."""
    text = (ROOT / "deploy" / "rbac" / Path(*path)).read_text(encoding="utf-8")
    found = {
        ("ClusterRole", each["metadata"]["name"]): each
        for each in yaml.safe_load_all(text)
        if "rules" in each and each["kind"] == "ClusterRole"
    }
    return rules(found, "ClusterRole", name)


def test_rights_are_those_of_deploy_rbac() -> None:
    objects = of_ci("second-scheduler")
    for role in ("placet", "placet-policies-edit", "placet-policies-view"):
        assert rules(objects, name=role) == shipped(role, "placet.yaml")
    assert rules(objects, name="placet-bind") == shipped("placet-bind", "bind", "placet.yaml")


def test_rights_are_the_least() -> None:
    objects = of_ci("least")
    assert rules(objects) == {
        *(f"{verb} {what}." for verb in ("list", "watch") for what in ("nodes", "pods")),
        "get pods.",
        *(
            f"{verb} {what}.placement-policy.scheduling.x-k8s.io"
            for verb in ("list", "watch")
            for what in ("placementpolicies", "clusterplacementpolicies")
        ),
    }
    assert {name for kind, name in objects if kind == "ClusterRole"} == {"placet"}
    assert not [kind for kind, _ in objects if kind == "ServiceAccount"]
    assert pod_of(objects)["spec"]["serviceAccountName"] == "existing"


def test_second_scheduler_has_the_roles_of_the_cluster() -> None:
    objects = of_ci(DEFAULTS)
    bound = {
        (kind, each["roleRef"]["kind"], each["roleRef"]["name"])
        for (kind, _), each in objects.items()
        if kind.endswith("Binding") and "roleRef" in each
    }
    assert {
        ("ClusterRoleBinding", "ClusterRole", "system:kube-scheduler"),
        ("ClusterRoleBinding", "ClusterRole", "system:volume-scheduler"),
        ("RoleBinding", "Role", "extension-apiserver-authentication-reader"),
    } <= bound
    others = {name for kind, _, name in bound if not name.startswith("placet")}
    assert len(others) == 3
    assert (
        not {
            each["roleRef"]["name"]
            for (kind, _), each in of_ci("service").items()
            if kind.endswith("Binding") and "roleRef" in each
        }
        & others
    )


# ---- admission


def test_opted_in_pods_get_their_scheduler_by_a_policy_where_there_is_one() -> None:
    policy = of_ci(DEFAULTS)["MutatingAdmissionPolicy", "placet"]["spec"]
    names = policy["matchConstraints"]["namespaceSelector"]
    assert names["matchLabels"] == {"placet.dev/scheduling": "enabled"}
    assert names["matchExpressions"][0]["values"] == ["kube-system"]
    (mutation,) = policy["mutations"]
    assert 'schedulerName: "placet"' in mutation["applyConfiguration"]["expression"]
    assert ("MutatingAdmissionPolicy", "placet") not in of_ci(DEFAULTS, "1.35.2-gke.100")
    assert ("MutatingAdmissionPolicy", "placet") not in of_ci("least")


@pytest.mark.parametrize("version", ["1.33.0", "1.35.2-gke.100"])
def test_opted_in_pods_get_their_scheduler_by_a_webhook_before(version: str) -> None:
    objects = of_ci(DEFAULTS, version)
    (webhook,) = objects["MutatingWebhookConfiguration", "placet"]["webhooks"]
    policy = of_ci(DEFAULTS)["MutatingAdmissionPolicy", "placet"]["spec"]
    assert webhook["namespaceSelector"] == policy["matchConstraints"]["namespaceSelector"]
    assert webhook["matchConditions"] == policy["matchConditions"]
    assert webhook["rules"] == policy["matchConstraints"]["resourceRules"]
    service = webhook["clientConfig"]["service"]
    assert (service["name"], service["path"]) == ("placet", "/admission/pods")
    ports = {
        port["port"]: port["targetPort"] for port in objects["Service", "placet"]["spec"]["ports"]
    }
    assert ports[service["port"]] == "https"
    assert {"name": "https", "containerPort": 12348} in container(objects)["ports"]
    ours = configuration(objects)
    assert (ours["listen"], ours["webhookListen"]) == ("127.0.0.1:12345", ":12348")


ADMISSION = ROOT / "deploy" / "admission"


def test_the_gate_is_that_of_the_manifests() -> None:
    values = ("--values", str(CI["control-plane"]), "--set", "optIn.gate=true")
    objects = rendered("--kube-version", "1.36.0", *values)
    (shipped, _binding) = yaml.safe_load_all((ADMISSION / "gate-policy.yaml").read_text())
    assert objects["MutatingAdmissionPolicy", "placet"]["spec"] == shipped["spec"]
    assert configuration(objects)["gate"] is True
    webhooks = {
        each["name"]: each
        for each in rendered("--kube-version", "1.35.0", *values)[
            "MutatingWebhookConfiguration", "placet"
        ]["webhooks"]
    }
    (shipped,) = yaml.safe_load_all((ADMISSION / "gate.yaml").read_text())
    assert len(webhooks) == len(shipped["webhooks"]) == 2
    for each in shipped["webhooks"]:
        webhook = webhooks[each["name"]]
        assert webhook["clientConfig"]["service"]["path"] == "/admission/gate"
        value = each["namespaceSelector"]["matchLabels"]["placet.dev/scheduling"]
        chosen, outside = webhook["namespaceSelector"]["matchExpressions"]
        assert (chosen["values"], [outside]) == (
            [value],
            each["namespaceSelector"]["matchExpressions"],
        )
        parts = {"clientConfig", "namespaceSelector"}
        assert {k: v for k, v in webhook.items() if k not in parts} == {
            k: v for k, v in each.items() if k not in parts
        }


def test_portable_policies_have_a_webhook_and_frozen_labels() -> None:
    values = ("--values", str(CI["control-plane"]), "--set", "portable.enabled=true")
    objects = rendered("--kube-version", "1.36.0", *values, "--set", "portable.frozenLabels={app}")
    webhooks = objects["MutatingWebhookConfiguration", "placet"]["webhooks"]
    names = [each["name"] for each in webhooks]
    assert names == [
        "enabled.gate.placet.dev",
        "strict.gate.placet.dev",
    ]
    assert configuration(objects)["frozenLabel"] == ["app"]
    (shipped, binding) = yaml.safe_load_all((ADMISSION / "frozen.yaml").read_text())
    frozen = objects["ValidatingAdmissionPolicy", "placet-frozen"]["spec"]
    namespaces = frozen["matchConstraints"]["namespaceSelector"]["matchExpressions"]
    # Also not the namespaces that Placet depends on.
    assert namespaces.pop()["values"] == ["kube-system"]
    assert frozen == shipped["spec"]
    assert objects["ValidatingAdmissionPolicyBinding", "placet-frozen"]["spec"] == binding["spec"]
    bare = rendered("--kube-version", "1.36.0", *values)
    assert ("ValidatingAdmissionPolicy", "placet-frozen") not in bare
    both = rendered(
        "--kube-version",
        "1.35.0",
        *values,
        "--set",
        "portable.frozenAnnotations={a,b}",
        "--set",
        "optIn.gate=true",
    )
    variables = both["ValidatingAdmissionPolicy", "placet-frozen"]["spec"]["variables"]
    assert [each["expression"] for each in variables] == ["[]", '["a","b"]']
    assert len(both["MutatingWebhookConfiguration", "placet"]["webhooks"]) == 2


def test_placet_keeps_its_own_certificate_right() -> None:
    objects = of_ci(DEFAULTS, "1.35.2-gke.100")
    ours = configuration(objects)
    assert ours["tlsSecret"] == "kube-system/placet-tls"
    assert ours["webhookConfiguration"] == ["placet"]
    assert "placet.kube-system.svc" in ours["tlsName"]
    assert rules(objects, "Role", "placet-certificates") == {
        "create secrets.",
        "get secrets. placet-tls",
        "patch secrets. placet-tls",
    }
    resources = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    assert rules(objects, name="placet-certificates") == {
        f"{verb} {resource}.admissionregistration.k8s.io placet"
        for verb in ("get", "patch")
        for resource in resources
    }
    without = rendered("--kube-version", "1.36.0", "--set", "webhooks.policies=false")
    assert ("ClusterRole", "placet-certificates") not in without


@pytest.mark.parametrize(
    ("values", "is_there"),
    [
        ("mode=service", True),
        ("certificates.mode=certManager", False),
        ("certificates.mode=certManager,webhooks.policies=true", True),
        ("webhooks.policies=false", False),
    ],
)
def test_the_webhook_for_policies_is_on_where_placet_makes_its_certificate(
    values: str, is_there: bool
) -> None:
    objects = rendered("--kube-version", "1.36.0", "--set", values)
    assert (("ValidatingWebhookConfiguration", "placet") in objects) == is_there


def test_policies_of_the_values_are_checked_before_they_get_in() -> None:
    policies = ("--set", "policies.shop\\.policy=policy shop {}")
    objects = rendered("--kube-version", "1.36.0", *policies)
    job, files = objects["Job", "placet-check"], objects["ConfigMap", "placet-check"]
    weights = []
    for each in (files, job):
        annotations = each["metadata"]["annotations"]
        assert annotations["helm.sh/hook"] == "pre-install,pre-upgrade"
        weights.append(int(annotations.get("helm.sh/hook-weight", 0)))
    assert weights == sorted(weights), "the files are there before the Job"
    assert files["data"] == {"shop.policy": "policy shop {}"}
    (container,) = job["spec"]["template"]["spec"]["containers"]
    (mount, _) = container["volumeMounts"]
    assert container["args"] == ["check", mount["mountPath"]]
    assert ("Job", "placet-check") not in of_ci(DEFAULTS)
    off = rendered("--kube-version", "1.36.0", *policies, "--set", "policyCheck.enabled=false")
    assert ("Job", "placet-check") not in off


@pytest.mark.parametrize(("mode", "port"), [("second-scheduler", 12348), ("service", 12345)])
def test_policies_are_checked_by_a_webhook(mode: str, port: int) -> None:
    flags = ("--kube-version", "1.36.0", "--set", f"mode={mode},webhooks.policies=true")
    objects = rendered(*flags)
    (webhook,) = objects["ValidatingWebhookConfiguration", "placet"]["webhooks"]
    text = (ROOT / "deploy" / "admission" / "validating.yaml").read_text(encoding="utf-8")
    (shipped,) = yaml.safe_load(text)["webhooks"]
    assert webhook["clientConfig"]["service"]["port"] == port
    assert webhook.keys() == shipped.keys()
    same = webhook.keys() - {"clientConfig"}
    assert {key: webhook[key] for key in same} == {key: shipped[key] for key in same}
    given = rendered(*flags, "--set", "certificates.mode=secret,certificates.ca=CA")
    (webhook,) = given["ValidatingWebhookConfiguration", "placet"]["webhooks"]
    assert webhook["clientConfig"]["caBundle"] == "Q0E="
    injected = rendered(*flags, "--set", "certificates.mode=certManager")
    annotations = injected["ValidatingWebhookConfiguration", "placet"]["metadata"]["annotations"]
    assert annotations == {"cert-manager.io/inject-ca-from": "kube-system/placet"}
    assert ("Certificate", "placet") in injected


# ---- definitions and monitoring


def test_definitions_are_upgraded_and_stay() -> None:
    objects = of_ci(DEFAULTS)
    found = {name: each for (kind, name), each in objects.items() if kind in OF_NOWHERE}
    assert len(found) == 2
    for file in (CHART / "files" / "crds").iterdir():
        ours = yaml.safe_load(file.read_text(encoding="utf-8"))
        theirs = found[ours["metadata"]["name"]]
        ours["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
        assert theirs == ours


def test_monitoring_is_that_of_the_files() -> None:
    metrics = "metrics.prometheusRule.enabled=true,metrics.dashboard.enabled=true"
    links = "metrics.prometheusRule.runbooks=https://placet.example/monitoring"
    objects = rendered("--kube-version", "1.36.0", "--set", f"{metrics},{links}")
    text = (CHART / "files" / "alerts.yaml").read_text(encoding="utf-8")
    replaced = text.replace("docs/monitoring.md", "https://placet.example/monitoring")
    assert objects["PrometheusRule", "placet"]["spec"] == yaml.safe_load(replaced)
    objects = rendered("--kube-version", "1.36.0", "--set", metrics)
    home = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["home"]
    replaced = text.replace("docs/monitoring.md", f"{home}/docs/monitoring.md")
    assert objects["PrometheusRule", "placet"]["spec"] == yaml.safe_load(replaced)
    dashboard = objects["ConfigMap", "placet-dashboard"]["data"]["placet.json"]
    assert json.loads(dashboard) == json.loads((CHART / "files" / "dashboard.json").read_text())


def test_the_history_of_the_page_outlives_the_pod_on_a_volume() -> None:
    values = (
        "config.history=/history/placet,extraVolumeMounts[0].name=history,"
        "extraVolumeMounts[0].mountPath=/history,extraVolumes[0].name=history,"
        "extraVolumes[0].persistentVolumeClaim.claimName=placet-history"
    )
    objects = rendered("--kube-version", "1.36.0", "--set", values)
    assert configuration(objects)["history"] == "/history/placet"
    assert {"name": "history", "mountPath": "/history"} in container(objects)["volumeMounts"]
    volume = {"name": "history", "persistentVolumeClaim": {"claimName": "placet-history"}}
    assert volume in pod_of(objects)["spec"]["volumes"]


# ---- what is refused


@rows(
    ("flags", "reason"),
    {
        "a value that does not exist": (["--set", "replica=3"], "replica"),
        "a field": (["--set", "config.httpTimout=3s"], "httpTimout"),
        "a mode": (["--set", "mode=sidecar"], "mode"),
        "no duration": (["--set", "config.httpTimeout=fast"], "httpTimeout"),
        "long": (["--set", "bind.enabled=true,bind.httpTimeout=long"], "httpTimeout"),
        "nobody to wait for": (["--set", "bind.httpTimeout=10m"], "without bind.enabled"),
        "another's pods": (["--set", "scheduler.name=default-scheduler"], "name"),
        "a policy before there are any": (
            ["--kube-version", "1.35.0", "--set", "optIn.by=policy"],
            "needs Kubernetes 1.36",
        ),
        "a gate that is not needed": (["--set", "optIn.gate=true"], "optIn.gate"),
        "metrics that nobody reaches": (
            ["--set", "mode=control-plane,metrics.podMonitor.enabled=true"],
            "controlPlane.healthHost",
        ),
        "a certificate that nobody trusts": (
            ["--set", "webhooks.policies=true,certificates.mode=secret"],
            "certificates.ca",
        ),
        "a policy without effect": (
            ["--set", "mode=control-plane,networkPolicy.enabled=true"],
            "networkPolicy.enabled",
        ),
    },
)
def test_values_that_cannot_work_are_refused(flags: list[str], reason: str) -> None:
    done = helm_template("--kube-version", "1.36.0", *flags)
    assert done.returncode != 0
    assert reason in done.stderr


# ---- without helm


def test_base_of_kustomize_is_what_helm_renders() -> None:
    """`python -m tests.deploy.kustomize` writes it."""
    assert MANIFESTS.read_text(encoding="utf-8") == manifests()


def test_a_shared_view_has_a_port_and_the_right_to_ask_about_users() -> None:
    objects = rendered("--kube-version", "1.36.0", "--set", "ports.sharedView=12349")
    configuration = yaml.safe_load(objects["ConfigMap", "placet-config"]["data"]["placet.yaml"])
    assert configuration["viewListen"] == ":12349"
    ports = {each["name"]: each for each in objects["Service", "placet"]["spec"]["ports"]}
    assert ports["view"] == {"name": "view", "port": 12349, "targetPort": "view"}
    bound = objects["ClusterRoleBinding", "placet-view"]
    shipped_file = (ROOT / "deploy" / "rbac" / "view" / "placet.yaml").read_text("utf-8")
    assert bound["roleRef"] == yaml.safe_load(shipped_file)["roleRef"]
    usual = rendered("--kube-version", "1.36.0")
    assert ("ClusterRoleBinding", "placet-view") not in usual
    assert "view" not in {each["name"] for each in usual["Service", "placet"]["spec"]["ports"]}


def test_a_shared_view_without_a_certificate_is_refused() -> None:
    done = helm_template(
        "--kube-version", "1.36.0", "--set", "ports.sharedView=12349,webhooks.policies=false"
    )
    assert "ports.sharedView needs a certificate: set webhooks.policies to true" in done.stderr
