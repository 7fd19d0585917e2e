"""Decisions of a running server: the client that reads them, and their layout."""

from __future__ import annotations

import argparse
import http.client
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlsplit

import msgspec
from rich.table import Table

from cli.command import CommandError
from cli.console import Part, table
from cli.explaining.views import FAIL, NAMED, PASS, passed
from cli.render import counted, named
from server.debug import DecisionDetail, Listing

TIMEOUT_SECONDS = 10.0
_LONGEST = 64 << 20
# Users often have kube-scheduler's urlPrefix instead of the server's own URL.
_PREFIX = "/api/scheduler"

Answer = TypeVar("Answer")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that name a server."""
    server = parser.add_argument_group("a running server")
    server.add_argument(
        "--server",
        metavar="URL",
        help="show the last answers of this `placet serve`, as in http://127.0.0.1:12345; "
        "without POD, list the pods that it decided about",
    )
    server.add_argument("--ca-file", metavar="FILE", type=Path, help="the CA of its certificate")
    server.add_argument(
        "--client-cert",
        metavar="FILE",
        type=Path,
        help="the certificate for a server with --client-ca",
    )
    server.add_argument("--client-key", metavar="FILE", type=Path, help="its key")


@dataclass(frozen=True, slots=True)
class Server:
    """A `placet serve` at a URL; `tls` is None for a server without TLS."""

    url: str
    tls: ssl.SSLContext | None

    def decisions(self) -> Listing:
        """The pods of its last decisions. Raises CommandError."""
        found = self._get("/debug/decisions", Listing)
        if found is None:
            raise CommandError(f"`{self.url}` has no decisions", "give the URL of a `placet serve`")
        return found

    def decision(self, namespace: str, name: str) -> DecisionDetail | None:
        """The last decision about a pod, or None. Raises CommandError."""
        return self._get(
            f"/debug/decisions/{quote(namespace, '')}/{quote(name, '')}", DecisionDetail
        )

    def _get(self, path: str, kind: type[Answer]) -> Answer | None:
        """The decoded answer; None for 404. Raises CommandError."""
        status, body = self._call(path)
        if status == 404:
            return None
        if status in (401, 403):
            hint = "give one with --client-cert FILE and --client-key FILE"
            raise CommandError(f"`{self.url}` requires another client certificate", hint)
        try:
            if status == 200:
                return msgspec.json.decode(body, type=kind)
        except msgspec.DecodeError:
            pass
        hint = "give the URL of a `placet serve` of this version"
        raise CommandError(f"`{self.url}` answers {status}, and not as Placet does", hint)

    def _call(self, path: str) -> tuple[int, bytes]:
        parts = urlsplit(self.url)
        host, port = parts.hostname or "", parts.port
        connection = (
            http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
            if self.tls is None
            else http.client.HTTPSConnection(host, port, timeout=TIMEOUT_SECONDS, context=self.tls)
        )
        try:
            connection.request("GET", parts.path + path)
            response = connection.getresponse()
            return response.status, response.read(_LONGEST)
        except ssl.SSLCertVerificationError as error:
            hint = "give the CA of its certificate with --ca-file FILE"
            reason = error.verify_message.lower()
            raise CommandError(f"`{self.url}` is not trusted: {reason}", hint) from None
        except (OSError, http.client.HTTPException) as error:
            message = f"cannot reach `{self.url}`: {_reason(error)}"
            raise CommandError(message, _hint(error)) from None
        finally:
            connection.close()


def server(args: argparse.Namespace) -> Server:
    """The server that the flags name. Raises CommandError."""
    url = args.server.rstrip("/").removesuffix(_PREFIX)
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        hint = "give a URL such as http://127.0.0.1:12345"
        raise CommandError(f"`{args.server}` is not a URL of a server", hint)
    if parts.scheme == "https":
        return Server(url, _tls(args.ca_file, args.client_cert, args.client_key))
    given = [f for f in ("ca_file", "client_cert", "client_key") if getattr(args, f) is not None]
    if given:
        flag = f"--{given[0].replace('_', '-')}"
        message = f"{flag} works only with a URL that begins with https"
        raise CommandError(message, f"leave out {flag}")
    return Server(url, None)


def _tls(ca: Path | None, certificate: Path | None, key: Path | None) -> ssl.SSLContext:
    if key is not None and certificate is None:
        raise CommandError("there is a key without a certificate", "give it with --client-cert")
    file = ca
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate is not None:
            file = certificate
            # Without the callback, an encrypted key would prompt for its password on the terminal.
            context.load_cert_chain(certificate, key, password=lambda: "")
    except (OSError, ValueError) as error:
        # SSLError is an OSError too; the message names the file, as not every OSError does.
        message = f"cannot use `{file}`: {_reason(error)}"
        raise CommandError(message, "it must be a PEM file") from None
    return context


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {TIMEOUT_SECONDS:g} s"
    if isinstance(error, ssl.SSLError):
        return (error.reason or "no TLS").replace("_", " ").lower()
    if isinstance(error, http.client.BadStatusLine) and not isinstance(error, ConnectionError):
        return "it does not speak HTTP"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text[:1].lower() + text[1:]


def _hint(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return "if the server does not use TLS, its URL begins with http"
    if isinstance(error, http.client.HTTPException | ConnectionResetError):
        return "if the server uses TLS, its URL begins with https"
    return "check that `placet serve` runs there and that this machine can reach it"


# ---- layout


def listing(found: Listing) -> Iterator[Part]:
    """A row for each pod; the newest decision comes first."""
    if not found.decisions:
        yield "there are no decisions yet"
        return
    rows = table("pod", "asked at", "pass", "of", "governed by", right=("pass", "of"))
    for one in found.decisions:
        note = f"error: {one.error}" if one.error else one.governing or ""
        rows.add_row(one.pod, one.at, str(one.passing), str(one.offered), note)
    yield rows


def head(decision: DecisionDetail) -> Iterator[Part]:
    """The pod, the time of the decision, and the policies that applied."""
    yield f"pod {decision.pod}, asked about at {decision.at}"
    if decision.policiesChanged:
        yield "the policies have changed since then"
    yield ""
    rows = _policies(decision)
    if rows.row_count:
        yield rows
        yield ""
    elif decision.error is None:
        yield "no policy applies to the pod\n"
    if decision.error is not None:
        yield f"kube-scheduler got an error and retries: {decision.error}\n"


def every_node(decision: DecisionDetail) -> Iterator[Part]:
    if decision.offered and (decision.error is None or decision.reasons):
        yield _by_reason(decision)
        yield ""
        yield passed(decision.passing, decision.offered)


def one_node(decision: DecisionDetail, node: str) -> Iterator[Part]:
    """The verdict about one node. Raises CommandError if it was not a candidate."""
    score = next((s.score for s in decision.scores or () if s.node == node), None)
    for reason in decision.reasons:
        if node in reason.names:
            error = f": {reason.error}" if reason.error else ""
            yield f"node {node} fails by {reason.text}{error}"
            return
    if decision.passed is None and decision.error is None:
        candidates = counted(decision.offered, "candidate node")
        yield f"node {node} passes if it was one of the {candidates}"
        return
    if node not in (decision.passed or ()):
        hint = "it sends only nodes that pass its own filters"
        raise CommandError(f"kube-scheduler did not send node `{node}` as a candidate", hint)
    yield f"node {node} passes"
    yield f"score {score} of 10" if score is not None else "not scored"


def _policies(decision: DecisionDetail) -> Table:
    rows = table("policy", "applies")
    for address in decision.guardrails:
        rows.add_row(address, "as a guardrail")
    if decision.governing is not None:
        rows.add_row(decision.governing, "governs")
    for address in decision.gaveWay:
        rows.add_row(address, f"no: `{decision.governing}` governs")
    for address in decision.audited:
        rows.add_row(address, "in audit")
    return rows


def _by_reason(decision: DecisionDetail) -> Table:
    rows = table("nodes", "verdict", "why", "which", right=("nodes",))
    if decision.passing:
        names = (
            [s.node for s in decision.scores] if decision.scores else list(decision.passed or ())
        )
        rows.add_row(str(decision.passing), PASS, _scores(decision), named(names, NAMED))
    for reason in decision.reasons:
        why = f"{reason.text}: {reason.error}" if reason.error else reason.text
        rows.add_row(str(reason.nodes), FAIL, why, named(reason.names, NAMED))
    return rows


def _scores(decision: DecisionDetail) -> str:
    if not decision.scores:
        return ""
    high, low = decision.scores[0].score, decision.scores[-1].score
    return f"score {low}" if low == high else f"score {low} to {high}, the best first"
