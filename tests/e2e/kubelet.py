"""Kubelet: runs the pods of one node as local processes, and tells the API server how they are.

It does what pods of control planes need: environment, ConfigMaps, Secrets, empty folders, a token
of the pod's account, probes, restarts, and an end with a grace period. It gives every pod the
volume with the token that the admission of service accounts adds otherwise, unless the pod wants
none. Containers of a pod with `restartPolicy: Never` run once. Pods with `hostNetwork` use the
machine's network, each other one a network of its own (see `pod_network`). ConfigMaps are read when
the pod starts. An image is one of a table's, by the last part of its repository.
"""

import base64
import http.client
import os
import shutil
import socket
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e import pod_network
from tests.e2e.api import Api, ApiError
from tests.e2e.cluster import AT_ONCE
from tests.e2e.container import Container, Image
from tests.e2e.control_plane import ControlPlane
from tests.e2e.process import running

TICK_SECONDS = 0.25
FIRST_BACKOFF_SECONDS, MOST_BACKOFF_SECONDS = 0.5, 10.0
NETWORK_SECONDS = 30.0
ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_SECONDS = 3607


@dataclass(slots=True)
class Probe:
    """A probe of a container: when it is next, and how it went."""

    specification: Mapping[str, Any]
    next: float
    failures: int = 0
    successes: int = 0


class RunningPod:
    """A pod of the node, kept by a thread of its own until it is gone."""

    def __init__(self, kubelet: "Kubelet", pod: dict[str, Any]) -> None:
        self.name: str = pod["metadata"]["name"]
        self.uid: str = pod["metadata"]["uid"]
        self.spec: dict[str, Any] = pod["spec"]
        self.containers: dict[str, Container] = {}
        self.deleted = threading.Event()
        self.folder = kubelet.folder / f"{self.name}-{self.uid[:8]}"
        self._kubelet = kubelet
        self._namespace: str = pod["metadata"]["namespace"]
        self._path = f"/api/v1/namespaces/{self._namespace}/pods/{self.name}"
        self._socket = kubelet.sockets / self.uid[:13]
        self._started: set[str] = set()
        self._ready: set[str] = set()
        self._probes: dict[tuple[str, str], Probe] = {}
        self._restarts = {each["name"]: 0 for each in self.spec["containers"]}
        self._runs_once = self.spec["restartPolicy"] == "Never"
        self._again: dict[str, float] = {}
        self._told: dict[str, Any] = {}
        self.thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def restarts(self, container: str) -> int:
        """Return how often a container has ended and was started again."""
        return self._restarts[container]

    def is_ready(self) -> bool:
        """Whether all containers are, so that a Service gives connections to the pod."""
        return len(self._ready) == len(self.spec["containers"]) and not self.deleted.is_set()

    # ---- the life of the pod

    def _run(self) -> None:
        try:
            self.folder.mkdir()
            with self._network() as network:
                self._live(network)
        except Exception as error:  # noqa: BLE001 - the test's thread raises it
            self._kubelet.errors.append(error)
        finally:
            for each in self.containers.values():
                each.kill()

    @contextmanager
    def _network(self) -> Iterator[int | None]:
        """Give the process whose network the containers use; None is the machine's."""
        if self.spec.get("hostNetwork"):
            yield None
            return
        kubelet = self._kubelet
        program = [sys.executable, "-m", pod_network.__name__, "inside"]
        arguments = [*program, str(kubelet.plane.port), str(kubelet.sockets), self._socket.name]
        command = [
            "unshare",
            "--net",
            "sh",
            "-ec",
            'ip link set lo up; exec "$@"',
            "sh",
            *arguments,
        ]
        with running(command, self.folder / "network.log") as process:
            process.wait_ready(self._socket.exists, NETWORK_SECONDS)
            yield process.child.pid

    def _live(self, network: int | None) -> None:
        with self._kubelet.api.kept() as request:
            volumes = self._volumes()
            while not self.deleted.is_set() and not self._kubelet.stopping.is_set():
                for each in self.spec["containers"]:
                    self._look_after(each, volumes, network)
                self._tell(request)
                self.deleted.wait(TICK_SECONDS)
            self._end()
            if self.deleted.is_set():
                options = {**AT_ONCE, "preconditions": {"uid": self.uid}}
                with suppress(ApiError):
                    self._kubelet.api.request("DELETE", self._path, options)

    def _end(self) -> None:
        for each in self.containers.values():
            each.terminate()
        grace = self.spec["terminationGracePeriodSeconds"] if self.deleted.is_set() else 5
        end = time.monotonic() + grace
        while time.monotonic() < end:
            if all(each.ended() is not None for each in self.containers.values()):
                return
            time.sleep(TICK_SECONDS)
        # Before the pod is gone, because another one with its Lease may follow it.
        for each in self.containers.values():
            each.kill()

    # ---- containers

    def _look_after(
        self, specification: dict[str, Any], volumes: Mapping[str, Path], network: int | None
    ) -> None:
        name, now = specification["name"], time.monotonic()
        container = self.containers.get(name)
        if container is None or container.ended() is not None:
            self._ready.discard(name)
            if container is not None and self._runs_once:
                return
            if container is not None and name not in self._again:
                self._restarts[name] += 1
                pause = FIRST_BACKOFF_SECONDS * 2 ** (self._restarts[name] - 1)
                self._again[name] = now + min(pause, MOST_BACKOFF_SECONDS)
            if now >= self._again.get(name, now):
                self._again.pop(name, None)
                self._start(specification, volumes, network)
            return
        self._probe(specification, container)

    def _start(
        self, specification: dict[str, Any], volumes: Mapping[str, Path], network: int | None
    ) -> None:
        name, now = specification["name"], time.monotonic()
        self._started.discard(name)
        for kind in ("startup", "liveness", "readiness"):
            if (probe := specification.get(f"{kind}Probe")) is not None:
                self._probes[name, kind] = Probe(probe, now)
        mounts = {
            each["mountPath"]: volumes[each["name"]]
            for each in specification.get("volumeMounts", ())
        }
        if ACCOUNT_FOLDER in volumes:
            mounts[ACCOUNT_FOLDER] = volumes[ACCOUNT_FOLDER]
        self.containers[name] = Container(
            specification,
            self._kubelet.image(specification["image"]),
            self.folder / name,
            mounts,
            self._environment(specification),
            network,
            self._user(),
        )

    def _user(self) -> tuple[int, int]:
        security = self.spec["securityContext"]
        return security["runAsUser"], security.get("runAsGroup", 0)

    def _environment(self, specification: dict[str, Any]) -> dict[str, str]:
        fields = {
            "metadata.name": self.name,
            "metadata.namespace": self._namespace,
            "metadata.uid": self.uid,
            "spec.nodeName": self._kubelet.node,
            "status.podIP": "127.0.0.1",
        }
        found = {
            "HOSTNAME": self.name,
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self._kubelet.plane.port),
        }
        for each in specification.get("env", ()):
            source = each.get("valueFrom")
            found[each["name"]] = (
                fields[source["fieldRef"]["fieldPath"]] if source else each.get("value", "")
            )
        return found

    # ---- volumes

    def _volumes(self) -> dict[str, Path]:
        found: dict[str, Path] = {}
        account = {"name": ACCOUNT_FOLDER, "account": {}}
        wanted = [account] if self.spec.get("automountServiceAccountToken", True) else []
        for each in [*self.spec.get("volumes", ()), *wanted]:
            folder = self.folder / "volumes" / str(len(found))
            folder.mkdir(parents=True)
            found[each["name"]] = folder
            for name, content in self._files(each).items():
                (folder / name).write_bytes(content)
            os.chown(folder, *self._user())
            if "emptyDir" in each:
                folder.chmod(0o1777)
        return found

    def _files(self, volume: Mapping[str, Any]) -> dict[str, bytes]:
        if "configMap" in volume:
            data = self._object("configmaps", volume["configMap"]["name"]).get("data", {})
            return {name: text.encode() for name, text in data.items()}
        if "secret" in volume:
            data = self._object("secrets", volume["secret"]["secretName"])["data"]
            return {name: base64.b64decode(text) for name, text in data.items()}
        if "account" in volume:
            return self._account()
        assert "emptyDir" in volume, f"the test kubelet knows no volume such as {volume}"
        return {}

    def _account(self) -> dict[str, bytes]:
        bound = {"apiVersion": "v1", "kind": "Pod", "name": self.name, "uid": self.uid}
        review = self._kubelet.api.request(
            "POST",
            f"/api/v1/namespaces/{self._namespace}/serviceaccounts/"
            f"{self.spec['serviceAccountName']}/token",
            {"spec": {"expirationSeconds": TOKEN_SECONDS, "boundObjectRef": bound}},
        )
        return {
            "token": review["status"]["token"].encode(),
            "ca.crt": self._kubelet.plane.authority.read_bytes(),
            "namespace": self._namespace.encode(),
        }

    def _object(self, resource: str, name: str) -> dict[str, Any]:
        path = f"/api/v1/namespaces/{self._namespace}/{resource}/{name}"
        return self._kubelet.api.request("GET", path)

    # ---- probes and status

    def _probe(self, specification: dict[str, Any], container: Container) -> None:
        name = specification["name"]
        kinds = ["liveness", "readiness"] if self._is_started(name) else ["startup"]
        for kind in kinds:
            probe = self._probes.get((name, kind))
            if probe is None:
                if kind == "readiness":
                    self._ready.add(name)
                continue
            now = time.monotonic()
            if now < probe.next:
                continue
            probe.next = now + probe.specification["periodSeconds"]
            self._probed(name, kind, probe, container, well=self._asks(specification, probe))

    def _is_started(self, name: str) -> bool:
        return (name, "startup") not in self._probes or name in self._started

    def _probed(
        self, name: str, kind: str, probe: Probe, container: Container, *, well: bool
    ) -> None:
        probe.failures = 0 if well else probe.failures + 1
        failed = probe.failures >= probe.specification["failureThreshold"]
        if kind == "startup" and well:
            self._started.add(name)
        elif kind == "readiness" and well:
            self._ready.add(name)
        elif kind == "readiness" and failed:
            self._ready.discard(name)
        elif kind != "readiness" and failed:
            # At once: what does not answer may not end either.
            container.kill()

    def _asks(self, specification: dict[str, Any], probe: Probe) -> bool:
        get = probe.specification["httpGet"]
        port = get["port"]
        if isinstance(port, str):
            named = {each["name"]: each["containerPort"] for each in specification["ports"]}
            port = named[port]
        timeout = probe.specification["timeoutSeconds"]
        try:
            channel = self.connect(port, timeout)
            if get["scheme"] == "HTTPS":
                # As a kubelet does, it does not verify certificates.
                context = ssl._create_unverified_context()  # noqa: S323, SLF001 - see above
                channel = context.wrap_socket(channel)
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
            connection.sock = channel
            with closing(connection):
                connection.request("GET", get["path"])
                status = connection.getresponse().status
                return http.client.OK <= status < http.client.BAD_REQUEST
        except (OSError, http.client.HTTPException):
            return False

    def connect(self, port: int, timeout: float) -> socket.socket:
        """Return a connection to a port of the pod."""
        if self.spec.get("hostNetwork"):
            return socket.create_connection(("127.0.0.1", port), timeout)
        channel = socket.socket(socket.AF_UNIX)
        channel.settimeout(timeout)
        channel.connect(str(self._socket))
        channel.sendall(f"{port}\n".encode())
        return channel

    def _tell(self, request: Any) -> None:
        statuses = [self._status(each) for each in self.spec["containers"]]
        ready = str(all(each["ready"] for each in statuses))
        conditions = ("PodScheduled", "Initialized", "PodReadyToStartContainers")
        status = {
            "phase": self._phase(),
            "podIP": "127.0.0.1",
            "conditions": [
                *({"type": each, "status": "True"} for each in conditions),
                {"type": "ContainersReady", "status": ready},
                {"type": "Ready", "status": ready},
            ],
            "containerStatuses": statuses,
        }
        if status != self._told:
            with suppress(ApiError):
                body = {"metadata": {"uid": self.uid}, "status": status}
                request("PATCH", f"{self._path}/status", body)
                self._told = status

    def _phase(self) -> str:
        ends = [each.ended() for each in self.containers.values()]
        if not self._runs_once or None in ends:
            return "Running"
        return "Failed" if any(ends) else "Succeeded"

    def _status(self, specification: dict[str, Any]) -> dict[str, Any]:
        name = specification["name"]
        container = self.containers.get(name)
        ended = None if container is None else container.ended()
        state: dict[str, Any] = {"running": {}}
        if ended is not None and self._runs_once:
            state = {"terminated": {"exitCode": ended}}
        elif container is None or ended is not None:
            state = {"waiting": {"reason": "CrashLoopBackOff" if container else "Starting"}}
        return {
            "name": name,
            "image": specification["image"],
            "imageID": specification["image"],
            "ready": name in self._ready,
            "started": container is not None and ended is None and self._is_started(name),
            "restartCount": self._restarts[name],
            "state": state,
        }


class Kubelet:
    """The pods of a node by uid; a thread asks what has changed."""

    def __init__(
        self,
        plane: ControlPlane,
        node: str,
        images: Mapping[str, Image],
        folder: Path,
        sockets: Path,
    ) -> None:
        self.plane, self.node, self.folder, self.sockets = plane, node, folder, sockets
        self.api = Api(plane)
        self.pods: dict[str, RunningPod] = {}
        self.errors: list[Exception] = []
        self.stopping = threading.Event()
        self._images = images
        self._thread = threading.Thread(target=self._run, name=node, daemon=True)
        self._thread.start()

    def image(self, reference: str) -> Image:
        """Return what stands for an image."""
        name = reference.rpartition("/")[2].partition("@")[0].partition(":")[0]
        return self._images[name]

    def stop(self) -> None:
        """End all containers; raise what went wrong."""
        self.stopping.set()
        self._thread.join()
        for each in self.pods.values():
            each.thread.join()
        if self.errors:
            raise self.errors[0]

    def logs(self) -> str:
        """Return the ends of the logs of all containers that there were."""
        tails = []
        for log in sorted(self.folder.glob("*/*/log")):
            lines = log.read_text(errors="replace").splitlines()[-15:]
            tails.append("\n".join([f"--- {log.relative_to(self.folder)}", *lines]))
        return "\n".join(tails)

    def _run(self) -> None:
        path = f"/api/v1/pods?fieldSelector=spec.nodeName%3D{self.node}"
        with self.api.kept() as request:
            while not self.stopping.wait(TICK_SECONDS):
                there = {each["metadata"]["uid"]: each for each in request("GET", path)["items"]}
                for uid, pod in there.items():
                    if uid not in self.pods:
                        self.pods[uid] = RunningPod(self, pod)
                        self.pods[uid].thread.start()
                for uid, running_pod in self.pods.items():
                    gone = uid not in there
                    if gone or "deletionTimestamp" in there[uid]["metadata"]:
                        running_pod.deleted.set()


@contextmanager
def kubelet(
    plane: ControlPlane, node: dict[str, Any], images: Mapping[str, Image], folder: Path
) -> Iterator[Kubelet]:
    """Register a node and run its pods for the length of the block."""
    # Names of Unix sockets are short.
    sockets = Path(tempfile.mkdtemp(prefix="placet-"))
    program = [sys.executable, "-m", pod_network.__name__, "outside"]
    command = [*program, str(plane.port), str(sockets)]
    api = sockets / pod_network.API
    try:
        with running(command, folder / "network.log") as process:
            process.wait_ready(api.exists, NETWORK_SECONDS)
            Api(plane).create("/api/v1/nodes", [node])
            working = Kubelet(plane, node["metadata"]["name"], images, folder, sockets)
            try:
                yield working
            finally:
                working.stop()
    finally:
        shutil.rmtree(sockets)
