"""Requests and limits of pods, compared with kube-scheduler's own code."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.objects.codec import ObjectCodec
from engine.objects.resources import (
    PodRequests,
    pod_limits,
    pod_requests,
    total_requests,
)
from grammar.meaning.schema import load_schema
from grammar.values.quantity import Quantity, Resources

TESTS = Path(__file__).parents[2]
# Written by tests/support/schema/requests with the Go code that kube-scheduler 1.36 runs.
CASES_FILE = TESTS / "contract" / "pod_resources.json"
CASES: list[dict[str, Any]] = json.loads(CASES_FILE.read_text("utf-8"))


def quantities(amounts: dict[str, str]) -> dict[str, Quantity]:
    return {name: Quantity.parse(text) for name, text in amounts.items()}


@pytest.fixture(scope="module")
def codec() -> ObjectCodec:
    return ObjectCodec(load_schema())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_sums_equal_those_of_kube_scheduler(codec: ObjectCodec, case: dict[str, Any]) -> None:
    data = msgspec.json.encode(case["pod"])
    for pod in (codec.pod(data), codec.peer(data)):
        assert pod.requests == quantities(case["requests"])
        assert pod.limits == quantities(case["limits"])


def test_a_pod_without_a_spec_has_no_requests() -> None:
    assert pod_requests(None, None) == {}
    assert pod_limits(None, None) == {}


def test_the_quantities_of_the_object_do_not_change(codec: ObjectCodec) -> None:
    container = {"resources": {"requests": {"cpu": "1"}}}
    pod = codec.pod(
        msgspec.json.encode(
            {
                "spec": {
                    "containers": [container, container],
                    "initContainers": [container | {"restartPolicy": "Always"}],
                    "overhead": {"cpu": "5"},
                }
            }
        )
    )
    assert pod.requests == quantities({"cpu": "8"})
    assert pod.spec.containers[0].resources.requests == quantities({"cpu": "1"})
    assert pod.spec.overhead == quantities({"cpu": "5"})


def test_an_absent_resource_is_zero() -> None:
    amounts = Resources(quantities({"cpu": "1"}))
    assert amounts["memory"] == Quantity.parse("0")
    assert "memory" not in amounts
    assert len(amounts) == 1


def test_a_pod_takes_one_pod_without_a_request() -> None:
    requests = PodRequests()
    assert requests["pods"] == Quantity.parse("1")
    assert requests["cpu"] == Quantity.parse("0")
    assert not requests


def test_totals_count_the_pods() -> None:
    pods = [
        PodRequests(quantities({"cpu": "100m"})),
        PodRequests(quantities({"cpu": "1", "a/b": "2"})),
    ]
    assert total_requests(pods) == quantities({"cpu": "1100m", "a/b": "2", "pods": "2"})
    assert total_requests([]) == quantities({"pods": "0"})


@pytest.mark.e2e
def test_the_recorded_sums_are_those_of_go() -> None:
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        pytest.skip("needs Go")
    with CASES_FILE.open("rb") as cases:
        command = [go, "run", "./requests"]
        folder = TESTS / "support" / "schema"
        printed = subprocess.run(command, cwd=folder, check=True, capture_output=True, stdin=cases)
    assert printed.stdout == CASES_FILE.read_bytes()
