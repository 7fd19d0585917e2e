"""What a running server is asked: HTTP GET, and what comes in its place, as one clear error."""

from __future__ import annotations

import argparse
import http.client
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from cli.exits import CommandError
from server.decisions import Listing, Told

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

    def decision(self, namespace: str, name: str) -> Told | None:
        """The last decision about a pod; None if there is none. Raises CommandError."""
        return self._get(f"/debug/decisions/{quote(namespace, '')}/{quote(name, '')}", Told)

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
