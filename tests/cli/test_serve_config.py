"""The configuration of `placet serve`: a file, variables and flags, in this order of precedence."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from cli.command import CommandError
from cli.placet_configuration import FIELDS, placet_configuration
from engine.cluster.connection_configuration import own_namespace
from tests.cli.conftest import Placet
from tests.support.books import section
from tests.support.configuration_schema import schema, text

HEAD = "apiVersion: placet.dev/v1alpha1\nkind: PlacetConfiguration\n"


@pytest.fixture
def file(folder: Path) -> Path:
    return folder / "placet.yaml"


def printed(placet: Placet, *arguments: str) -> dict[str, str]:
    """Where each value is from, by `field: value`."""
    done = placet("serve", *arguments, "--print-config")
    assert (done.code, done.err) == (0, "")
    lines = (line.partition("  # ") for line in done.out.splitlines()[2:])
    return {value: origin for value, _, origin in lines}


def test_a_flag_comes_before_a_variable_before_the_file_before_the_default(
    placet: Placet, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "httpTimeout: 1s\nlameduck: 1s\nmaxInFlight: 7\nstandby: true\npolicies: [a, b]\n"
    file.write_text(HEAD + text)
    for name, value in (("HTTP_TIMEOUT", "2s"), ("LAMEDUCK", "2s"), ("STANDBY", "false")):
        monkeypatch.setenv(f"PLACET_{name}", value)
    monkeypatch.setenv("PLACET_CLIENT_NAME", "a,b")
    found = printed(placet, "--lameduck", "3s", "--config", "placet.yaml", "--policies", "c", "d")
    assert found['lameduck: "3s"'] == "flag --lameduck"
    assert found['httpTimeout: "2s"'] == "variable PLACET_HTTP_TIMEOUT"
    assert found["standby: false"] == "variable PLACET_STANDBY"
    assert found['clientName: ["a", "b"]'] == "variable PLACET_CLIENT_NAME"
    assert found["maxInFlight: 7"] == "placet.yaml:5"
    assert found['policies: ["c", "d"]'] == "flag --policies"
    assert found['bodyLimit: "64Mi"'] == "default"


def test_what_is_printed_is_a_configuration_that_says_the_same(placet: Placet, file: Path) -> None:
    first = placet("serve", "--listen", ":9", "-v", "--policies", "x", "--print-config")
    file.write_text(first.out)
    again = placet("serve", "--config", "placet.yaml", "--print-config")
    assert yaml.safe_load(again.out) == yaml.safe_load(first.out)
    assert yaml.safe_load(again.out)["verbose"] is True


def test_the_page_shows_what_is_printed(placet: Placet, file: Path) -> None:
    page = section("operations", "The configuration of placet serve")
    (text,) = re.findall(r"(?ms)^```yaml\n(.*?)^```$", page)
    ((command, shown),) = re.findall(r"(?ms)^```console\n\$ placet ([^\n]+)\n(.*?)^```$", page)
    file.write_text(text)
    printing, _, filtering = command.partition(" | ")
    assert filtering == "grep -v '# default'"
    lines = placet(*shlex.split(printing)).out.splitlines()
    assert [line for line in lines if not line.endswith("  # default")] == shown.splitlines()


SCHEMA = Path(__file__).parents[2] / "deploy" / "editors" / "placet-configuration.schema.json"
VALUES: tuple[object, ...] = (
    *(True, False, None, 0, 1, 7, 12345, 0.5, -1, [], ["a"], ["a", "b"], [1], {}),
    *("", "0", "7", "-7", "5s", "1h30m", ".5s", "+5µs", "2w", "-5s", "5", "64Mi", "text", "none"),
    *("127.0.0.1:9", ":9", "kube-system/placet", "one two"),
)


@pytest.mark.skipif(own_namespace() != "kube-system", reason="defaults name the pod's namespace")
def test_the_schema_that_ships_has_all_fields() -> None:
    """`make schema` writes it."""
    assert text() == SCHEMA.read_text(encoding="utf-8")


def test_the_schema_takes_what_is_valid_and_no_misspelt_field(placet: Placet) -> None:
    validator = jsonschema_rs.validator_for(dict(schema()))
    page = section("operations", "The configuration of placet serve")
    page_of_schema = section("operations", "The schema for editors")
    (text,) = re.findall(r"(?ms)^```yaml\n(.*?)^```$", page)
    valid = yaml.safe_load(text)
    assert validator.is_valid(valid)
    assert validator.is_valid(yaml.safe_load(placet("serve", "--print-config").out))
    (lined,) = re.findall(r"(?ms)^```yml\n(# yaml-language-server: .*?)^```$", page_of_schema)
    assert validator.is_valid(yaml.safe_load(lined))
    assert not validator.is_valid({**valid, "httpTimeuot": "1s"})
    assert not validator.is_valid({**valid, "kind": "PlacetConfig"})
    assert not validator.is_valid({"httpTimeout": "1s"})


@pytest.mark.process
def test_the_schema_refuses_no_value_that_is_taken(file: Path) -> None:
    """And refuses most of the others: a type, a unit or a choice."""
    validator = jsonschema_rs.validator_for(dict(schema()))
    head = yaml.safe_load(HEAD)
    seen = {(taken, valid): 0 for taken in (True, False) for valid in (True, False)}
    for flag in FIELDS:
        for value in VALUES:
            file.write_text(f"{HEAD}{flag.field}: {json.dumps(value)}\n")
            try:
                placet_configuration(["--config", str(file)], {})
                taken = True
            except CommandError:
                taken = False
            valid = validator.is_valid({**head, flag.field: value})
            assert valid or not taken, (flag.field, value)
            seen[taken, valid] += 1
    assert seen[False, False] > 2 * seen[False, True]


def test_the_fields_are_checked_together(placet: Placet, file: Path) -> None:
    """What is said of them names the flags."""
    file.write_text(f"{HEAD}demo: true\nnoCluster: true\n")
    done = placet("serve", "--config", "placet.yaml")
    assert done.code == 2
    assert "error: --demo and --no-cluster each name a cluster\n" in done.err


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "httpTimeuot: 5s\n",
            "PlacetConfiguration has no field `httpTimeuot` (placet.yaml:3)",
            "a similar one exists: `httpTimeout`",
        ),
        (
            "httpTimeout: 5 minutes\n",
            "`httpTimeout` (placet.yaml:3) is not valid: `5 minutes` is not a duration:",
            "see placet serve --help-all",
        ),
        (
            "logFormat: xml\n",
            "`logFormat` (placet.yaml:3) is not valid: `xml` is not one of text, json",
            "see placet serve --help-all",
        ),
        (
            "policies: a\n",
            "`policies` (placet.yaml:3) is not a list of texts",
            'write `policies: ["…"]`',
        ),
        (
            "standby: yes please\n",
            "`standby` (placet.yaml:3) is not `true` or `false`",
            "write `standby: true`",
        ),
        (
            "listen: [a]\n",
            "`listen` (placet.yaml:3) is not one text or number",
            "write one, in quotes if in doubt",
        ),
        ("lameduck: 1s\nlameduck: 2s\n", "`lameduck` is in `placet.yaml` twice", "remove one"),
        ("config: other.yaml\n", "PlacetConfiguration has no field `config`", "see placet serve"),
    ],
)
def test_mistakes_in_the_file(
    placet: Placet, file: Path, text: str, message: str, hint: str
) -> None:
    file.write_text(HEAD + text)
    done = placet("serve", "--config", "placet.yaml")
    assert done.code == 2
    assert f"error: {message}" in done.err
    assert f"= help: {hint}" in done.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "`placet.yaml` is not one PlacetConfiguration"),
        ("kind: PlacetConfiguration\n", "`apiVersion` of `placet.yaml` is missing"),
        (HEAD.replace("v1alpha1", "v2"), "`apiVersion` of `placet.yaml` is `placet.dev/v2`"),
        ("a: [", "`placet.yaml` is neither YAML nor JSON"),
    ],
)
def test_other_files(placet: Placet, file: Path, text: str, message: str) -> None:
    file.write_text(text)
    done = placet("serve", "--config", "placet.yaml")
    assert done.code == 2
    assert f"error: {message}" in done.err


def test_mistakes_in_variables(placet: Placet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACET_STANDBY", "maybe")
    done = placet("serve", "--no-cluster")
    assert "error: `PLACET_STANDBY` is not valid: `maybe` is not `true` or `false`" in done.err
    monkeypatch.setenv("PLACET_STANDBY", "")
    monkeypatch.setenv("PLACET_LISTEN", "nowhere")
    done = placet("serve", "--no-cluster")
    assert "error: `PLACET_LISTEN` is not valid: `nowhere` is not an address" in done.err


def test_variables_of_a_service_are_not_ours() -> None:
    """Kubernetes sets these in each pod of a namespace with a Service `placet`."""
    names = ("PLACET_SERVICE_HOST", "PLACET_SERVICE_PORT", "PLACET_PORT", "PLACET_PORT_443_TCP")
    found = placet_configuration([], dict.fromkeys(names, "tcp://10.0.0.1:443"))
    assert found.given == {}


def test_every_flag_of_the_command_is_a_field() -> None:
    fields = {flag.field for flag in FIELDS}
    assert {"listen", "policies", "kubeconfig", "viewPort", "clientName", "verbose"} <= fields
    assert fields.isdisjoint({"config", "printConfig"})
