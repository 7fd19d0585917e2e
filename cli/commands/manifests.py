"""Command `manifests`: what installs Placet with a second kube-scheduler, without helm."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from cli.command import Exit, flags_of
from grammar.tree.policy import FromConfigMap, FromMetrics, FromObjects, TableSource

# The same place in a checkout and in the wheel.
FILE = Path(__file__).parents[2] / "deploy" / "kustomize" / "base" / "placet.yaml"
_IMAGE = re.compile(r"(?m)^( +image: )placet:\S+$")
# The service account of these manifests.
_ACCOUNT, _NAMESPACE = "placet", "kube-system"
EXAMPLES = """\
examples:
  placet manifests --image registry.example/placet:0.1.0 \\
    | kubectl apply --server-side --force-conflicts --field-manager=helm -f -
"""


ARGUMENTS = flags_of("""
  --image NAME
    the image of Placet in your registry, with its tag or digest (default: placet, with the version
    of Placet)
  --policies PATH,
    a policy file or a folder of them: add the rights to read the data that these declare; may be
    given again
""")


def run(args: argparse.Namespace) -> int:
    text = FILE.read_text(encoding="utf-8")
    if args.image:
        text = _IMAGE.sub(lambda found: f"{found[1]}{args.image}", text)
    # Whoever applies the output gets all of it, or nothing.
    if args.policies:
        # Most calls need neither the language nor the server.
        from cli.world import read_policies  # noqa: PLC0415
        from grammar.meaning.schema import load_schema  # noqa: PLC0415

        tables = read_policies(args.policies, load_schema()).registry.tables.values()
        for each in data_rights((table.source for table in tables), _ACCOUNT, _NAMESPACE):
            text += f"---\n{yaml.safe_dump(each, sort_keys=False)}"
    print(text, end="")
    return Exit.OK


# ---- the rights for what policies declare: kinds of objects, ConfigMaps and metrics of nodes

_RBAC = "rbac.authorization.k8s.io"
_READ, _WATCH = ["get", "list"], ["list", "watch"]


def data_rights(
    sources: Iterable[TableSource], account: str, namespace: str
) -> Iterator[dict[str, Any]]:
    """The roles and bindings that a service account needs to read these sources, as manifests."""
    rules: dict[tuple[str, str], list[str]] = {}
    maps: dict[str, set[str]] = {}
    for source in sources:
        match source:
            case FromMetrics():
                rules["metrics.k8s.io", "nodes"] = _READ
            case FromObjects(kind):
                group, _, _ = kind.rpartition("/")[0].rpartition("/")
                rules[group, resource_name(kind.rpartition("/")[2])] = _WATCH
            case FromConfigMap(name):
                where, _, short = name.partition("/")
                maps.setdefault(where, set()).add(short)
            case _:
                pass
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    if rules:
        texts = [
            {"apiGroups": [group], "resources": [resource], "verbs": verbs}
            for (group, resource), verbs in sorted(rules.items())
        ]
        yield from _role("ClusterRole", {"name": f"{account}-data"}, texts, subject)
    for where, names in sorted(maps.items()):
        rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": sorted(names)}
        metadata = {"name": f"{account}-data", "namespace": where}
        yield from _role("Role", metadata, [{**rule, "verbs": ["get", *_WATCH]}], subject)


def _role(
    kind: str, metadata: dict[str, str], rules: list[dict[str, Any]], subject: dict[str, str]
) -> Iterator[dict[str, Any]]:
    yield {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata, "rules": rules}
    yield {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": metadata["name"]},
        "subjects": [subject],
    }


def resource_name(kind: str) -> str:
    """The resource of a kind as Kubernetes guesses it (UnsafeGuessKindToResource).

    A definition may have another name for it, and then the right is to be corrected.
    """
    word = kind.lower()
    if word.endswith("s"):
        return f"{word}es"
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
