"""Flags of a server for the sources of data: where files are, and how Prometheus is asked."""

from __future__ import annotations

import argparse
from pathlib import Path

from server.runtime.data_tables import DataAccess


def add_source_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags, in a group of their own."""
    data = parser.add_argument_group("data")
    data.add_argument(
        "--data-folder",
        metavar="FOLDER",
        type=Path,
        help="the folder of the files that policies read by `data NAME { from file … }`",
    )
    data.add_argument(
        "--data-ca",
        metavar="FILE",
        type=Path,
        help="the CA of the Prometheus servers that policies read (default: those of the system)",
    )
    data.add_argument(
        "--data-token",
        metavar="FILE",
        type=Path,
        help="a file with a bearer token for these servers, which is sent over https only",
    )


def data_access(args: argparse.Namespace) -> DataAccess:
    """What the flags give to sources."""
    return DataAccess(args.data_folder, args.data_ca, args.data_token)
