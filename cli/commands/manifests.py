"""Command `manifests`: what installs Placet with a second kube-scheduler, without helm."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from cli.command import Exit

# The same place in a checkout and in the wheel.
FILE = Path(__file__).parents[2] / "deploy" / "kustomize" / "base" / "placet.yaml"
_IMAGE = re.compile(r"(?m)^( +image: )placet:\S+$")
EXAMPLES = """\
examples:
  placet manifests --image registry.example/placet:0.1.0 | kubectl apply -f -
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--image",
        metavar="NAME",
        default="",
        help="the image of Placet in your registry, with its tag or digest (default: placet, with "
        "the version of Placet)",
    )


def run(args: argparse.Namespace) -> int:
    text = FILE.read_text(encoding="utf-8")
    if args.image:
        text = _IMAGE.sub(lambda found: f"{found[1]}{args.image}", text)
    print(text, end="")
    return Exit.OK
