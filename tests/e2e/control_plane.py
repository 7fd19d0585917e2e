"""etcd and kube-apiserver on free loopback ports, for as long as a block runs."""

import base64
import http.client
import json
import secrets
import shutil
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme

from tests.e2e.process import Process, answers_ok, ask, followed, free_port, kubeconfig, running

API_SERVER_SECONDS = 90.0


class ApiServer:
    """Runs from `start` to `kill`, as often as these are called."""

    def __init__(
        self, command: Sequence[str | Path], log: Path, port: int, authority: Path, runs: ExitStack
    ) -> None:
        """Take what to run; `authority` is the certificate that it makes for itself."""
        self._command = command
        self._log = log
        self._port = port
        self._authority = authority
        self._runs = runs
        self._process: Process | None = None

    def start(self) -> None:
        """Return once the server is ready."""
        # With its default, an eighth of its processor time is garbage collection.
        environment = {"GOGC": "400"}
        started = running(self._command, self._log, environment=environment)
        process = self._runs.enter_context(started)
        self._process = process
        process.wait_ready(
            lambda: answers_ok(self._port, "/readyz", self._authority), API_SERVER_SECONDS
        )

    def kill(self) -> None:
        """End the server as a crash does: no connection is closed in order."""
        assert self._process is not None, "not started"
        self._process.kill()


@contextmanager
def api_server(
    command: Sequence[str | Path], log: Path, port: int, authority: Path
) -> Iterator[ApiServer]:
    """Run a server for the length of the block, but for the times when a test has killed it."""
    with ExitStack() as runs:
        server = ApiServer(command, log, port, authority, runs)
        server.start()
        yield server


ETCD_SECONDS = 30.0
TIMEOUT_SECONDS = 10.0
# What the API server sends at most; etcd takes 1.5 MiB where nobody says otherwise.
LARGEST = 2 * 2**20


@dataclass(frozen=True, slots=True)
class Change:
    """A state of an object as it was stored, or None for its end; `version` orders all of them."""

    key: str
    version: int
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Etcd:
    """Where etcd listens, for clients of gRPC and for JSON."""

    url: str

    def compact(self) -> int:
        """Forget every state but the newest, as etcd does in time; return the revision of that."""
        revision = int(self._ask("range", {"key": "AA=="})["header"]["revision"])
        self._ask("compaction", {"revision": revision, "physical": True})
        return revision

    @contextmanager
    def watched(self, prefix: str, change: Callable[[Change], None]) -> Iterator[None]:
        """Calls `change` with each change of the keys that begin so, in their order, in a thread.

        API servers may end and start meanwhile: nothing is lost, and nothing comes twice.
        """
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        request = {"create_request": {"key": _encoded(prefix), "range_end": _encoded(end)}}
        connection = http.client.HTTPConnection(self.url.partition("//")[2])
        lines = ask(connection, "POST", "/v3/watch", body=json.dumps(request))
        # The watch has begun.
        assert json.loads(lines.response.readline())["result"]["created"]

        def take(line: bytes) -> None:
            for event in json.loads(line)["result"].get("events", []):
                change(_change(event))

        with followed(lines, take):
            yield

    def _ask(self, verb: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(  # noqa: S310 - the address is ours, on loopback
            f"{self.url}/v3/kv/{verb}", json.dumps(body).encode()
        )
        # No proxy of whoever runs the tests is for loopback.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=TIMEOUT_SECONDS) as response:
            return json.load(response)


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _change(event: dict[str, Any]) -> Change:
    found = event["kv"]
    value = None if event.get("type") == "DELETE" else base64.b64decode(found["value"])
    return Change(base64.b64decode(found["key"]).decode(), int(found["mod_revision"]), value)


@contextmanager
def etcd(programs: Path, folder: Path) -> Iterator[Etcd]:
    """Run etcd from `programs`, with its log in `folder`; its data ends with the block."""
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
        f"--max-request-bytes={LARGEST}",
        # Hostile tenants write more in ten minutes than etcd takes where nobody says otherwise.
        f"--quota-backend-bytes={16 << 30}",
        "--log-level=warn",
    ]
    try:
        with running(command, folder / "etcd.log") as process:
            process.wait_ready(lambda: answers_ok(port, "/health"), ETCD_SECONDS)
            yield Etcd(url)
    finally:
        # pytest keeps the folder of the last runs for their logs; the write-ahead log is 64 MB.
        shutil.rmtree(data, ignore_errors=True)


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


# ---- A kube-controller-manager that acts on workloads, for as long as a block runs


CONTROLLERS_SECONDS = 60.0
# Others would act on nodes and pods that have no kubelets.
DEPLOYMENTS = ("deployment-controller", "replicaset-controller")
# With the deletion of what belongs to a deleted workload.
WORKLOADS = (
    *DEPLOYMENTS,
    "daemonset-controller",
    "job-controller",
    "garbage-collector-controller",
)


@contextmanager
def controller_manager(
    plane: ControlPlane, folder: Path, controllers: Sequence[str] = DEPLOYMENTS
) -> Iterator[Process]:
    """Run these controllers, in all namespaces."""
    port, certificates = free_port(), folder / "kube-controller-manager"
    command: list[str | Path] = [
        plane.programs / "kube-controller-manager",
        f"--kubeconfig={plane.admin_kubeconfig}",
        f"--controllers={','.join(controllers)}",
        "--leader-elect=false",
        # At the default of 20 requests a second, the controllers would be what pods wait for.
        "--kube-api-qps=1000",
        "--kube-api-burst=1000",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={certificates}",
    ]
    authority = certificates / "kube-controller-manager.crt"
    with running(command, folder / "kube-controller-manager.log") as process:
        process.wait_ready(lambda: answers_ok(port, "/healthz", authority), CONTROLLERS_SECONDS)
        yield process
