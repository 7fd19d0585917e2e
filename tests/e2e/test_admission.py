"""Admission of policies, as users see it: refusals that name the field, warnings, columns."""

import json
import secrets
from collections.abc import Iterator
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.placet import Placet
from tests.e2e.policies import SELECTED, define, policy
from tests.e2e.process import until
from tests.e2e.webhooks import webhooks
from tests.support.rows import rows

pytestmark = pytest.mark.e2e

GROUP = "placement-policy.scheduling.x-k8s.io"
FREE = ("--type=merge", "-p", '{"metadata": {"finalizers": null}}')
BROKEN = 'filter "ready" { require node.redy }'
READY = 'filter "ready" { require node.ready }'
FETCHED = (
    'data "load" { from prometheus "http://169.254.169.254" query "up" by "node" } '
    'filter "idle" { require data.load[node.name].value < 1.0 }'
)
# As the documents of the placement-policy scheduler plugins have them.
THEIRS = """
apiVersion: placement-policy.scheduling.x-k8s.io/v1alpha1
kind: PlacementPolicy
metadata:
  name: {name}
spec:
  weight: 100
  enforcementMode: {mode}
  podSelector:
    matchLabels:
      app: nginx
  nodeSelector:
    matchLabels:
      node: want
  policy:
    action: {action}
    targetSize: 40%
"""


class Shop:
    """A namespace whose objects go through the webhooks."""

    def __init__(self, cluster: Cluster, server: Placet) -> None:
        """Take who serves the webhooks."""
        self.cluster = cluster
        self.server = server

    def policy(self, size: str = "", name: str = "web", **spec: Any) -> dict[str, Any]:
        """Return a policy with these fields, and those with None left out."""
        made = policy(self.cluster, size, name=name, **spec)
        made["spec"] = {field: value for field, value in made["spec"].items() if value is not None}
        return made

    def apply(self, value: dict[str, Any] | str, *flags: str) -> "CompletedProcess[str]":
        """Apply an object, or YAML, as users do."""
        text = value if isinstance(value, str) else json.dumps(value)
        return self.kubectl("apply", *flags, "-f", "-", text=text)

    def kubectl(self, *arguments: str, text: str | None = None) -> "CompletedProcess[str]":
        return self.cluster.try_kubectl("-n", self.cluster.namespace, *arguments, text=text)

    def show(self, *arguments: str) -> dict[str, Any]:
        """Return an object as the API server has it."""
        shown: dict[str, Any] = json.loads(self.kubectl("get", *arguments, "-o", "json").stdout)
        return shown

    def names(self) -> str:
        return self.kubectl("get", "plp", "-o", "name").stdout

    def asked(self, verb: str) -> int:
        """Return how often the API server has asked."""
        return self.server.process.log.read_text().count(f'verb="{verb}" operation=')


@pytest.fixture(scope="module")
def home(
    plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cluster, Placet]]:
    """Return a namespace and who serves the webhooks for it; one policy in it is from before."""
    cluster = Cluster(plane, f"admission-{secrets.token_hex(4)}")
    define(cluster)
    folder = tmp_path_factory.mktemp("webhooks")
    old = policy(cluster, name="old", rules=BROKEN)
    old["metadata"]["finalizers"] = ["shop.example/held"]
    cluster.apply(old)
    files = f'policy shared in namespace "{cluster.namespace}" {{ {READY} }}'
    bad = policy(cluster, name="probe", rules=BROKEN)
    try:
        with webhooks(cluster, folder, files, bad) as server:
            yield cluster, server
    finally:
        # The webhooks are gone, and so may the policy be.
        cluster.try_kubectl("-n", cluster.namespace, "patch", "plp", "old", *FREE)
        cluster.kubectl("-n", cluster.namespace, "delete", "plp", "--all")


@pytest.fixture
def shop(home: tuple[Cluster, Placet]) -> Iterator[Shop]:
    """Return the namespace, without what other tests have applied."""
    test_shop = Shop(*home)
    yield test_shop
    mine = [name for name in test_shop.names().split() if not name.endswith("/old")]
    if mine:
        test_shop.kubectl("delete", *mine)


TARGET = {"targetSize": 1}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no pods": ({"podSelector": None, "size": "40%"}, "spec.podSelector: Required value"),
    "no nodes": ({"nodeSelector": None, "size": "40%"}, "needs a nodeSelector"),
    "every node": ({"nodeSelector": {}, "size": "40%"}, "spec.nodeSelector: Invalid value"),
    "weight 100": ({"weight": 100, "size": "40%"}, "spec.weight: Invalid value"),
    "weight -1": ({"weight": -1, "size": "40%"}, "spec.weight: Invalid value"),
    "140 %": ({"size": "140%"}, "spec.placementPolicy.targetSize: Invalid value"),
    "-1 %": ({"size": "-1%"}, "spec.placementPolicy.targetSize: Invalid value"),
    "-1": (
        {"placementPolicy": {"targetSize": -1}, "nodeSelector": SELECTED},
        "spec.placementPolicy.targetSize: Invalid value",
    ),
    "a number that is rounded": (
        {"placementPolicy": TARGET | {"rounding": "Up"}, "nodeSelector": SELECTED},
        "only a percentage is rounded",
    ),
    "no mode": ({"enforcementMode": "Strickt", "size": "40%"}, "spec.enforcementMode: Unsupported"),
    "no action": (
        {"placementPolicy": TARGET | {"action": "Should"}, "nodeSelector": SELECTED},
        "spec.placementPolicy.action: Unsupported value",
    ),
    "no such field": ({"nodeSelecter": SELECTED, "size": "40%"}, '"spec.nodeSelecter"'),
    "two targets": ({"policy": TARGET, "size": "40%"}, "placementPolicy and policy are two names"),
    "nothing": ({"nodeSelector": SELECTED}, "has no effect: set placementPolicy or rules"),
    "no syntax": ({"rules": "filter {"}, "rules:1:8 error[P0001]"),
    "a misspelt field": ({"rules": BROKEN}, "rules:1:31 error[P0102]: Node has no field `redy`"),
    "data of a URL": (
        {"rules": FETCHED},
        "rules:1:6 error[P0136]: a policy of a namespace cannot have data `from prometheus`",
    ),
    "64 KiB": ({"rules": "x " * 32768}, "rules:1:1 error[P0010]: the text has 32,768 tokens"),
    "open": (
        {"rules": "(" * 65536},
        "rules:1:101 error[P0011]: this is nested more than 100 levels deep",
    ),
    "more than 64 KiB": ({"rules": " " * 65537}, "spec.rules: Too long"),
}


@rows(("spec", "message"), BAD)
def test_bad_policy_is_refused_by_field(shop: Shop, spec: dict[str, Any], message: str) -> None:
    done = shop.apply(shop.policy(**spec))
    assert done.returncode == 1
    assert message in done.stderr, done.stderr
    assert "/web" not in shop.names()


def test_all_that_is_wrong_with_the_rules_is_said_at_once(shop: Shop) -> None:
    rules = f"{BROKEN}\nfilter {READY}\n" + BROKEN.replace("ready", "again")
    lines = shop.apply(shop.policy(rules=rules)).stderr.splitlines()
    found = [line for line in lines if "rules:" in line]
    assert len(found) == 3, lines
    assert 'webhook "validate.placement-policy.scheduling.x-k8s.io" denied' in "\n".join(lines)


def test_good_policy_passes_the_webhook_and_gets_the_defaults(shop: Shop) -> None:
    asked = shop.asked("validate")
    done = shop.apply(shop.policy(nodeSelector=SELECTED, placementPolicy=TARGET, rules=READY))
    assert (done.returncode, done.stderr) == (0, "")
    until(
        lambda: shop.asked("validate") == asked + 1,
        5.0,
        shop.server.process.tail,
    )
    spec = shop.show("plp", "web")["spec"]
    assert (spec["weight"], spec["enforcementMode"], spec["failurePolicy"]) == (
        101,
        "BestEffort",
        "Fail",
    )
    assert spec["placementPolicy"] == {"action": "Must", "bound": "Exactly", "targetSize": 1}


def test_dry_run_is_answered_likewise(shop: Shop) -> None:
    good = shop.policy(rules=READY)
    assert "(server dry run)" in shop.apply(good, "--dry-run=server").stdout
    bad = shop.apply(shop.policy(rules=BROKEN), "--dry-run=server")
    assert "Node has no field" in bad.stderr
    assert "/web" not in shop.names()


def test_warnings_reach_whoever_applies(shop: Shop) -> None:
    done = shop.apply(shop.policy(rules=f'use "later"\nlet unused = 1\n{READY}'))
    assert done.returncode == 0
    warnings = [line for line in done.stderr.splitlines() if line.startswith("Warning: ")]
    assert len(warnings) == 2
    assert any("unknown policy `later` (this policy is not enforced" in w for w in warnings)
    assert any("unused" in w for w in warnings)


def test_a_name_may_be_left_to_the_api_server(shop: Shop) -> None:
    made = shop.policy(rules=READY)
    made["metadata"] = {"generateName": "web-"}
    done = shop.kubectl("create", "-f", "-", text=json.dumps(made))
    assert (done.returncode, done.stderr) == (0, "")


def test_policies_of_files_can_be_used(shop: Shop) -> None:
    done = shop.apply(shop.policy(rules='use "shared"'))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("mode", ["BestEffort", "Strict"])
@pytest.mark.parametrize("action", ["Must", "MustNot"])
def test_manifests_of_the_plugins_apply_unchanged(shop: Shop, mode: str, action: str) -> None:
    text = THEIRS.format(name="theirs", mode=mode, action=action)
    done = shop.apply(text)
    assert done.returncode == 0, done.stderr
    assert "Warning: spec.weight warning[P0321]: `100` must be greater than 100" in done.stderr
    assert "unchanged" in shop.apply(text).stdout
    for version in ("v1", "v1alpha1"):
        spec = shop.show(f"placementpolicies.{version}.{GROUP}", "theirs")["spec"]
        assert (spec["weight"], spec["enforcementMode"]) == (100, mode)
        assert spec["policy"] == {"action": action, "targetSize": "40%", "bound": "Exactly"}
        assert "placementPolicy" not in spec


def test_columns(shop: Shop) -> None:
    spec: dict[str, Any] = {"nodeSelector": SELECTED, "enforcementMode": "Strict"}
    shop.apply(shop.policy(**spec, placementPolicy={"targetSize": "40%"}))
    said = {"mode": "Strict", "target": "exactly 40%"}
    status = {"placedPods": 4, "matchedPods": 5, "conditions": [condition("True")], **said}
    patch = json.dumps({"status": status})
    done = shop.kubectl("patch", "plp", "web", "--subresource=status", "--type=merge", "-p", patch)
    assert done.returncode == 0, done.stderr
    head, row = shop.kubectl("get", "plp", "web").stdout.splitlines()
    columns = ["NAME", "READY", "REASON", "MODE", "TARGET", "PLACED", "MATCHED", "WEIGHT", "AGE"]
    assert head.split() == columns
    assert row.split()[:-1] == "web True Tested Strict exactly 40% 4 5 101".split()


def condition(status: str) -> dict[str, str]:
    return {
        "type": "Ready",
        "status": status,
        "reason": "Tested",
        "message": "",
        "lastTransitionTime": "2026-11-21T10:00:00Z",
    }


def test_what_is_stored_and_broken_can_be_labelled_mended_and_let_go(shop: Shop) -> None:
    """It was there before the webhooks; only what changes the spec is looked at."""
    assert shop.kubectl("label", "plp", "old", "a=b").returncode == 0
    status = json.dumps({"status": {"conditions": [condition("False")]}})
    done = shop.kubectl("patch", "plp", "old", "--subresource=status", "--type=merge", "-p", status)
    assert done.returncode == 0, done.stderr
    worse = json.dumps({"spec": {"rules": f"{BROKEN} "}})
    done = shop.kubectl("patch", "plp", "old", "--type=merge", "-p", worse)
    assert "Node has no field `redy`" in done.stderr
    assert shop.kubectl("delete", "plp", "old", "--wait=false").returncode == 0
    done = shop.kubectl("patch", "plp", "old", *FREE)
    assert done.returncode == 0, done.stderr
    assert "old" not in shop.names()
