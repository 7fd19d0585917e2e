"""Extenders that others wrote, held to the contract: `make others OTHERS=FOLDER`.

The folder has their programs, built from the commits in `docs/conformance.md`. Each finding that is
expected here was confirmed in the source of the program.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import trustme

from cli.main import main
from tests.e2e.placet import placet
from tests.e2e.process import free_port

FOLDER = Path(os.environ.get("OTHERS") or "/nonexistent")
CLUSTERS = Path(__file__).with_name("others")

pytestmark = pytest.mark.process

Found = dict[str, tuple[str, list[str]]]


def held(name: str, capsys: pytest.CaptureFixture[str], url: str, start: str, *more: str) -> Found:
    """The lines that failed or warn, each with the cases that did."""
    program = FOLDER / name
    if not program.is_file():
        pytest.skip(f"there is no `{program}`: see docs/conformance.md")
    command = start.replace("PROGRAM", str(program))
    cluster = str(CLUSTERS / f"{name}.yaml")
    arguments = ["--cluster", cluster, "--start", command, "--idle", "1", "-o", "json", *more]
    main(["conformance", url, *arguments])
    document = json.loads(capsys.readouterr().out)
    found: Found = {}
    for line in document["contracts"]:
        if line["result"] in ("fail", "warn"):
            severity = {"fail": "error", "warn": "warning"}[line["result"]]
            said = [d for d in document["diagnostics"] if d["code"] == line["id"]]
            cases = [d["message"].partition(": ")[0] for d in said if d["severity"] == severity]
            found[line["id"]] = (line["result"], cases)
    return found


def test_topolvm_scheduler(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "config").write_text(f'listen: "127.0.0.1:{port}"\ndefault-divisor: 1\n')
    found = held(
        "topolvm",
        capsys,
        f"http://127.0.0.1:{port}",
        f"PROGRAM --config {tmp_path / 'config'}",
        *("--verbs", "filter=predicate,prioritize"),
    )
    large = ["1500 nodes of 12 KiB, 18 MB", "1500 nodes of 12 KiB to prioritize"]
    assert found["C7"] == ("fail", large)
    assert found.keys() <= {"C7", "C20", "C48"}


@pytest.mark.parametrize("name", ["gas", "tas"])
def test_platform_aware_scheduling(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    authority = trustme.CA()
    server, client = authority.issue_cert("127.0.0.1"), authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    for part, made in (("server", server), ("client", client)):
        made.cert_chain_pems[0].write_to_path(str(tmp_path / f"{part}.crt"))
        made.private_key_pem.write_to_path(str(tmp_path / f"{part}.key"))
    port = free_port()
    files = {part: str(tmp_path / part) for part in ("ca.crt", "client.crt", "client.key")}
    found = held(
        name,
        capsys,
        f"https://127.0.0.1:{port}/scheduler",
        f"PROGRAM --kubeConfig {{kubeconfig}} --port {port} --cacert {tmp_path}/ca.crt "
        f"--cert {tmp_path}/server.crt --key {tmp_path}/server.key",
        *("--cert", files["client.crt"], "--key", files["client.key"]),
        *(["--node-cache-capable", "--verbs", "filter,bind"] if name == "gas" else []),
        *(["--verbs", "filter,prioritize"] if name == "tas" else []),
    )
    if name == "gas":
        assert found["C45"] == ("fail", ["the same call again"])
        assert found.keys() <= {"C3", "C45", "C48"}
    else:
        assert found.keys() <= {"C20"}


def test_gpushare(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    found = held(
        "gpushare",
        capsys,
        f"http://127.0.0.1:{port}/gpushare-scheduler",
        f"env PORT={port} THREADNESS=1 PROGRAM",
        *("--node-cache-capable", "--verbs", "filter,bind"),
    )
    assert found["C45"] == ("fail", ["the same call again"])
    assert found.keys() <= {"C3", "C45", "C48"}


def test_hami(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """It answers filter when it has looked at the nodes, up to 15 s after it listens."""
    port, metrics = free_port(), free_port()
    devices = tmp_path / "devices.yaml"
    devices.write_text(
        "nvidia: {resourceCountName: nvidia.com/gpu, resourceMemoryName: nvidia.com/gpumem,\n"
        "  defaultGPUNum: 1}\n"
    )
    url, verbs = f"http://127.0.0.1:{port}", ("--node-cache-capable", "--verbs", "filter,bind")
    start = (
        f"PROGRAM --http_bind 127.0.0.1:{port} --metrics-bind-address 127.0.0.1:{metrics} "
        f"--device-config-file {devices}"
    )
    result, cases = held("hami", capsys, url, start, *verbs, "--only", "C1")["C1"]
    assert (result, cases[0]) == ("fail", "filter is answered")
    patient = ("--only", "C1,C19,C22,C45", "--http-timeout", "20")
    found = held("hami", capsys, url, start, *verbs, *patient)
    assert found == {
        "C22": ("warn", ["parts are complete"]),
        "C45": ("fail", ["the same call again"]),
    }


def test_example(capsys: pytest.CaptureFixture[str]) -> None:
    """It listens at port 80, and its own configuration has these verbs."""
    found = held(
        "example",
        capsys,
        "http://127.0.0.1:80/scheduler",
        "PROGRAM",
        "--verbs",
        "filter=predicates/always_true,prioritize=priorities/zero_score,preempt=preemption",
    )
    assert found["C1"] == ("fail", ["preempt is answered"])
    assert found.keys() <= {"C1", "C20"}


def test_simulator(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """It passes calls on, here to a Placet whose scores are all 10, and listens at port 1212."""
    policy, script = tmp_path / "ten.policy", tmp_path / "start"
    policy.write_text(
        'cluster policy ten { for pods where true score "ten" weight 1 { value 100 } }'
    )
    snapshot = f"--cluster={CLUSTERS / 'simulator.yaml'}"
    with placet(tmp_path, policy, snapshot) as server:
        server.wait_ready()
        script.write_text(
            f"cat > {tmp_path}/scheduler.yaml <<END\n"
            "apiVersion: kubescheduler.config.k8s.io/v1\n"
            "kind: KubeSchedulerConfiguration\n"
            "clientConnection: {kubeconfig: $1}\n"
            f"extenders: [{{urlPrefix: 'http://127.0.0.1:{server.port}/api/scheduler', weight: 1,\n"
            "  filterVerb: filter, prioritizeVerb: prioritize, preemptVerb: preempt,\n"
            "  nodeCacheCapable: true}]\n"
            f"END\nexec {FOLDER / 'simulator'} --config {tmp_path}/scheduler.yaml\n"
        )
        found = held(
            "simulator",
            capsys,
            "http://127.0.0.1:1212/api/v1/extender",
            f"sh {script} {{kubeconfig}}",
            *("--node-cache-capable", "--verbs"),
            "filter=filter/0,prioritize=prioritize/0,preempt=preempt/0",
        )
    assert found == {"C27": ("fail", ["scores in their range"])}
