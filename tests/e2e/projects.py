"""Projects: JobSet, LeaderWorkerSet and Kueue, each installed by its own manifests.

A controller runs beside the API server for as long as a block runs, with the settings of its
manifests and as its own service account. The Service in front of its webhooks leads to this
machine. They make their certificates themselves; JobSet has one as from cert-manager. The files
that a kubelet mounts are written here.
"""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from trustme import CA

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.process import Process, answers_ok, free_port, kubeconfig, running, until

SECONDS = 60.0
_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
# The rest is about images, metrics and APIs that nobody asks here.
_INSTALLED = (
    "Namespace",
    "CustomResourceDefinition",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Secret",
)
_SERVICE = {"apiVersion": "v1", "kind": "Service"}
_SETTINGS = "controller_manager_config.yaml"
# It would look for a certificate of its own in a folder that its settings cannot name.
_HAS_CERTIFICATE_OF_OTHERS = "jobset"
# Its API of pending workloads would write into a folder of the root.
_MORE_SETTINGS = {"kueue": {"featureGates": {"VisibilityOnDemand": False}}}


@contextmanager
def project(
    plane: ControlPlane,
    cluster: Cluster,
    folder: Path,
    program: Path,
    sample: dict[str, Any],
    default: str,
) -> Iterator[Process]:
    """Run the controller of a program that `build` has made, with its manifests beside it.

    It is ready once its webhook gives a `sample` this `default`, a part of its JSON.
    """
    own = folder / program.name
    mounted = own / "certificates"
    mounted.mkdir(parents=True)
    port, health = free_port(), free_port()
    text = cluster.kubectl("kustomize", str(program.parent / f"{program.name}-config" / "default"))
    manifests = [each for each in yaml.safe_load_all(text) if each is not None]
    space = next(each["metadata"]["name"] for each in manifests if each["kind"] == "Namespace")
    service = next(each for each in manifests if _is_webhook_service(each))["metadata"]
    makes_own = program.name != _HAS_CERTIFICATE_OF_OTHERS
    authority = b"" if makes_own else _issue(f"{service['name']}.{space}.svc", mounted)
    webhooks = [each for each in manifests if each["kind"] in _WEBHOOKS]
    installed = [each for each in manifests if each["kind"] in _INSTALLED]
    for each in (*installed, *webhooks):
        _reach(each, port, authority)
    # The port of this machine is that of the Service.
    where = {"type": "ExternalName", "externalName": "localhost"}
    made = [*installed, *webhooks, {**_SERVICE, "metadata": service, "spec": where}]
    # The definitions are too large for the annotation that kubectl writes otherwise.
    cluster.kubectl("apply", "--server-side", "-f", "-", text=yaml.dump_all(made))
    # That of a definition without any condition yet is an error.
    wait = ("wait", "--for=condition=Established", "crd", "--all")
    until(lambda: cluster.try_kubectl(*wait).returncode == 0, SECONDS, lambda: "definitions")
    settings = own / "settings.json"
    settings.write_text(
        json.dumps(
            _own_settings(manifests)
            | {
                "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
                "internalCertManagement": {"enable": makes_own},
                "leaderElection": {"leaderElect": False},
                "metrics": {"bindAddress": "0"},
                "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(mounted)},
            }
            | _MORE_SETTINGS.get(program.name, {})
        )
    )
    token = cluster.kubectl("-n", space, "create", "token", _account(manifests))
    access = kubeconfig(own / "kubeconfig", plane.url, plane.authority, {"token": token.strip()})
    command: list[str | Path] = [program, f"--config={settings}", f"--kubeconfig={access}"]
    try:
        with running(command, folder / f"{program.name}.log") as process:
            if makes_own:
                _mount(cluster, space, mounted, process)
            process.wait_ready(lambda: answers_ok(health, "/readyz"), SECONDS)
            _wait_defaulted(cluster, sample, default, process)
            yield process
    finally:
        # Without their controller they would refuse the pods of every other test.
        for each in webhooks:
            cluster.kubectl("delete", each["kind"], each["metadata"]["name"])


def _reach(manifest: dict[str, Any], port: int, authority: bytes) -> None:
    """Let the webhooks of a manifest, if there are any, be behind a port of their Service."""
    clients = [each["clientConfig"] for each in manifest.get("webhooks", ())]
    conversion = manifest.get("spec", {}).get("conversion", {}).get("webhook")
    for client in [*clients, *([conversion["clientConfig"]] if conversion else [])]:
        client["service"]["port"] = port
        if authority:
            client["caBundle"] = base64.b64encode(authority).decode()


def _is_webhook_service(manifest: dict[str, Any]) -> bool:
    return manifest["kind"] == "Service" and "webhook" in manifest["metadata"]["name"]


def _account(manifests: list[dict[str, Any]]) -> str:
    found = next(each for each in manifests if each["kind"] == "Deployment")
    name: str = found["spec"]["template"]["spec"]["serviceAccountName"]
    return name


def _own_settings(manifests: list[dict[str, Any]]) -> dict[str, Any]:
    found = next(each for each in manifests if _SETTINGS in each.get("data", {}))
    settings: dict[str, Any] = yaml.safe_load(found["data"][_SETTINGS])
    return settings


def _issue(name: str, mounted: Path) -> bytes:
    """Write a certificate for a server, as cert-manager does, and return what has issued it."""
    authority = CA()
    leaf = authority.issue_cert(name)
    leaf.private_key_pem.write_to_path(str(mounted / "tls.key"))
    leaf.cert_chain_pems[0].write_to_path(str(mounted / "tls.crt"))
    return authority.cert_pem.bytes()


def _mount(cluster: Cluster, space: str, mounted: Path, process: Process) -> None:
    """Write the files of the Secret with the certificate as soon as the controller has made it."""
    found: dict[str, str] = {}

    def is_made() -> bool:
        secrets = json.loads(cluster.kubectl("-n", space, "get", "secrets", "-o", "json"))["items"]
        for each in secrets:
            found.update(each.get("data") or {})
        return "tls.crt" in found

    process.wait_ready(is_made, SECONDS)
    for name, content in found.items():
        (mounted / name).write_bytes(base64.b64decode(content))


def _wait_defaulted(
    cluster: Cluster, sample: dict[str, Any], default: str, process: Process
) -> None:
    text = json.dumps(sample)

    def is_defaulted() -> bool:
        flags = ("--dry-run=server", "-o", "json", "-f", "-")
        done = cluster.try_kubectl("-n", cluster.namespace, "create", *flags, text=text)
        return done.returncode == 0 and default in done.stdout

    until(is_defaulted, SECONDS, process.tail)
