"""The rights in the cluster: chart, kustomize and deploy/rbac give those of the table, no others.

What a capability may do is in its room of `server.capabilities`; here is what the core may do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from server.capabilities.capability import Capability
from server.capabilities.table import CAPABILITIES
from tests.deploy.chart import CHART, ROOT
from tests.deploy.kustomize import MANIFESTS

TEMPLATE = CHART / "templates" / "rbac.yaml"
DEFAULTS: Mapping[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
_POLICIES = "placement-policy.scheduling.x-k8s.io"
# By the value of the chart that gives them; the first are always given.
CORE = {
    "": "list,watch nodes pods; get pods; create,get,update,patch leases.coordination.k8s.io; "
    f"list,watch placementpolicies.{_POLICIES} clusterplacementpolicies.{_POLICIES}",
    "rbac.namespaces": "list,watch namespaces",
    "rbac.workloads": "list,watch replicasets.apps deployments.apps statefulsets.apps jobs.batch",
    "rbac.statuses": f"patch placementpolicies/status.{_POLICIES} "
    f"clusterplacementpolicies/status.{_POLICIES}; create events.events.k8s.io",
    "rbac.requeue": "patch pods/status",
    # The Lease of kube-scheduler: its own, or another one whose changes are followed.
    "mode": "get,update leases.coordination.k8s.io",
    "bind.enabled": "create pods/binding; get pods",
    "certificates.mode": "create,get,patch secrets",
    "webhooks": "get,patch mutatingwebhookconfigurations.admissionregistration.k8s.io "
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
}
# The roles that users get, and not Placet.
OF_USERS = ("-policies-edit", "-policies-view")
Right = tuple[str, str]


def rights(rows: Mapping[str, str]) -> Iterator[Right]:
    """Each right, `VERB RESOURCE.GROUP`, with the value of the chart that gives it."""
    for value, text in rows.items():
        for part in text.split("; "):
            verbs, *resources = part.split()
            for verb, resource in product(verbs.split(","), resources):
                yield value, f"{verb} {resource}"


def rules(text: str) -> Iterator[str]:
    """The rights of a rule in one line of each field."""
    groups, resources, verbs = (
        re.findall(r"[^\s,\"\[\]]+", found[1]) if (found := re.search(pattern, text)) else []
        for pattern in (r"apiGroups: (.*)", r"resources: (.*)", r"verbs: (.*)")
    )
    for group, resource, verb in product(groups or [""], resources, verbs):
        yield f"{verb} {resource}.{group}".rstrip(".")


def roles(text: str) -> Iterator[str]:
    """The documents of the roles of Placet."""
    for document in re.split(r"(?m)^---$", text):
        name = re.search(r"(?m)^  name: (\S.*)$", document)
        if re.search(r"(?m)^rules:", document) and name and not name[1].endswith(OF_USERS):
            yield document


def given(text: str) -> set[str]:
    """The rights that manifests give."""
    return {
        right
        for role in roles(text)
        for rule in re.split(r"(?m)^  - (?=apiGroups)", role)[1:]
        for right in rules(rule)
    }


def of_chart() -> set[Right]:
    """The rights in the template, with the value of the last condition around each."""
    found, around, name, rule = set[Right](), list[str](), "", ""
    for line in TEMPLATE.read_text(encoding="utf-8").splitlines():
        if opened := re.match(r" *\{\{- (?:if|with|range) (.*)\}\}", line):
            value = re.findall(r"\.Values\.([\w.]+)", opened[1])
            around += [value[0] if value else "webhooks"]
        elif re.match(r" *\{\{- end \}\}", line):
            around.pop()
        if named := re.match(r"  name: (\S.*)$", line):
            name = named[1]
        rule = line if line.startswith("  - apiGroups") else f"{rule}\n{line}"
        if line.startswith("    verbs:") and not name.endswith(OF_USERS):
            why = around[-1] if around[-1] != "rbac.create" else ""
            found |= {(why, right) for right in rules(rule)}
    return found


def of_table() -> dict[Right, str]:
    """The rights of the core and of capabilities, with whose they are."""
    core = dict.fromkeys(rights(CORE), "the core")
    return core | {right: each.name for each in CAPABILITIES for right in rights(each.rights)}


def value_of(path: str) -> Any:
    """The default of a value of the chart; an empty path is always on."""
    value: Any = DEFAULTS
    for name in path.split(".") if path else ():
        value = value[name]
    return value


@pytest.mark.parametrize("capability", CAPABILITIES, ids=lambda each: each.name)
def test_the_chart_gives_what_a_capability_needs(capability: Capability) -> None:
    missing = [
        f"deploy/chart/templates/rbac.yaml needs a rule `{right}` under `{value}`"
        for value, right in rights(capability.rights)
        if (value, right) not in of_chart()
    ]
    assert not missing, "\n".join(missing)


def test_the_chart_gives_no_right_that_nobody_needs() -> None:
    known = of_table()
    unknown = [
        f"`{right}` under `{value}` is in `rights` of no capability, and not of the core"
        for value, right in sorted(of_chart() - known.keys())
    ]
    assert not unknown, "\n".join(unknown)
    assert sorted(known.keys() - of_chart()) == []


def test_kustomize_has_what_the_chart_gives_by_default() -> None:
    on = {"": True, "webhooks": True, "certificates.mode": True}
    wanted = {
        right
        for value, right in of_table()
        if on.get(value) or (value not in on and value_of(value) not in (False, [], "off"))
    }
    assert given(MANIFESTS.read_text(encoding="utf-8")) == wanted


def test_the_manifests_without_helm_give_the_same() -> None:
    """But for what users name: the ConfigMaps and the objects that policies read."""
    files = sorted((ROOT / "deploy" / "rbac").rglob("*.yaml"))
    found = {right for file in files for right in given(Path(file).read_text(encoding="utf-8"))}
    wanted = {
        right
        for value, right in of_table()
        if value in ("", "webhooks") or not isinstance(value_of(value), list)
    }
    assert found == wanted
