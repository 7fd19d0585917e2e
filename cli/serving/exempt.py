"""The flags of pods that no policy decides about."""

from __future__ import annotations

import argparse
import re

from engine.cluster.configuration import own_namespace
from engine.exemptions import SYSTEM_NAMESPACES, Exemptions

_NONE = "none"
_NAME = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the flags."""
    who = parser.add_argument_group("about whom no policy decides")
    defaults = ", ".join(sorted(SYSTEM_NAMESPACES | {own_namespace()}))
    who.add_argument(
        "--exempt-namespace",
        metavar="NS",
        action="append",
        default=[],
        type=_namespace,
        help="a namespace whose pods are scheduled whatever policies say, or cannot say yet; may "
        f"be given again, on top of {defaults}; `none` leaves these out",
    )
    who.add_argument(
        "--no-bypass",
        action="store_true",
        help="disregard the annotation by which a pod bypasses policies",
    )


def exemptions(args: argparse.Namespace) -> Exemptions:
    """Who is exempt."""
    named = set(args.exempt_namespace)
    always = frozenset() if _NONE in named else SYSTEM_NAMESPACES | {own_namespace()}
    return Exemptions(always | (named - {_NONE}), by_annotation=not args.no_bypass)


def _namespace(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"`{text}` is no name of a namespace")
    return text
