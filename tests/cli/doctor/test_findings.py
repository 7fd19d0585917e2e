"""Checks: each finds its problem at its place, and a sound configuration has no findings."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cli.command import CommandError
from cli.doctor.configuration_text import configurations
from cli.doctor.context import ConfigurationContext, SchedulerRequirements, read_requirements
from cli.doctor.findings import OF_ALL, OF_ENTRIES, OF_OURS, examine
from cli.doctor.schema import placets
from cli.render import FieldFinding
from tests.support.books import section
from tests.support.scheduler_configs import (
    ACCEPTED,
    OTHER,
    OURS,
    REFUSED,
    SOUND,
    Json,
    Wrong,
    configuration,
    ours,
)

DOCS = Path(__file__).parents[3] / "docs"
STRICT = 'policy strict in namespace "web" { limit "one" { per node at most 1 strict } }\n'
CARDS = """policy c {
  for pods where true
  cards "gpu" { on node 2 of {"milli": 1000} take {"milli": 500} }
}"""
GANG = 'policy g in namespace "web" { gang "all" { } }'
WAIT = 'policy w in namespace "web" { bind "x" { wait until node.ready for at most 1m } }'
SUM = """policy sum in namespace "web" {{
  {} "room" {{ require node.pods.map(p, p.requests["cpu"]).sum() <= "4" }}
}}"""
# What policies without scores need.
UNSCORED = ours("prioritizeVerb")
BIND = {"bindVerb": "bind"}
# Checks that no configuration fails without policies.
ONLY_WITH_POLICIES = {
    "no-binder",
    "waiting-bind",
    "two-gangs",
    "group-preemption",
    "broken-policies",
}
# Checks of what the flags of `placet serve` need; in all other tests they are right.
OF_FLAGS = {"bind", "gate"}
# What the reader of fields says.
OF_FIELDS = {"unknown-field", "wrong-type", "repeated-field"}
# A check of the manifest, which no configuration fails alone.
OF_MANIFESTS = {"flag"}


def examined(text: str, requirements: SchedulerRequirements | None = None) -> list[FieldFinding]:
    (read,) = configurations([("s.yaml", text)])
    context = ConfigurationContext(read, *placets(read.extenders), 5.0, requirements)
    return examine(replace(context, binds=context.entry_of("bind") is not None))


def found(
    text: str, requirements: SchedulerRequirements | None = None
) -> list[tuple[str, str, str]]:
    """Return code, path and severity of each finding."""
    return [(d.code, place.path, d.severity) for d, place in examined(text, requirements)]


def messages(text: str) -> list[str]:
    return [diagnostic.message for diagnostic, _ in examined(text)]


@pytest.mark.parametrize("wrong", [*REFUSED, *ACCEPTED], ids=lambda wrong: wrong.id)
def test_what_is_wrong_is_found_where_it_is(wrong: Wrong) -> None:
    findings = found(wrong.text)
    assert (wrong.code, wrong.place, wrong.severity) in findings
    # One thing is wrong: what else there is to say about it is no worse than that.
    errors = {code for code, _, severity in findings if severity == "error"}
    assert errors <= ({wrong.code} if wrong.severity == "error" else set())


@pytest.mark.parametrize("wrong", REFUSED, ids=lambda wrong: wrong.id)
def test_what_kube_scheduler_refuses_is_said_to_be(wrong: Wrong) -> None:
    says = ("kube-scheduler refuses to start", "kube-scheduler 1.36 does not read")
    assert any(text in message for message in messages(wrong.text) for text in says)


@pytest.mark.parametrize("wrong", ACCEPTED, ids=lambda wrong: wrong.id)
def test_what_kube_scheduler_takes_is_not_said_to_be_refused(wrong: Wrong) -> None:
    assert not any("refuses to start" in message for message in messages(wrong.text))


@pytest.mark.parametrize("sound", SOUND, ids=range(len(SOUND)))
def test_sound_configuration_has_no_findings(sound: Json) -> None:
    assert found(json.dumps(sound)) == []


def test_every_check_has_a_case() -> None:
    tried = {wrong.code for wrong in (*REFUSED, *ACCEPTED)}
    known = {*OF_ALL, *OF_OURS, *OF_ENTRIES, *OF_FIELDS}
    assert tried | ONLY_WITH_POLICIES | OF_FLAGS | OF_MANIFESTS == known


@pytest.mark.parametrize("binds", [True, False])
@pytest.mark.parametrize("asked", [True, False])
def test_both_sides_must_agree_on_bind(binds: bool, asked: bool) -> None:
    """`bindVerb` on one side, `placet serve --bind` on the other."""
    text = json.dumps(configuration(ours(bindVerb="bind") if asked else OURS))
    (read,) = configurations([("s.yaml", text)])
    findings = examine(ConfigurationContext(read, *placets(read.extenders), 5.0, None, binds))
    told = [(d.code, d.severity, place.path, d.message, d.hint) for d, place in findings]
    at = "extenders[0].bindVerb"
    without = (
        *("bind", "error", at),
        "`placet serve` has no verb bind without `--bind`: no pod can be bound",
        "serve with `--bind` and give it to this command too, or remove `bindVerb`",
    )
    unasked = (
        *("bind", "warning", at),
        "`placet serve --bind` may bind pods, and kube-scheduler never asks it to",
        "write `bindVerb: bind`, or serve without `--bind`",
    )
    assert told == ([] if binds == asked else [without if asked else unasked])


@pytest.mark.parametrize(
    ("policy", "entry", "expected"),
    [
        (STRICT, UNSCORED | BIND, []),
        (STRICT, UNSCORED, [("no-binder", "warning")]),
        (
            STRICT,
            UNSCORED | BIND | {"ignorable": True},
            [("ignorable", "error"), ("ignorable", "warning")],
        ),
        (STRICT.replace("strict }", "weight 1 }"), ours(ignorable=True), []),
        (STRICT.replace("{ limit", "{ mode audit limit"), UNSCORED | {"ignorable": True}, []),
        (
            'policy b in namespace "web" { bind "x" { require node.ready } }',
            UNSCORED,
            [("no-binder", "warning")],
        ),
        (SUM.format("bind"), UNSCORED, [("no-binder", "warning")]),
        (SUM.format("bind"), UNSCORED | BIND, []),
        (
            'policy s in namespace "web" { score "x" weight 1 { value 1 } }',
            ours("prioritizeVerb"),
            [("missing-verb", "warning")],
        ),
        (
            STRICT.replace("strict }", "weight 1 }"),
            UNSCORED,
            [("missing-verb", "warning")],
        ),
        (STRICT, ours(bindVerb="bind"), []),
        (
            STRICT,
            UNSCORED | BIND | {"managedResources": [{"name": "a.b/c"}]},
            [("managed-resources", "error")],
        ),
        (CARDS, UNSCORED | BIND, []),
        (CARDS, UNSCORED, [("no-binder", "error")]),
        (
            CARDS,
            UNSCORED | BIND | {"ignorable": True},
            [("ignorable", "error"), ("ignorable", "warning")],
        ),
        (GANG, UNSCORED | BIND | {"httpTimeout": "65s"}, [("timeout", "warning")]),
        (GANG, UNSCORED | BIND, [("waiting-bind", "error")]),
        (GANG, UNSCORED, [("no-binder", "error")]),
        (WAIT, UNSCORED, [("no-binder", "error")]),
    ],
    ids=[
        *["all", "no bind", "ignorable", "best effort", "audit", "bind clause"],
        *[
            "sum at binding",
            "sum that is checked",
            "score",
            "preference",
            "no score",
            "managed",
            "cards",
            "cards without bind",
            "cards of an ignorable",
            "gang with time",
            "gang in the time of filter",
            "gang without bind",
            "wait without bind",
        ],
    ],
)
def test_policies_say_what_they_need(
    tmp_path: Path, policy: str, entry: Json, expected: list[tuple[str, str]]
) -> None:
    file = tmp_path / "a.policy"
    file.write_text(policy, encoding="utf-8")
    findings = found(json.dumps(configuration(entry)), read_requirements([file]))
    codes = [(code, severity) for code, _, severity in findings]
    assert codes == expected


def manifest(*flags: str) -> tuple[str, str]:
    """Return the manifest of a kube-scheduler with its name."""
    container = {"command": ["kube-scheduler", *flags]}
    return "m.yaml", json.dumps({"kind": "Pod", "spec": {"containers": [container]}})


def found_beside(flags: list[str], config: Json) -> list[tuple[str, str]]:
    """Return code and severity of each finding about a configuration beside a manifest."""
    texts = [("s.yaml", json.dumps(config)), manifest("--config=s.yaml", *flags)]
    (read,) = configurations(texts)
    findings = examine(ConfigurationContext(read, *placets(read.extenders), 5.0))
    return [(diagnostic.code, diagnostic.severity) for diagnostic, _ in findings]


@pytest.mark.parametrize(
    ("flags", "config", "expected"),
    [
        (["--v=2", "--leader-elect"], configuration(), []),
        (["--kubeconfig=k"], configuration(), [("flag", "warning")]),
        (["--kubeconfig=k"], configuration(clientConnection={"kubeconfig": "k"}), []),
        (["--leader-elect-resource-name=placet"], configuration(), [("placets-lease", "error")]),
        (
            ["--leader-elect=false"],
            configuration(leaderElection={"resourceName": "placet", "retryPeriod": "-1s"}),
            [],
        ),
    ],
)
def test_flags_of_a_manifest(
    flags: list[str], config: Json, expected: list[tuple[str, str]]
) -> None:
    assert found_beside(flags, config) == expected


def test_a_policy_of_a_flag_is_to_be_converted() -> None:
    with pytest.raises(CommandError, match="started without `--config`") as raised:
        configurations([manifest("--policy-config-file=p.json")])
    assert "of a Policy with its `--from FILE`" in (raised.value.hint or "")


def test_only_the_first_document_is_read() -> None:
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    first, second = configurations([("s.yaml", f"# a\n---\n{head}---\n{head}")])
    codes = [
        [d.code for d, _ in examine(ConfigurationContext(read, (), "", 5.0))]
        for read in (first, second)
    ]
    assert "text" not in codes[0]
    assert codes[1] == ["text"]


def test_nothing_is_said_of_plugins() -> None:
    """kube-scheduler itself knows them; `--kube-scheduler` asks it."""
    plugins = {"score": {"enabled": [{"name": "Mine"}]}, "mine": 5}
    config = [{"name": "Mine", "args": {"a": 1}}]
    text = json.dumps(configuration(profiles=[{"plugins": plugins, "pluginConfig": config}]))
    assert found(text) == []


@pytest.mark.parametrize(
    ("scheduler", "lease", "expected"),
    [
        ("second", "placet", "second"),
        ("placet", "placet", "placet-scheduler"),
        ("guard", "guard", "guard-scheduler"),
        ("placet", "guard", "placet-scheduler"),
    ],
)
def test_a_second_scheduler_is_not_told_to_take_placets_lease(
    scheduler: str, lease: str, expected: str
) -> None:
    text = json.dumps(configuration(profiles=[{"schedulerName": scheduler}]))
    (read,) = configurations([("s.yaml", text)])
    context = ConfigurationContext(read, *placets(read.extenders), 5.0, lease=("shop", lease))
    (finding,) = [diagnostic for diagnostic, _ in examine(context)]
    assert finding.code == "shared-lease"
    assert finding.hint == f"write `resourceName: {expected}` there"


@pytest.mark.parametrize(
    ("policy", "expected", "on_page"),
    [
        (STRICT, ["error"], "With strict counts, put Placet **last**."),
        (None, ["warning"], "With strict counts, put Placet **last**."),
        (
            STRICT.replace("strict }", "weight 1 }"),
            [],
            "`placet doctor` says nothing then.",
        ),
    ],
    ids=["strict", "unknown", "best effort"],
)
def test_advice_about_a_later_filter_is_that_of_the_page(
    tmp_path: Path, policy: str | None, expected: list[str], on_page: str
) -> None:
    needs = None
    if policy is not None:
        (tmp_path / "a.policy").write_text(policy, encoding="utf-8")
        needs = read_requirements([tmp_path / "a.policy"])
    text = json.dumps(configuration(OURS | BIND, OTHER | {"filterVerb": "f"}))
    told = [d for d, _ in examined(text, needs) if d.code == "later-filter"]
    assert [diagnostic.severity for diagnostic in told] == expected
    page = (DOCS / "coming-from.md").read_text(encoding="utf-8")
    assert on_page in page
    for diagnostic in told:
        assert (diagnostic.hint or "").startswith("put `extenders[0]` last")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (UNSCORED, ours("filterVerb", "preemptVerb"), []),
        (OURS, ours("filterVerb"), ["asked-twice"]),
        (OURS, OURS, ["asked-twice"]),
    ],
    ids=["verbs of its own", "two verbs", "all verbs"],
)
def test_two_extenders_with_one_url(first: Json, second: Json, expected: list[str]) -> None:
    """The page: `two extenders have Placet's URL and a common verb`."""
    text = json.dumps(configuration(first, second))
    told = [d.code for d, _ in examined(text) if d.code in ("asked-twice", "later-filter")]
    assert told == expected


def test_of_a_policy_its_version_is_told() -> None:
    """Any case will do, and times are nanoseconds; what else it says is not read any more."""
    entry = {name.lower(): value for name, value in ours(httpTimeout=5 * 10**9).items()}
    policy = {"kind": "Policy", "apiVersion": "v1", "extenders": [entry], "predicates": []}
    assert found(json.dumps(policy)) == [("version", "kind", "error")]
    entry |= {"httptimeout": "5 s", "wieght": 1, "enableHttps": True}
    assert found(json.dumps(policy)) == [("version", "kind", "error")]
    (read,) = configurations([("p.json", json.dumps(policy))])
    assert placets(read.extenders)[0][0].filter_verb == "filter"


@pytest.mark.parametrize(
    "text",
    [
        "extenders: [1, null, [], {urlPrefix: 5, tlsConfig: 1, managedResources: [1, {name: 2}]}]",
        "extenders: x\nprofiles: 5\nleaderElection: 5\npercentageOfNodesToScore: x",
        "profiles: [1, {schedulerName: 5}]\nextenders: [{httpTimeout: 1e400, weight: .inf}]",
        "extenders: &a [{urlPrefix: h}, *a]",
        "extenders: [{urlPrefix: 'http://[', filterVerb: '////', httpTimeout: 99999999999999h}]",
    ],
)
def test_nonsense_is_told_as_findings(text: str) -> None:
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    assert found(head + text) != []


def test_every_finding_is_documented() -> None:
    page = section("operations", "placet doctor")
    assert [
        code
        for code in (*OF_ALL, *OF_OURS, *OF_ENTRIES, *OF_FIELDS, "probe", "kube-scheduler")
        if f"`{code}`" not in page
    ] == []
