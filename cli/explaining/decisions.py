"""What a running server is asked: HTTP GET, and what comes in its place, as one clear error."""

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
from rich.text import Text

from cli.command import CommandError
from cli.console import Part, table
from cli.render import counted
from server.debug import DecisionDetail, Listing

TIMEOUT_SECONDS = 10.0
_LONGEST = 64 << 20
# kube-scheduler's urlPrefix is at hand more often than the server's own URL.
_PREFIX = "/api/scheduler"

Answer = TypeVar("Answer")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that name a server."""
    server = parser.add_argument_group("of a running server")
    server.add_argument(
        "--server",
        metavar="URL",
        help="tell what this `placet serve` answered last, such as http://127.0.0.1:12345; "
        "without POD, which pods it was asked about",
    )
    server.add_argument("--ca-file", metavar="FILE", type=Path, help="the CA of its certificate")
    server.add_argument(
        "--client-cert", metavar="FILE", type=Path, help="what to show a server with --client-ca"
    )
    server.add_argument("--client-key", metavar="FILE", type=Path, help="its key")


@dataclass(frozen=True, slots=True)
class Server:
    """A `placet serve` at a URL; `tls` is None for one without TLS."""

    url: str
    tls: ssl.SSLContext | None

    def decisions(self) -> Listing:
        """The pods that it was asked about last. Raises CommandError."""
        found = self._get("/debug/decisions", Listing)
        if found is None:
            raise CommandError(
                f"`{self.url}` keeps no decisions", "name the URL of a `placet serve`"
            )
        return found

    def decision(self, namespace: str, name: str) -> DecisionDetail | None:
        """The last decision about a pod; None if there is none. Raises CommandError."""
        return self._get(
            f"/debug/decisions/{quote(namespace, '')}/{quote(name, '')}", DecisionDetail
        )

    def _get(self, path: str, kind: type[Answer]) -> Answer | None:
        """What is there; None for 404. Raises CommandError."""
        status, body = self._call(path)
        if status == 404:
            return None
        if status in (401, 403):
            hint = "show it one with --client-cert FILE and --client-key FILE"
            raise CommandError(f"`{self.url}` wants another client certificate", hint)
        try:
            if status == 200:
                return msgspec.json.decode(body, type=kind)
        except msgspec.DecodeError:
            pass
        hint = "name the URL of a `placet serve` of this version"
        raise CommandError(f"`{self.url}` answers {status} with what Placet does not say", hint)

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
            hint = "name the CA of its certificate with --ca-file FILE"
            reason = error.verify_message.lower()
            raise CommandError(f"`{self.url}` is not trusted: {reason}", hint) from None
        except (OSError, http.client.HTTPException) as error:
            raise CommandError(f"cannot ask `{self.url}`: {_reason(error)}", _hint(error)) from None
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
        hint = "it is as in http://127.0.0.1:12345"
        raise CommandError(f"`{args.server}` is no URL of a server", hint)
    if parts.scheme == "https":
        return Server(url, _tls(args.ca_file, args.client_cert, args.client_key))
    given = [f for f in ("ca_file", "client_cert", "client_key") if getattr(args, f) is not None]
    if given:
        flag = f"--{given[0].replace('_', '-')}"
        raise CommandError(f"{flag} is for a server with TLS", "its URL begins with https")
    return Server(url, None)


def _tls(ca: Path | None, certificate: Path | None, key: Path | None) -> ssl.SSLContext:
    if key is not None and certificate is None:
        raise CommandError("there is a key without a certificate", "name it with --client-cert")
    file = ca
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate is not None:
            file = certificate
            # Without the callback, a key with a password would ask for it on the terminal.
            context.load_cert_chain(certificate, key, password=lambda: "")
    except (OSError, ValueError) as error:
        # An SSLError is an OSError; a path of an OSError is not always in it.
        raise CommandError(f"cannot use `{file}`: {_reason(error)}", "it has to be PEM") from None
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
        return "a server without TLS has a URL that begins with http, not https"
    if isinstance(error, http.client.HTTPException | ConnectionResetError):
        return "a server with TLS has a URL that begins with https"
    return "is `placet serve` running there, and may this machine reach it?"


# ---- The answers of `placet explain --server`: the pods a server was asked about, and one of them.

# More names than that in a row are counted.
_NAMED = 4
_PASS, _FAIL = Text("pass", "green"), Text("fail", "red")


def listing(found: Listing) -> Iterator[Part]:
    """A row for each pod, the newest first."""
    if not found.decisions:
        yield "kube-scheduler has not asked about any pod yet"
        return
    rows = table("pod", "asked at", "pass", "of", "governed by", right=("pass", "of"))
    for one in found.decisions:
        note = f"error: {one.error}" if one.error else one.governing or ""
        rows.add_row(one.pod, one.at, str(one.passing), str(one.offered), note)
    yield rows


def head(told: DecisionDetail) -> Iterator[Part]:
    """The pod, when it was asked about, and what policies have to do with it."""
    yield f"pod {told.pod}, asked about at {told.at}"
    if told.policiesChanged:
        yield "other policies are in force since"
    yield ""
    rows = _policies(told)
    if rows.row_count:
        yield rows
        yield ""
    elif told.error is None:
        yield "no policy concerns the pod\n"
    if told.error is not None:
        yield f"kube-scheduler got an error, and tries again: {told.error}\n"


def every_node(told: DecisionDetail) -> Iterator[Part]:
    """The nodes by verdict."""
    if told.offered and (told.error is None or told.reasons):
        yield _by_reason(told)
        yield ""
        verb = "passes" if told.passing == 1 else "pass"
        yield f"{told.passing} of {counted(told.offered, 'node')} {verb}"


def one_node(told: DecisionDetail, node: str) -> Iterator[Part]:
    """What was said of one node. Raises CommandError for one that kube-scheduler did not offer."""
    score = next((s.score for s in told.scores or () if s.node == node), None)
    for reason in told.reasons:
        if node in reason.names:
            error = f": {reason.error}" if reason.error else ""
            yield f"node {node} fails by {reason.text}{error}"
            return
    if told.passed is None and told.error is None:
        yield f"node {node} passes if it was among the {counted(told.offered, 'node')} in question"
        return
    if node not in (told.passed or ()):
        hint = "it asks about nodes that pass its own filters"
        raise CommandError(f"kube-scheduler did not ask about node `{node}`", hint)
    yield f"node {node} passes"
    yield f"score {score} of 10" if score is not None else "not scored"


def _policies(told: DecisionDetail) -> Table:
    rows = table("policy", "applies")
    for address in told.guardrails:
        rows.add_row(address, "as a guardrail")
    if told.governing is not None:
        rows.add_row(told.governing, "governs")
    for address in told.gaveWay:
        rows.add_row(address, f"no: `{told.governing}` governs")
    for address in told.audited:
        rows.add_row(address, "in audit")
    return rows


def _by_reason(told: DecisionDetail) -> Table:
    rows = table("nodes", "verdict", "why", "which", right=("nodes",))
    if told.passing:
        names = [s.node for s in told.scores] if told.scores else list(told.passed or ())
        rows.add_row(str(told.passing), _PASS, _scores(told), _some(names))
    for reason in told.reasons:
        why = f"{reason.text}: {reason.error}" if reason.error else reason.text
        rows.add_row(str(reason.nodes), _FAIL, why, _some(list(reason.names)))
    return rows


def _scores(told: DecisionDetail) -> str:
    if not told.scores:
        return ""
    high, low = told.scores[0].score, told.scores[-1].score
    return f"score {low}" if low == high else f"score {low} to {high}, the best first"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"
