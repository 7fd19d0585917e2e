"""Replicas: the running Placets that a command asks, by a URL or through the API server.

A view listens on 127.0.0.1 of its pod, so it is reached by port forwarding, and Kubernetes' RBAC
says who may: `get` and `create` of `pods/portforward`. Replicas live as long as the command.

The protocol is `v4.channel.k8s.io`: one WebSocket for each connection, whose messages begin with
the number of a channel. Kubelets have had it since port forwarding by WebSocket exists, and the API
server passes it on.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import aiohttp
import msgspec

from cli.command import CONTEXT, OUTPUT, CommandError, Exit
from cli.console import Part, put, put_document
from cli.render import print_error
from cli.streams import waiting_for
from cli.version import version
from engine.cache.cluster_copy import ambiguous
from engine.cluster.client import CORE, REQUEST_SECONDS, ApiClient, connect, path_of
from engine.cluster.connection_configuration import of_server
from engine.errors import ApiError, ApiUnreachableError, ClusterConfigurationError, EngineError
from engine.explanation.document import Listing, PodDecision
from grammar.messages.texts import MOST_ERROR, os_reason, shown
from server.view.page import DEFAULT_PORT, HOST
from server.view.routes import API

TIMEOUT_SECONDS = 10.0
NAMESPACE, SELECTOR = "kube-system", "app.kubernetes.io/name=placet"
# The most replicas of one command, and the longest answer.
_MOST_REPLICAS = 16
_LONGEST = 64 << 20
_LONGEST_LINE = 1 << 20
_LISTED = 1000
# Port forwarding.
_PROTOCOL = "v4.channel.k8s.io"
# The first byte of each message; with several ports there would be two channels for each.
_DATA, _ERROR = 0, 1
# Each channel begins with the number of its port.
_PORT_BYTES = 2
_CHUNK = 32 * 1024

Answer = TypeVar("Answer")


VIEW = f"""
  --url URL
    the view of a server on this machine, as in http://127.0.0.1:{DEFAULT_PORT}; without it,
    replicas are reached through the cluster of the kubeconfig
  --placet-namespace NAMESPACE={NAMESPACE}
    the namespace of Placet's pods
  --selector LABELS={SELECTOR}
    the labels of Placet's pods
  --replica POD
    only this pod of Placet
  --port PORT={DEFAULT_PORT}
    the --view-port of the replicas
"""
PLACET = f"""
the running Placet:
{VIEW}{CONTEXT}
"""
# The flags of all questions about what replicas know.
ASKED = f"""
  -n --namespace NAME
    what concerns this namespace only
  or -A --all-namespaces
    what concerns any namespace (the default)
{OUTPUT}{PLACET}"""
# The name of one policy; without it, all are meant.
POLICY = """
  [POLICY]
    NAMESPACE/NAME, or the name alone of others
"""
# The number of the document that all questions print as data; it is raised if a field goes or
# means something else.
VERSION = 1


@dataclass(frozen=True, slots=True)
class Replica:
    """The view of one replica. `name` is its pod, or the URL."""

    name: str
    session: aiohttp.ClientSession
    forward: PortForward | None = None

    @asynccontextmanager
    async def on_port(self, port: int) -> AsyncIterator[str]:
        """The URL of its view on this machine, for as long as the block runs; 0 is any free port.

        Whoever is on this machine can ask it there, as with `kubectl port-forward`. Raises
        CommandError.
        """
        if self.forward is None:
            yield self.name
            return
        try:
            server = await asyncio.start_server(self.forward.relay, HOST, port)
        except OSError as error:
            message = f"cannot listen on `{HOST}:{port}`: {os_reason(error)}"
            raise CommandError(message, "name another port with --local-port") from None
        async with server:
            yield f"http://{HOST}:{server.sockets[0].getsockname()[1]}"

    def check(self) -> None:
        """Raises CommandError if the API server refuses to connect with the pod."""
        # Other failures end one connection: that of a browser which closes a page is one of them.
        if self.forward is not None and isinstance(self.forward.failure, ApiError):
            raise _refused(self.name, self.forward)

    async def answer(self, path: str, kind: type[Answer], pod: str = "") -> Answer | None:
        """The decoded answer of a path, or of the path about a pod: None if it knows of none.

        Raises CommandError.
        """
        if pod:
            path += f"/{quote(pod)}"
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        try:
            with waiting_for(self.name, TIMEOUT_SECONDS):
                async with self.session.get(f"{API}{path}", timeout=timeout) as response:
                    status, body = response.status, bytearray()
                    async for part in response.content.iter_any():
                        body += part
                        if len(body) > _LONGEST:
                            raise self._strange(status)
        except (aiohttp.ClientError, OSError) as error:
            raise self._unreachable(error) from None
        if pod and status == 404:
            return None
        try:
            if status == 200:
                return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
        raise self._strange(status)

    def _strange(self, status: int) -> CommandError:
        hint = "this is not the view of a `placet serve` of this version; see --view-port there"
        return CommandError(f"`{self.name}` answers {status}, and not as a view does", hint)

    def _unreachable(self, error: Exception) -> CommandError:
        if self.forward is not None and self.forward.failure is not None:
            return _refused(self.name, self.forward)
        if isinstance(error, TimeoutError):
            reason = f"no answer within {TIMEOUT_SECONDS:g} s"
        elif isinstance(error, aiohttp.ClientConnectorError):
            reason = os_reason(error.os_error)
        elif isinstance(error, aiohttp.ClientResponseError):
            reason = "it does not speak HTTP"
        else:
            text = str(error) or type(error).__name__
            reason = text[:1].lower() + text[1:]
        hint = "check that `placet serve` runs there with this --view-port"
        return CommandError(f"cannot reach `{self.name}`: {reason}", hint)


def _refused(pod: str, forward: PortForward) -> CommandError:
    failure = forward.failure
    if isinstance(failure, ApiError) and failure.status in (401, 403):
        hint = (
            "Placet's operators need `get` and `create` of pods/portforward: kubectl auth can-i "
            f"create pods --subresource=portforward -n {forward.namespace}"
        )
        return CommandError(f"you may not forward a port of pod `{pod}`", hint)
    if isinstance(failure, ApiError) and failure.status == 404:
        return CommandError(f"there is no pod `{pod}`", f"kubectl get pods -n {forward.namespace}")
    hint = "check that the pod runs, and that its `placet serve` has this --view-port"
    return CommandError(f"cannot reach `{pod}`: {failure}", hint)


# ---- finding them


@asynccontextmanager
async def replicas(args: argparse.Namespace) -> AsyncIterator[Sequence[Replica]]:
    """The replicas that the flags of PLACET name, at least one. Raises CommandError."""
    async with AsyncExitStack() as stack:
        if args.url is not None:
            parts = of_server(args.url)
            if parts is None or parts.scheme != "http":
                hint = f"give a URL such as http://127.0.0.1:{DEFAULT_PORT}"
                raise CommandError(f"`{args.url}` is not a URL of a view", hint)
            server = f"{parts.scheme}://{parts.netloc}"
            if args.url.rstrip("/") != server:
                raise CommandError(f"`{args.url}` names more than a server", f"write `{server}`")
            session = aiohttp.ClientSession(server, read_bufsize=_LONGEST_LINE)
            yield [Replica(server, await stack.enter_async_context(session))]
            return
        try:
            connecting = connect(args.kubeconfig, args.context, version=version())
            client = await stack.enter_async_context(connecting)
            pods = [args.replica] if args.replica else await _pods(client, args)
        except ClusterConfigurationError as error:
            named = "--kubeconfig" in error.hint
            hint = "name one with --kubeconfig" if named or not error.hint else error.hint
            hint += ", or ask a server on this machine with --url"
            raise CommandError(str(error), hint) from None
        except EngineError as error:
            check = f"kubectl get pods -n {args.placet_namespace}"
            hint = f"name the pod with --replica, or check: {check}"
            if isinstance(error, ApiUnreachableError) and error.remedy:
                hint = error.remedy
            raise CommandError(f"cannot find Placet's pods: {error}", hint) from None
        found = list[Replica]()
        for pod in pods:
            forward = PortForward(client, args.placet_namespace, pod, args.port)
            path = str(await stack.enter_async_context(local_socket(forward)))
            session = aiohttp.ClientSession(
                "http://127.0.0.1",
                connector=aiohttp.UnixConnector(path),
                read_bufsize=_LONGEST_LINE,
            )
            found.append(Replica(pod, await stack.enter_async_context(session), forward))
        yield found


async def _pods(client: ApiClient, args: argparse.Namespace) -> Sequence[str]:
    """The running pods with the labels. Raises CommandError and EngineError."""
    params = [("labelSelector", args.selector), ("limit", "500")]
    path = path_of(CORE, "pods", args.placet_namespace)
    with waiting_for(client.host, REQUEST_SECONDS):
        body = await client.request("GET", path, params=params)
    try:
        items = msgspec.json.decode(body)["items"]
        running = [each for each in items if each.get("status", {}).get("phase") == "Running"]
        names = sorted(str(each["metadata"]["name"]) for each in running)
    except (ValueError, AttributeError, LookupError, TypeError):
        hint = "check that the kubeconfig has the address of an API server"
        raise CommandError("the answer of the API server is not a list of pods", hint) from None
    if not names:
        where = f"namespace `{args.placet_namespace}` has no running pod with `{args.selector}`"
        hint = "give --placet-namespace and --selector, or one pod with --replica"
        raise CommandError(where, hint)
    if len(names) > _MOST_REPLICAS:
        message = f"{len(names)} pods have the labels `{args.selector}`, more than replicas do"
        raise CommandError(message, "give another --selector, or one pod with --replica")
    return names


# ---- asking all of them


async def ask_all(
    found: Sequence[Replica], path: str, kind: type[Answer], pod: str = ""
) -> tuple[Mapping[Replica, Answer], Sequence[CommandError]]:
    """The answers of all that have one, and the errors of those that do not answer.

    Raises CommandError if none answers.
    """
    asking = (replica.answer(path, kind, pod) for replica in found)
    results = await asyncio.gather(*asking, return_exceptions=True)
    answers: dict[Replica, Answer] = {}
    errors: list[CommandError] = []
    for replica, result in zip(found, results, strict=True):
        if isinstance(result, CommandError):
            errors.append(result)
        elif isinstance(result, BaseException):
            raise result
        elif result is not None:
            answers[replica] = result
    if len(errors) == len(found):
        raise errors[0]
    return answers, errors


def asked(
    args: argparse.Namespace, path: str, kind: type[Answer], pod: str = ""
) -> tuple[Sequence[Answer], Sequence[CommandError]]:
    """As `ask_all` of the replicas that the flags name, for a command that asks once."""

    async def answered() -> tuple[Mapping[Replica, Answer], Sequence[CommandError]]:
        async with replicas(args) as found:
            return await ask_all(found, path, kind, pod)

    answers, errors = asyncio.run(answered())
    return list(answers.values()), errors


def end(errors: Sequence[CommandError]) -> int:
    """Says which replicas have not answered; some have. Returns the exit code."""
    for error in errors:
        print_error(error.message, error.hint)
    return Exit.FINDINGS if errors else Exit.OK


def put_answers(
    args: argparse.Namespace,
    answers: Sequence[msgspec.Struct],
    parts: Iterable[Part],
    errors: Sequence[CommandError] = (),
) -> int:
    """Prints the answers: as one document of data, or their parts for people.

    Says which replicas have not answered. Returns the exit code.
    """
    if args.output is None:
        put(parts)
    else:
        put_document({"version": VERSION, "replicas": answers}, args.output)
    return end(errors)


def listings(
    args: argparse.Namespace, namespace: str | None = None
) -> tuple[Sequence[Listing], Sequence[CommandError]]:
    """The last decisions, about pods of the namespace if it is given. Raises CommandError."""
    only = "" if namespace is None else f"&namespace={quote(namespace, '')}"
    return asked(args, f"/decisions?limit={_LISTED}{only}", Listing)


def last_decisions(
    args: argparse.Namespace, pod: str
) -> tuple[Sequence[PodDecision], Sequence[CommandError]]:
    """What the replicas decided about a pod, the newest first. Raises CommandError if none did."""
    key = pod
    errors: Sequence[CommandError] = ()
    details: Sequence[PodDecision] = ()
    if "/" not in pod:
        known, errors = listings(args)
        # The `NAMESPACE/NAME` of a name that one pod has; empty if none has it.
        keys = sorted({one.pod for each in known for one in each.decisions})
        keys = [key for key in keys if key.partition("/")[2] == pod]
        if len(keys) > 1:
            raise ambiguous(pod, keys)
        key = keys[0] if keys else ""
    if key.strip("/") == key and "/" in key:
        details, errors = asked(args, "/decisions", PodDecision, key)
    if not details:
        hint = "list the recorded decisions with: placet decisions"
        raise CommandError(f"no replica has a decision about `{pod}`", hint)
    return sorted(details, key=lambda each: each.at, reverse=True), errors


# ---- port forwarding


class PortForward:
    """A port of one pod. `failure` is the last error, which a connection itself cannot show."""

    def __init__(self, client: ApiClient, namespace: str, pod: str, port: int) -> None:
        self.failure: EngineError | None = None
        self.namespace = namespace
        self._client = client
        self._path = path_of(CORE, "pods", namespace, pod, "portforward")
        self._port = port

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connects a local connection with the port, until one of them ends."""
        params = [("ports", str(self._port))]
        try:
            async with self._client.websocket(self._path, params, _PROTOCOL) as socket:
                # Each ends the other: one closes the socket, and the other the local connection.
                both = _send(reader, socket), _receive(socket, writer)
                for ended in await asyncio.gather(*both, return_exceptions=True):
                    if isinstance(ended, BaseException):
                        raise ended
        except EngineError as error:
            self.failure = error
        except (OSError, aiohttp.ClientError) as error:
            self.failure = ApiUnreachableError(f"the connection broke off: {error}")
        finally:
            writer.close()


async def _receive(socket: aiohttp.ClientWebSocketResponse, writer: asyncio.StreamWriter) -> None:
    """Writes what the pod sends. Raises ApiUnreachableError for an error of the kubelet."""
    begun: set[int] = set()
    try:
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel not in begun:
                begun.add(channel)
                data = data[_PORT_BYTES:]
            if channel == _DATA and data:
                writer.write(data)
                await writer.drain()
            elif channel == _ERROR and data:
                text = shown(data.decode("utf-8", "replace"), MOST_ERROR)
                raise ApiUnreachableError(f"the kubelet cannot forward the port: {text}")
    finally:
        writer.close()


async def _send(reader: asyncio.StreamReader, socket: aiohttp.ClientWebSocketResponse) -> None:
    """Sends what comes locally. The protocol cannot say that there is no more."""
    try:
        while data := await reader.read(_CHUNK):
            await socket.send_bytes(bytes([_DATA]) + data)
    except (OSError, aiohttp.ClientError):
        pass  # `_receive` sees why
    finally:
        await socket.close()


@asynccontextmanager
async def local_socket(forward: PortForward) -> AsyncIterator[Path]:
    """A Unix socket whose connections lead to the port, for as long as the block runs.

    It is in a folder of the user's own, so that no other user of this machine can connect.
    """
    with tempfile.TemporaryDirectory(prefix="placet-") as folder:
        path = Path(folder) / "view"
        async with await asyncio.start_unix_server(forward.relay, path):
            yield path
