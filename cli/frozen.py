"""Frozen: the flags that say which labels and annotations of pods nobody can change."""

from __future__ import annotations

import argparse


def add_frozen_arguments(parser: argparse._ActionsContainer) -> None:
    for what in ("label", "annotation"):
        parser.add_argument(
            f"--frozen-{what}",
            metavar="KEY",
            action="append",
            default=[],
            help=f"the key of {'an' if what[0] == 'a' else 'a'} {what} of pods that the cluster "
            "lets nobody change, so that portable policies may depend on it; may be given again",
        )
