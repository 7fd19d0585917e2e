"""Probe: the running Placet is asked as by kube-scheduler, and a kube-scheduler itself.

The connection is made with the `urlPrefix`, the `tlsConfig` and the `httpTimeout`. Every verb that
is set is asked about a pod and a node that do not exist, except bind, which has effects. For an
entry with bind alone only the connection is tried.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from cli.command import CommandError
from cli.doctor.connection_checks import tls_context
from cli.doctor.context import Found, error, warning
from cli.doctor.schema import DEFAULT_TIMEOUT, OUR_PATH, ExtenderEntry
from cli.streams import waiting_for
from engine.decision.filtering import UNKNOWN_NODE
from grammar.messages.texts import os_reason, shown

_NODE = "placet-doctor"
_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "placet-doctor", "namespace": "default", "uid": "placet-doctor"},
    "spec": {"containers": [{"name": "none", "image": "none"}], "schedulerName": "placet-doctor"},
    "status": {"phase": "Pending"},
}
# Calls a path, of a verb or with a GET; the answer is status and body.
Call = Callable[..., tuple[int, bytes]]
# How the lines of `/readyz` begin about what does not hold.
_TROUBLES = ("warn: ", "[-]")


def probe(entries: Sequence[ExtenderEntry], version: str) -> Iterator[Found]:
    """What the running Placet gets wrong; `version` is that of this command."""
    for number, entry in enumerate(entries):
        yield from _probed(entry, version if number == 0 else None)


def _probed(ours: ExtenderEntry, version: str | None) -> Iterator[Found]:
    """What is wrong with the calls of one entry; without a `version` none is compared."""
    # A binding may be held for long; nothing that is asked here is.
    timeout = DEFAULT_TIMEOUT if ours.only_binds else ours.patience
    at = ours.at("urlPrefix")
    try:
        tls = tls_context(ours) if ours.prefix.scheme == "https" else None
    except (OSError, ValueError):
        return  # `no-certificate` says it
    call = partial(_call, ours, tls, timeout)
    try:
        for name in ("filter", "prioritize", "preempt"):
            if ours.verbs[name]:
                began = time.monotonic()
                status, body = call(f"{ours.path}/{ours.verbs[name]}", name)
                yield from _answered(ours, call, name, status, body)
                if time.monotonic() - began > timeout / 2:
                    message = f"the answer of `{name}` took more than half of the `httpTimeout`"
                    yield warning(ours.at("httpTimeout"), message, "write a longer one")
        status, body = call("/version")
        _, ready = call("/readyz") if version is not None else (0, b"")
    except TimeoutError:
        message = f"`{ours.url_prefix}` does not answer within {timeout:g} s"
        yield error(at, message, "see whether Placet is ready, and whether the port is its own")
        return
    except ssl.SSLError as problem:
        reason = getattr(problem, "verify_message", "") or problem.reason or "no TLS there"
        message = f"there is no TLS connection to `{ours.url_prefix}`: {reason}"
        hint = "compare `tlsConfig` with the certificate of `placet serve`"
        with suppress(OSError, HTTPException):
            _call(ours, None, timeout, "/version")
            message = f"`{ours.url_prefix}` answers without TLS"
            hint = "begin the `urlPrefix` with `http:`, or serve with `--tls-cert` and `--tls-key`"
        yield error(ours.at("tlsConfig"), message, hint)
        return
    except (OSError, HTTPException, ValueError) as problem:
        why = os_reason(problem) if isinstance(problem, OSError) else type(problem).__name__
        message = f"nothing that speaks HTTP answers at `{ours.url_prefix}`: {why}"
        hint = "start `placet serve`, or correct the `urlPrefix`; with TLS begin it with `https:`"
        yield error(at, message, hint)
        return
    for line in ready.decode(errors="replace").splitlines():
        if line.startswith(_TROUBLES):
            hint = "see `placet status` and the log of Placet"
            yield warning(at, f"the running Placet says `{shown(line)}`", hint)
    running = _json(body).get("version") if status == 200 else None
    if isinstance(running, str) and version is not None and running != version:
        message = f"the running Placet is {running}, and this command is {version}"
        yield warning(at, message, "use the same version of both")


def _answered(
    ours: ExtenderEntry, call: Call, name: str, status: int, body: bytes
) -> Iterator[Found]:
    at = ours.at(f"{name}Verb")
    if status in (401, 403):
        hint = "give kube-scheduler a client certificate that `placet serve` accepts"
        yield error(ours.at("tlsConfig"), f"`{name}` is answered with {status}", hint)
        return
    if status != 200:
        message = f"`{name}` is answered with {status}"
        hint = f"write `{name}Verb: {name}`, and the URL of `placet serve --listen`"
        if status == 404 and call(f"{OUR_PATH}/{name}", name)[0] == 200:
            message += f": Placet answers at `{OUR_PATH}/{name}` of this port"
            hint = f"end the `urlPrefix` with `{OUR_PATH}`, and write `{name}Verb: {name}`"
        elif status == 404 and (port := _port(call)):
            message += f": this is the port of Placet's {port}, and not that of its verbs"
            hint = "write the port of `placet serve --listen`, which is 12345 by default"
        yield error(at, message, hint)
        return
    found = _json(body)
    if name == "filter" and not found.keys() & {"nodenames", "nodes", "NodeNames", "Nodes"}:
        message = "the answer of `filter` is not that of an extender"
        yield error(at, message, "correct the `urlPrefix`: another server may be there")
    elif (said := found.get("error") or found.get("Error")) not in (None, "", UNKNOWN_NODE):
        yield error(at, f"`{name}` is answered with an error: {said}", "see the log of Placet")


def _port(call: Call) -> str:
    """The other port of Placet that this is, by what only Placet answers; empty if none."""
    if _json(call("/api/v1/status")[1]).keys() >= {"replica", "started"}:
        return "view"
    return "health" if _json(call("/version")[1]).keys() == {"version"} else ""


def _json(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _call(
    ours: ExtenderEntry, tls: ssl.SSLContext | None, timeout: float, path: str, verb: str = ""
) -> tuple[int, bytes]:
    """Status and body of a call of a verb, or of a GET. Raises OSError and HTTPException."""
    connection = HTTPConnection(ours.host, ours.port, timeout=timeout)
    try:
        with waiting_for(ours.url_prefix, timeout):
            if tls is not None:
                plain = socket.create_connection((ours.host, ours.port), timeout)
                name = ours.tls_config.server_name or ours.host
                connection.sock = tls.wrap_socket(plain, server_hostname=name)
            if verb:
                headers = {"Content-Type": "application/json"}
                connection.request("POST", path, json.dumps(_arguments(ours, verb)), headers)
            else:
                connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
    finally:
        connection.close()


def _arguments(ours: ExtenderEntry, verb: str) -> dict[str, Any]:
    if verb == "preempt":
        name = "NodeNameToMetaVictims" if ours.node_cache_capable else "NodeNameToVictims"
        return {"Pod": _POD, name: {_NODE: {"Pods": [], "NumPDBViolations": 0}}}
    if ours.node_cache_capable:
        return {"Pod": _POD, "Nodes": None, "NodeNames": [_NODE]}
    node = {"metadata": {"name": _NODE}, "spec": {}, "status": {}}
    return {"Pod": _POD, "Nodes": {"metadata": {}, "items": [node]}, "NodeNames": None}


_SECONDS = 60.0


def started(program: str, text: str) -> Iterator[Found]:
    """Why this kube-scheduler does not start with a configuration, in its own words.

    The program checks a configuration with all plugins before it looks for an API server, so none
    is there. Raises CommandError if the program cannot be asked.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kube-scheduler.yaml")
        file.write_text(text, encoding="utf-8")
        command = [program, f"--config={file}", f"--write-config-to={folder}/understood.yaml"]
        command += ["--master=http://127.0.0.1:1", "--secure-port=0"]
        try:
            with waiting_for(program, _SECONDS):
                done = subprocess.run(  # noqa: S603 - the user names it
                    command, capture_output=True, text=True, check=False, timeout=_SECONDS
                )
        except (OSError, subprocess.TimeoutExpired) as problem:
            why = os_reason(problem) if isinstance(problem, OSError) else "it does not end"
            hint = "give the path of a kube-scheduler to `--kube-scheduler`"
            raise CommandError(f"`{program}` cannot be asked: {why}", hint) from None
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
            # A line of its log, whose text is quoted as JSON has it.
            said = re.search(r' err=("(?:[^"\\]|\\.)*")', last)
            why = json.loads(said[1]) if said else last
            yield error("", f"kube-scheduler refuses to start: {why}", "correct what it names")
