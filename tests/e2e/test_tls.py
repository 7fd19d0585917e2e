"""kube-scheduler asks over TLS with a certificate of its own, while certificates change."""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from trustme import CA, LeafCert

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.manifests import node, pod
from tests.e2e.placet import Placet, placet
from tests.e2e.process import answers_ok, until
from tests.e2e.stage import GOVERNED

pytestmark = pytest.mark.e2e

POLICY = 'cluster policy a { filter "ssd" { require node.labels["disk"] == "ssd" } }'
NODES = [node("n0", {"disk": "ssd"}), node("n1", {"disk": "hdd"})]
ROTATIONS = 5
SECONDS = 30.0


class Keys:
    """The files of both sides."""

    def __init__(self, folder: Path) -> None:
        """Write all of them."""
        self.folder = folder
        self.server_ca, self.client_ca = CA(), CA()
        self.server_ca.cert_pem.write_to_path(str(folder / "server-ca.crt"))
        self.client_ca.cert_pem.write_to_path(str(folder / "client-ca.crt"))
        self.renew_server()

    @property
    def authority(self) -> Path:
        """Whom kube-scheduler trusts."""
        return self.folder / "server-ca.crt"

    def renew_server(self) -> None:
        """Give the server another certificate, its key a moment before it."""
        self._write("server", self.server_ca.issue_cert("127.0.0.1"))

    def client(self, name: str) -> dict[str, str]:
        """Return the `tlsConfig` of a client of this name."""
        self._write("client", self.client_ca.issue_cert(common_name=name))
        certificate, key = self.folder / "client.crt", self.folder / "client.key"
        return {
            "caFile": str(self.authority),
            "certFile": str(certificate),
            "keyFile": str(key),
        }

    def _write(self, name: str, leaf: LeafCert) -> None:
        leaf.private_key_pem.write_to_path(str(self.folder / f"{name}.key"))
        leaf.cert_chain_pems[0].write_to_path(str(self.folder / f"{name}.crt"))


@contextmanager
def secured(cluster: Cluster, folder: Path, keys: Keys) -> Iterator[Placet]:
    """Serve over TLS to kube-scheduler alone, from a snapshot of what there is now."""
    policies = folder / "a.policy"
    policies.write_text(POLICY)
    snapshot = cluster.write_snapshot(folder / "snapshot.json")
    flags = (
        f"--cluster={snapshot}",
        f"--tls-cert={keys.folder / 'server.crt'}",
        f"--tls-key={keys.folder / 'server.key'}",
        f"--client-ca={keys.folder / 'client-ca.crt'}",
        "--client-name=system:kube-scheduler",
        # A line for each call, however many.
        "--verbose",
    )
    with placet(folder, policies, *flags) as server:

        def is_ready() -> bool:
            return answers_ok(server.port, "/readyz", keys.authority)

        server.process.wait_ready(is_ready, SECONDS)
        yield server


def entry(server: Placet, tls: dict[str, str]) -> dict[str, Any]:
    """Return the extender of a server, reached with these files."""
    plain = extender(f"https://127.0.0.1:{server.port}", node_cache_capable=True)
    return plain | {"enableHTTPS": True, "tlsConfig": tls}


def test_no_pod_notices_that_certificates_change(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """A pod that was refused once for an error of ours would have a condition that says so."""
    cluster.create_nodes(NODES)
    keys = Keys(tmp_path)
    with (
        secured(cluster, tmp_path, keys) as server,
        kube_scheduler(plane, tmp_path, [entry(server, keys.client("system:kube-scheduler"))]),
    ):
        for rotation in range(1, ROTATIONS + 1):
            names = [f"web-{rotation}-{number}" for number in range(5)]
            cluster.create_pods(pod(n, cluster.namespace, GOVERNED, cpu="10m") for n in names)
            keys.renew_server()
            assert set(cluster.wait_placed(names).values()) == {"n0"}
            wait_generations(server, rotation + 1)
        log = server.process.log.read_text()
    assert log.count('outcome="answered"') == log.count("outcome=") >= 5 * ROTATIONS
    assert "no connection" not in log


def wait_generations(server: Placet, count: int) -> None:
    """Return when the server has had so many certificates, the first included."""

    def has_had() -> bool:
        return server.process.log.read_text().count("TLS: loaded certificate") >= count

    until(has_had, SECONDS, server.process.tail)


def test_another_client_of_the_same_ca_decides_nothing(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_nodes(NODES)
    keys = Keys(tmp_path)
    with (
        secured(cluster, tmp_path, keys) as server,
        kube_scheduler(plane, tmp_path, [entry(server, keys.client("system:node:n0"))]),
    ):
        cluster.create_pods([pod("web", cluster.namespace, GOVERNED)])
        condition = cluster.wait_refused("web")
    assert condition["reason"] == "SchedulerError"
    assert str(int(http.client.FORBIDDEN)) in condition["message"]
