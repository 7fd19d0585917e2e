"""etcd and kube-apiserver on free loopback ports, for as long as a block runs."""

import json
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme

from tests.e2e.process import running
from tests.e2e.waiting import answers_ok, free_port

ETCD_SECONDS = 30.0
API_SERVER_SECONDS = 90.0

# Nothing here runs kubelets or controllers: no one would create the service account a pod needs, or
# take off the not-ready taint a new node gets.
UNSERVED_ADMISSION = "ServiceAccount,TaintNodesByCondition"


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """Where the API server listens and the files with which to talk to it."""

    programs: Path
    port: int
    authority: Path
    admin_token: str
    admin_kubeconfig: Path
    scheduler_kubeconfig: Path


@contextmanager
def control_plane(programs: Path, folder: Path) -> Iterator[ControlPlane]:
    """Run etcd and kube-apiserver from `programs`; certificates, tokens and logs go to `folder`."""
    port, authority = free_port(), folder / "apiserver" / "apiserver.crt"
    admin, scheduler = secrets.token_hex(16), secrets.token_hex(16)
    plane = ControlPlane(
        programs=programs,
        port=port,
        authority=authority,
        admin_token=admin,
        admin_kubeconfig=_kubeconfig(folder / "admin.kubeconfig", port, authority, admin),
        scheduler_kubeconfig=_kubeconfig(
            folder / "kube-scheduler.kubeconfig", port, authority, scheduler
        ),
    )
    tokens = folder / "tokens.csv"
    tokens.write_text(
        f"{admin},admin,admin,system:masters\n{scheduler},system:kube-scheduler,scheduler\n"
    )
    with (
        _etcd(programs, folder) as etcd_url,
        running(
            _api_server_command(plane, folder, tokens, etcd_url), folder / "kube-apiserver.log"
        ) as api_server,
    ):
        api_server.wait_ready(lambda: answers_ok(port, "/readyz", authority), API_SERVER_SECONDS)
        yield plane


@contextmanager
def _etcd(programs: Path, folder: Path) -> Iterator[str]:
    port, data = free_port(), folder / "etcd"
    url, peers = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{free_port()}"
    command: list[str | Path] = [
        programs / "etcd",
        f"--data-dir={data}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",  # the data ends with the run
        "--log-level=warn",
    ]
    try:
        with running(command, folder / "etcd.log") as etcd:
            etcd.wait_ready(lambda: answers_ok(port, "/health"), ETCD_SECONDS)
            yield url
    finally:
        # pytest keeps the folder of the last runs for their logs; the write-ahead log is 64 MB.
        shutil.rmtree(data, ignore_errors=True)


def _api_server_command(
    plane: ControlPlane, folder: Path, tokens: Path, etcd_url: str
) -> list[str | Path]:
    signing_key = folder / "service-accounts.key"
    trustme.CA().private_key_pem.write_to_path(signing_key)
    return [
        plane.programs / "kube-apiserver",
        f"--etcd-servers={etcd_url}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={plane.port}",
        f"--cert-dir={plane.authority.parent}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        f"--disable-admission-plugins={UNSERVED_ADMISSION}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={signing_key}",
        f"--service-account-signing-key-file={signing_key}",
        "--service-cluster-ip-range=10.96.0.0/24",
        # An endpoint on a loopback address is invalid, and nobody reads this one.
        "--endpoint-reconciler-type=none",
    ]


def _kubeconfig(path: Path, port: int, authority: Path, token: str) -> Path:
    server = f"https://127.0.0.1:{port}"
    # JSON is YAML; the file holds what `kubectl config` would write.
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "e2e",
                "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
                "clusters": [
                    {
                        "name": "e2e",
                        "cluster": {"server": server, "certificate-authority": str(authority)},
                    }
                ],
                "users": [{"name": "e2e", "user": {"token": token}}],
            }
        )
    )
    return path
