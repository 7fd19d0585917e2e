"""`placet schema`: names, types, what they stand for, and paths that lead nowhere."""

from pathlib import Path

import pytest

from tests.cli.conftest import Placet


@pytest.fixture(autouse=True)
def width(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "96")


def test_without_a_path_there_are_the_variables(placet: Placet) -> None:
    done = placet("schema")
    assert (done.code, done.err) == (0, "")
    assert (
        done.out
        == """\
variable         type        is                                can be read in
pod              Pod         the pod that kube-scheduler asks  all parts but places, sums and
                             about                             `of pods by`
node             Node        a candidate node                  filters, scores, binds, shares,
                                                               places, bounds
peer             Peer        another pod that a clause may     `pods where`, `of pods by`
                             count
victim           Peer        a pod that may be evicted         `protect`
victims          list(Peer)  the pods that may be evicted      `require`, `pick` of preempt
                             together
namespaceObject  Namespace   the pod's namespace               the same parts as `pod`
now              timestamp   the time of the request           these parts, but for gangs, cards
                                                               and `wait until`

`placet schema node` shows the fields of a variable
"""
    )


def test_a_record_shows_what_each_field_is_where_it_is_absent(placet: Placet) -> None:
    done = placet("schema", "pod.spec.containers.resources.claims")
    assert (
        done.out
        == """\
pod.spec.containers.resources.claims : list(ResourceClaim)

field    type    if absent
name     string  ""
request  string  ""
"""
    )


def test_short_forms_say_what_they_stand_for(placet: Placet) -> None:
    done = placet("schema", "pod")
    assert done.out.startswith(
        """\
pod : Pod

The pod that kube-scheduler asks about.

short form   type                   if absent  is
name         string                            The pod's name.
                                               = pod.metadata.name
"""
    )
    assert "\nfield       type        if absent\n" in done.out


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (
            "node.uid",
            "node.uid : string\n  The node's uid.\n  = node.metadata.uid\n",
        ),
        ("now", "now : timestamp\n"),
        ('pod.labels["a.b/c"]', 'pod.labels["a.b/c"] : string\n'),
        (
            "pod.spec.containers[0].image",
            'pod.spec.containers[0].image : string\n  If absent: "".\n',
        ),
        (
            "pod.spec.priority",
            "pod.spec.priority : int\n  If absent: missing.\n",
        ),
    ],
    ids=["short form", "variable", "key", "item", "optional"],
)
def test_a_path_may_end_in_a_single_value(placet: Placet, path: str, shown: str) -> None:
    done = placet("schema", path)
    assert (done.code, done.out, done.err) == (0, shown, "")


@pytest.mark.parametrize(
    ("path", "error", "hint"),
    [
        ("nod.name", "error[P0101]: unknown name `nod`", "a similar name exists: `node`"),
        (
            "pod.spec.contaners",
            "error[P0102]: PodSpec has no field `contaners`",
            "a similar name exists: `containers`",
        ),
        (
            "node.labels.zone",
            "error[P0107]: a map(string, string) has no fields",
            'write `["zone"]` for a key of a map',
        ),
    ],
    ids=["name", "field", "key"],
)
def test_an_unknown_path_is_a_mistake_as_in_a_policy(
    placet: Placet, path: str, error: str, hint: str
) -> None:
    done = placet("schema", path)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"{error}\n --> path:1:")
    assert f"= help: {hint}\n" in done.err
