"""The webhooks of deploy/admission, and a Placet that the API server reaches by them."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from trustme import CA

from tests.e2e.cluster import Cluster
from tests.e2e.placet import Placet, placet
from tests.e2e.process import answers_ok, until
from tests.e2e.service import service

CONFIGURATIONS = Path(__file__).parents[2] / "deploy" / "admission"
SECONDS = 30.0


@contextmanager
def webhooks(
    cluster: Cluster, folder: Path, policies: str, refused: dict[str, Any]
) -> Iterator[Placet]:
    """Serve the webhooks until the block ends, beside a file of policies.

    The API server asks once it refuses an object that only a webhook refuses. It has no certificate
    to show, and kube-scheduler must.
    """
    authority, clients = CA(), CA()
    leaf = authority.issue_cert("127.0.0.1")
    leaf.private_key_pem.write_to_path(str(folder / "tls.key"))
    leaf.cert_chain_pems[0].write_to_path(str(folder / "tls.crt"))
    authority.cert_pem.write_to_path(str(folder / "ca.crt"))
    clients.cert_pem.write_to_path(str(folder / "clients.crt"))
    file = folder / "files.policy"
    file.write_text(policies)
    flags = (
        "--no-cluster",
        f"--tls-cert={folder / 'tls.crt'}",
        f"--tls-key={folder / 'tls.key'}",
        f"--client-ca={folder / 'clients.crt'}",
        "--client-name=system:kube-scheduler",
    )
    with placet(folder, file, *flags) as server:
        server.process.wait_ready(
            lambda: answers_ok(server.port, "/readyz", folder / "ca.crt"), SECONDS
        )
        made = _configurations(server.port, authority.cert_pem.bytes())
        try:
            cluster.apply(*made)
            _wait_refused(cluster, refused, server)
            yield server
        finally:
            for each in made:
                cluster.kubectl("delete", each["kind"], each["metadata"]["name"])


def _configurations(port: int, authority: bytes) -> list[dict[str, Any]]:
    """Those that ship, but for where Placet is and who has issued its certificate."""
    made = []
    for name in ("pods", "validating"):
        configuration = yaml.safe_load((CONFIGURATIONS / f"{name}.yaml").read_text())
        for webhook in configuration["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {
                "url": f"https://127.0.0.1:{port}{path}",
                "caBundle": base64.b64encode(authority).decode(),
            }
        made.append(configuration)
    return made


def _wait_refused(cluster: Cluster, value: dict[str, Any], server: Placet) -> None:
    text = json.dumps(value)

    def is_refused() -> bool:
        done = cluster.try_kubectl("create", "--dry-run=server", "-f", "-", text=text)
        return done.returncode != 0 and "denied the request" in done.stderr

    until(is_refused, SECONDS, server.process.tail)


# ---- replicas of Placet that serve webhooks behind one address, as behind a Service


RENEWAL_SECONDS = 60.0


@dataclass
class WebhookReplica:
    """One of them; it is ready until its process ends."""

    server: Placet

    def wait_ready(self, authority: Path) -> None:
        port = self.server.port
        self.server.process.wait_ready(
            lambda: answers_ok(port, "/readyz", authority), RENEWAL_SECONDS
        )

    def is_ready(self) -> bool:
        return self.server.process.child.poll() is None

    def connect(self, port: int, seconds: float) -> socket.socket:
        """Return a connection to it; all replicas of a Service have one port, these have not."""
        del port
        return socket.create_connection(("127.0.0.1", self.server.port), seconds)

    def kill(self) -> None:
        self.server.process.child.kill()
        self.server.process.child.wait()


@dataclass(frozen=True)
class Webhooks:
    """The replicas, the port in front of them, and the CA of their certificate."""

    replicas: Sequence[WebhookReplica]
    port: int
    authority: bytes

    def configuration(
        self, file: Path, port: int | None = None, seconds: int = 5
    ) -> dict[str, Any]:
        """Return one that ships, but for where Placet is and how long the API server waits."""
        made: dict[str, Any] = yaml.safe_load(file.read_text())
        for webhook in made["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["timeoutSeconds"] = seconds
            webhook["clientConfig"] = {
                "url": f"https://127.0.0.1:{port or self.port}{path}",
                "caBundle": base64.b64encode(self.authority).decode(),
            }
        return made


ANY = 'cluster policy any { filter "ready" { require node.ready } }'


@contextmanager
def webhook_replicas(
    folder: Path, count: int = 2, *view: str, policies: str = ANY
) -> Iterator[Webhooks]:
    """Serve so many replicas until the block ends; new connections go to one that runs.

    `view` are the flags that say what they know; they know no cluster without any.
    """
    authority = CA()
    leaf = authority.issue_cert("127.0.0.1")
    leaf.private_key_pem.write_to_path(str(folder / "tls.key"))
    leaf.cert_chain_pems[0].write_to_path(str(folder / "tls.crt"))
    authority.cert_pem.write_to_path(str(folder / "ca.crt"))
    file = folder / "any.policy"
    file.write_text(policies)
    tls = f"--tls-cert={folder / 'tls.crt'}", f"--tls-key={folder / 'tls.key'}"
    flags = *(view or ("--no-cluster",)), *tls
    with ExitStack() as stack:
        replicas = []
        for number in range(count):
            own = folder / f"replica-{number}"
            own.mkdir()
            server = stack.enter_context(placet(own, file, *flags))
            replica = WebhookReplica(server)
            replica.wait_ready(folder / "ca.crt")
            replicas.append(replica)
        front = stack.enter_context(service(lambda: replicas, 0))
        yield Webhooks(replicas, front, authority.cert_pem.bytes())
