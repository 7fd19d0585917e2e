"""Command `manifests`: what installs Placet with a second kube-scheduler, without helm."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import yaml

from cli.command import Exit, given_path

# The same place in a checkout and in the wheel.
FILE = Path(__file__).parents[2] / "deploy" / "kustomize" / "base" / "placet.yaml"
_IMAGE = re.compile(r"(?m)^( +image: )placet:\S+$")
# The service account of these manifests.
_ACCOUNT, _NAMESPACE = "placet", "kube-system"
EXAMPLES = """\
examples:
  placet manifests --image registry.example/placet:0.1.0 | kubectl apply --server-side -f -
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--image",
        metavar="NAME",
        default="",
        help="the image of Placet in your registry, with its tag or digest (default: placet, with "
        "the version of Placet)",
    )
    parser.add_argument(
        "--policies",
        metavar="PATH",
        action="append",
        default=[],
        type=given_path,
        help="a policy file or a folder of them: add the rights to read the data that these "
        "declare; may be given again",
    )


def run(args: argparse.Namespace) -> int:
    text = FILE.read_text(encoding="utf-8")
    if args.image:
        text = _IMAGE.sub(lambda found: f"{found[1]}{args.image}", text)
    # Whoever applies the output gets all of it, or nothing.
    rights = _rights(args.policies) if args.policies else ""
    print(text, end="")
    print(rights, end="")
    return Exit.OK


def _rights(paths: list[Path]) -> str:
    """The manifests of the rights for data. Raises CommandError."""
    # Most calls need neither the language nor the server.
    from cli.serving.source_flags import data_rights  # noqa: PLC0415
    from cli.world import read_policies  # noqa: PLC0415
    from grammar.meaning.schema import load_schema  # noqa: PLC0415

    tables = read_policies(paths, load_schema()).registry.tables.values()
    rights = data_rights((table.source for table in tables), _ACCOUNT, _NAMESPACE)
    return "".join(f"---\n{yaml.safe_dump(each, sort_keys=False)}" for each in rights)
