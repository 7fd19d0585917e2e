"""etcd and kube-apiserver on free loopback ports, for as long as a block runs."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme

from tests.e2e.api_server import ApiServer, api_server
from tests.e2e.etcd import Etcd, etcd
from tests.e2e.kubeconfigs import kubeconfig
from tests.e2e.waiting import free_port

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
    placet_token: str
    admin_kubeconfig: Path
    scheduler_kubeconfig: Path
    placet_kubeconfig: Path
    etcd: Etcd
    api_server: ApiServer

    @property
    def url(self) -> str:
        """The API server's address."""
        return f"https://127.0.0.1:{self.port}"


@contextmanager
def control_plane(programs: Path, folder: Path, *flags: str) -> Iterator[ControlPlane]:
    """Run etcd and kube-apiserver from `programs`; certificates, tokens and logs go to `folder`.

    `flags` are more of kube-apiserver's.
    """
    port, authority = free_port(), folder / "apiserver" / "apiserver.crt"
    admin, scheduler, placet = (secrets.token_hex(16) for _ in range(3))
    tokens = folder / "tokens.csv"
    tokens.write_text(
        f"{admin},admin,admin,system:masters\n"
        f"{scheduler},system:kube-scheduler,scheduler\n"
        f"{placet},placet,placet\n"
    )

    def identity(name: str, token: str) -> Path:
        file = folder / f"{name}.kubeconfig"
        return kubeconfig(file, f"https://127.0.0.1:{port}", authority, {"token": token})

    with etcd(programs, folder) as storage:
        command = [
            *_api_server_command(programs, folder, port, tokens, storage.url),
            *flags,
        ]
        with api_server(command, folder / "kube-apiserver.log", port, authority) as server:
            yield ControlPlane(
                programs=programs,
                port=port,
                authority=authority,
                admin_token=admin,
                placet_token=placet,
                admin_kubeconfig=identity("admin", admin),
                scheduler_kubeconfig=identity("kube-scheduler", scheduler),
                placet_kubeconfig=identity("placet", placet),
                etcd=storage,
                api_server=server,
            )


def _api_server_command(
    programs: Path, folder: Path, port: int, tokens: Path, etcd_url: str
) -> list[str | Path]:
    signing_key = folder / "service-accounts.key"
    trustme.CA().private_key_pem.write_to_path(signing_key)
    return [
        programs / "kube-apiserver",
        f"--etcd-servers={etcd_url}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'apiserver'}",
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
