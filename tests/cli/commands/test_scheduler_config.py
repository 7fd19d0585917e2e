"""`placet scheduler-config`: every field of an extender, why it is so, and what is refused."""

import base64
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from engine.objects.gate import GATE
from tests.cli.conftest import Placet

ROOT = Path(__file__).parents[3]
GANG = """policy ml {
  for pods where true
  gang "jobs" { of pods by peer.labels["job"] at least 3 for at most 2m }
}"""


def entry(placet: Placet, *arguments: str) -> dict[str, Any]:
    """Return the one extender that is written."""
    done = placet("scheduler-config", *arguments)
    assert done.code == 0
    (written,) = yaml.safe_load(done.out)["extenders"]
    assert isinstance(written, dict)
    return written


@pytest.fixture
def tls(folder: Path) -> Path:
    """A folder with a CA, a certificate and its key."""
    authority = trustme.CA()
    certificate = authority.issue_cert("kube-scheduler")
    authority.cert_pem.write_to_path(folder / "ca.crt")
    certificate.cert_chain_pems[0].write_to_path(folder / "tls.crt")
    certificate.private_key_pem.write_to_path(folder / "tls.key")
    return folder


def test_default_is_a_whole_configuration(placet: Placet) -> None:
    done = placet("scheduler-config")
    assert yaml.safe_load(done.out) == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "extenders": [
            {
                "urlPrefix": "http://127.0.0.1:12345/api/scheduler",
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "preemptVerb": "preempt",
                "weight": 10,
                "httpTimeout": "5s",
                "nodeCacheCapable": True,
                "ignorable": False,
            }
        ],
    }


def test_section_is_the_end_of_it(placet: Placet) -> None:
    section = placet("scheduler-config", "--section").out
    assert yaml.safe_load(section).keys() == {"percentageOfNodesToScore", "extenders"}
    assert placet("scheduler-config").out.endswith(section)


def test_every_field_can_be_said(placet: Placet, tls: Path) -> None:
    written = entry(
        placet,
        *("--url", "https://10.96.0.50/api/scheduler", "--verbs", "bind, filter,prioritize"),
        *("--http-timeout", "1500ms", "--gate"),
        *("--ca", "ca.crt", "--client-cert", "tls.crt", "--client-key", "tls.key"),
        *("--server-name", "placet"),
    )
    data = {
        f"{name}Data": base64.b64encode((tls / file).read_bytes()).decode()
        for name, file in (("ca", "ca.crt"), ("cert", "tls.crt"), ("key", "tls.key"))
    }
    assert written == {
        "urlPrefix": "https://10.96.0.50/api/scheduler",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "bindVerb": "bind",
        "weight": 10,
        "enableHTTPS": True,
        "tlsConfig": {"serverName": "placet", **data},
        "httpTimeout": "1.5s",
        "nodeCacheCapable": True,
        "managedResources": [{"name": GATE}],
        "ignorable": False,
    }


def test_tls_files_can_be_named_instead(placet: Placet) -> None:
    """They are on another machine, and need not be here."""
    names = ("--ca", "/pki/ca.crt", "--client-cert", "/pki/c.crt", "--client-key", "/pki/c.key")
    written = entry(placet, "--url", "https://10.0.0.1", "--tls-paths", *names)
    assert written["tlsConfig"] == {
        "caFile": "/pki/ca.crt",
        "certFile": "/pki/c.crt",
        "keyFile": "/pki/c.key",
    }


def test_second_scheduler_has_a_name_and_a_lease_of_its_own(placet: Placet) -> None:
    done = placet(
        "scheduler-config", "--scheduler-name", "second", "--scheduler-kubeconfig", "/etc/k.conf"
    )
    written = yaml.safe_load(done.out)
    assert written["clientConnection"] == {"kubeconfig": "/etc/k.conf"}
    assert written["leaderElection"] == {"leaderElect": True, "resourceName": "second"}
    assert written["profiles"] == [{"schedulerName": "second"}]


def test_a_scheduler_called_placet_does_not_get_placets_lease(placet: Placet) -> None:
    done = placet("scheduler-config", "--scheduler-name", "placet")
    written = yaml.safe_load(done.out)
    assert written["leaderElection"]["resourceName"] == "placet-scheduler"
    assert written["profiles"] == [{"schedulerName": "placet"}]


def test_reasons_are_a_line_each_above_their_field(placet: Placet) -> None:
    done = placet("scheduler-config", "--gate", "--scheduler-name", "x")
    lines = done.out.splitlines()
    assert all(len(line) <= 100 for line in lines)
    reasons = [(a, b) for a, b in pairwise(lines) if a.lstrip().startswith("#")]
    assert len(reasons) >= 8
    for reason, field in reasons:
        assert re.match(r" *# \S", reason), reason
        assert re.match(r" *[a-zA-Z]+:", field), field
        assert reason.index("#") == len(field) - len(field.lstrip())


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--url", "127.0.0.1:12345"), "`127.0.0.1:12345` is not a URL of a server"),
        (("--url", "https://10.0.0.1"), "without a CA kube-scheduler trusts any server"),
        (("--tls-paths", "--ca", "/ca.crt"), "the URL begins with `http:`"),
        (("--verbs", "filter,score"), "`score` is not a verb of an extender"),
        (("--verbs", ""), "`` is not a verb of an extender"),
        (("--http-timeout", "0s"), "`0s` must be greater than 0"),
        (("--url", "https://10.0.0.1", "--ca", "missing.crt"), "cannot read `missing.crt`"),
        (("--url", "https://10.0.0.1", "--ca", "no.crt"), "a certificate or key is not in PEM"),
        (("--section", "--scheduler-name", "x"), "`--section` does not work with"),
        (("--bind-http-timeout", "0s"), "`0s` must be greater than 0"),
        (("--url", "https://10.0.0.1", "--ca", "empty.crt"), "`empty.crt` is empty"),
        (("--policies", "none.policy"), "none.policy"),
        (
            ("--policies", "gang.policy", "--bind-http-timeout", "2m"),
            "a binding take up to 125 s, longer than `--bind-http-timeout 120s`",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_work_is_refused(
    placet: Placet, folder: Path, arguments: tuple[str, ...], error: str
) -> None:
    (folder / "gang.policy").write_text(GANG, encoding="utf-8")
    (folder / "no.crt").write_text("no certificate", encoding="utf-8")
    (folder / "empty.crt").touch()
    done = placet("scheduler-config", *arguments)
    assert (done.code, done.out) == (2, "")
    assert error in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--verbs", "filter,prioritize,preempt,bind"),
        ("--http-timeout", "30s"),
        ("--url", "https://10.96.0.50:443/api/scheduler", "--ca", "ca.crt"),
        ("--scheduler-name", "second"),
        ("--scheduler-name", "placet"),
        ("--bind-http-timeout", "10m"),
        ("--policies", "gang.policy"),
        ("--policies", "gang.policy", "--url", "https://10.96.0.50", "--ca", "ca.crt"),
    ],
    ids=" ".join,
)
def test_doctor_finds_nothing_in_it(placet: Placet, tls: Path, arguments: tuple[str, ...]) -> None:
    (tls / "gang.policy").write_text(GANG, encoding="utf-8")
    text = placet("scheduler-config", *arguments).out
    served = arguments[1] if arguments[:1] == ("--http-timeout",) else "5s"
    waits = {"--bind-http-timeout", "--policies"} & {*arguments}
    binds = ["--bind"] if "--verbs" in arguments or waits else []
    done = placet("doctor", "--strict", "--http-timeout", served, *binds, "-", stdin=text)
    assert done.err == ""
    assert done.code == 0
    assert done.out.endswith("no problems found\n")


@pytest.mark.parametrize("form", [(), ("--section",)])
def test_placets_side_of_a_bind_verb_is_told(placet: Placet, form: tuple[str, ...]) -> None:
    done = placet("scheduler-config", *form, "--verbs", "filter,bind")
    assert done.err == (
        "start Placet with: placet serve --bind\n"
        "give it the right to bind with: kubectl apply -f deploy/rbac/bind/placet.yaml\n"
    )
    told = "    # at most one extender may have it; needs `placet serve --bind`\n"
    assert told in done.out
    assert placet("scheduler-config", *form).err == ""
    if not form:
        named = placet("scheduler-config", "--scheduler-name", "second", "--verbs", "filter,bind")
        assert named.err.startswith("start Placet with: placet serve --bind --scheduler-name s")
        other = placet("scheduler-config", "--scheduler-name", "second")
        assert other.err == (
            "start Placet with: placet serve --scheduler-name second"
            " --scheduler-lease kube-system/second\n"
        )


APART = {
    "urlPrefix": "http://127.0.0.1:12345/api/scheduler",
    "bindVerb": "bind",
    "httpTimeout": "125s",
    "ignorable": False,
}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--policies", "gang.policy"), APART),
        (("--policies", "gang.policy", "--http-timeout", "2s"), APART | {"httpTimeout": "122s"}),
        (
            ("--policies", "gang.policy", "--bind-http-timeout", "10m"),
            APART | {"httpTimeout": "600s"},
        ),
        (("--bind-http-timeout", "125s"), APART),
        (("--bind-http-timeout", "125s", "--verbs", "filter,prioritize,preempt,bind"), APART),
        (("--bind-http-timeout", "125s", "--gate"), APART),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bindings_that_wait_have_an_entry_of_their_own(
    placet: Placet, folder: Path, arguments: tuple[str, ...], expected: dict[str, Any]
) -> None:
    (folder / "gang.policy").write_text(GANG, encoding="utf-8")
    done = placet("scheduler-config", *arguments)
    main, apart = yaml.safe_load(done.out)["extenders"]
    assert apart == expected
    assert "bindVerb" not in main
    assert {"filterVerb", "preemptVerb"} < main.keys()
    # Gangs score nothing.
    assert ("prioritizeVerb" in main) is ("--policies" not in arguments)
    assert done.err.startswith("start Placet with: placet serve --bind")


def test_the_entry_of_bind_has_the_connection_of_the_other(placet: Placet, tls: Path) -> None:
    done = placet(
        *("scheduler-config", "--url", "https://10.96.0.50", "--ca", "ca.crt"),
        *("--bind-http-timeout", "1m"),
    )
    main, apart = yaml.safe_load(done.out)["extenders"]
    assert apart == {
        "urlPrefix": "https://10.96.0.50",
        "bindVerb": "bind",
        "enableHTTPS": True,
        "tlsConfig": main["tlsConfig"],
        "httpTimeout": "60s",
        "ignorable": False,
    }
    alone = placet("scheduler-config", "--verbs", "bind", "--bind-http-timeout", "1m")
    assert len(yaml.safe_load(alone.out)["extenders"]) == 1


FILTER = 'filter "x" { require node.ready }'
SCORE = 'score "y" weight 1 { value node.ready }'
CARDS = """cards "gpu" {
  on node int(node.labels["card"]) of {"milli": 1000}
  take {"milli": 1000}
  index "example.com/index"
}"""


@pytest.mark.parametrize(
    ("clauses", "verbs"),
    [
        (FILTER, ["filter", "preempt"]),
        (f"{FILTER} {SCORE}", ["filter", "prioritize", "preempt"]),
        (f"{CARDS} {SCORE}", ["filter", "prioritize", "preempt", "bind"]),
        (CARDS, ["filter", "preempt", "bind"]),
    ],
)
def test_the_verbs_are_those_that_policies_need(
    placet: Placet, folder: Path, clauses: str, verbs: list[str]
) -> None:
    """What is written has no problem in the eyes of `placet doctor` with the same policies."""
    (folder / "a.policy").write_text(f"policy a {{ for pods where true {clauses} }}", "utf-8")
    written = entry(placet, "--policies", "a.policy")
    assert [key.removesuffix("Verb") for key in written if key.endswith("Verb")] == verbs
    assert ("weight" in written) is ("prioritize" in verbs)
    text = placet("scheduler-config", "--policies", "a.policy").out
    (folder / "written.yaml").write_text(text, encoding="utf-8")
    binds = ["--bind"] if "bind" in verbs else []
    done = placet("doctor", "written.yaml", "--policies", "a.policy", "--strict", *binds)
    assert done.code == 0
    assert done.out.endswith("\nno problems found\n")


def test_verbs_that_are_given_are_written(placet: Placet, folder: Path) -> None:
    (folder / "a.policy").write_text(f"policy a {{ for pods where true {FILTER} }}", "utf-8")
    done = placet("scheduler-config", "--policies", "a.policy", "--verbs", "filter,prioritize")
    assert done.out == placet("scheduler-config", "--verbs", "filter,prioritize").out


def test_a_conversion_adds_the_entry_of_bind(placet: Placet, folder: Path) -> None:
    (folder / "gang.policy").write_text(GANG, encoding="utf-8")
    done = placet(
        *("scheduler-config", "--from", "-", "--policies", "gang.policy"),
        stdin='{"predicates": []}',
    )
    assert len(yaml.safe_load(done.out)["extenders"]) == 2


def test_page_shows_what_is_written(placet: Placet) -> None:
    page = (ROOT / "docs" / "extender.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"(?ms)^```yaml\n(.*?)^```", page)
    assert shown == placet("scheduler-config").out


@pytest.mark.parametrize("flag", ["--section", "--scheduler-name=x"])
def test_a_conversion_is_a_whole_configuration(placet: Placet, folder: Path, flag: str) -> None:
    (folder / "old.json").write_text('{"predicates": []}', encoding="utf-8")
    done = placet("scheduler-config", "--from", "old.json", flag)
    assert (done.code, done.out) == (2, "")
    assert f"`{flag.partition('=')[0]}` does not work with `--from`" in done.err


def test_a_conversion_adds_placet_where_there_is_no_extender(placet: Placet) -> None:
    url = "http://127.0.0.1:1/api/scheduler"
    done = placet("scheduler-config", "--from", "-", "--url", url, stdin='{"predicates": []}')
    assert yaml.safe_load(done.out)["extenders"][0]["urlPrefix"] == url
    assert "note: it has no extenders: Placet is added\n" in done.err


def test_several_configurations_are_not_converted(placet: Placet) -> None:
    done = placet("scheduler-config", "--from", "-", stdin="predicates: []\n---\npredicates: []")
    assert (done.code, done.out) == (2, "")
    assert "there are 2 configurations" in done.err
