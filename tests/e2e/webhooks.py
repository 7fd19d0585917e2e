"""The webhooks of deploy/admission, and a Placet that the API server reaches by them."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from trustme import CA

from tests.e2e.cluster import Cluster
from tests.e2e.placet import Placet, placet
from tests.e2e.waiting import answers_ok, until

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
