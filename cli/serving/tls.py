"""The flags of TLS, and what is wrong with them and the files that they name."""

from __future__ import annotations

import argparse
from logging import Logger
from pathlib import Path

from cli.exits import CommandError
from server.metrics import Metrics
from server.settings import Settings, TlsFiles
from server.tls import Credentials, TlsError


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the flags."""
    tls = parser.add_argument_group("how it serves HTTPS", "the files are read again when changed")
    tls.add_argument(
        "--tls-cert", metavar="FILE", type=Path, help="a certificate with its chain (PEM)"
    )
    tls.add_argument("--tls-key", metavar="FILE", type=Path, help="its key (PEM), not encrypted")
    tls.add_argument(
        "--client-ca",
        metavar="FILE",
        type=Path,
        help="certificates (PEM) of which clients must show one that is issued by them, except to "
        "ask for health and version, and for the admission webhooks",
    )
    tls.add_argument(
        "--client-name",
        metavar="NAME",
        action="append",
        default=[],
        help="a common name or alternative name that client certificates must have; may be given "
        "again (default: any)",
    )


def tls_files(args: argparse.Namespace) -> TlsFiles | None:
    """The files that the flags name; None is plain HTTP. Raises CommandError."""
    if args.client_name and args.client_ca is None:
        hint = "name the CA of those clients with --client-ca FILE"
        raise CommandError("--client-name is of no use without --client-ca", hint)
    if args.tls_cert is None and args.tls_key is None:
        if args.client_ca is not None:
            hint = "name a certificate with --tls-cert FILE and --tls-key FILE"
            raise CommandError("--client-ca is of no use without --tls-cert", hint)
        return None
    if args.tls_cert is None or args.tls_key is None:
        given, missing = "--tls-cert", "--tls-key"
        if args.tls_cert is None:
            given, missing = missing, given
        raise CommandError(f"{given} is of no use without {missing}", f"add {missing} FILE")
    return TlsFiles(args.tls_cert, args.tls_key, args.client_ca, frozenset(args.client_name))


def credentials(settings: Settings, metrics: Metrics, log: Logger) -> Credentials | None:
    """What the files hold. Raises CommandError."""
    if settings.tls is None:
        return None
    try:
        return Credentials(settings.tls, metrics, log)
    except TlsError as error:
        hint = "PEM files are wanted: a certificate with its chain, and its key without a password"
        raise CommandError(str(error), hint) from None
