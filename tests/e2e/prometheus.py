"""A Prometheus that scrapes one Placet, for as long as a block runs."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.e2e.process import running
from tests.e2e.waiting import answers_ok, free_port

READY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running Prometheus, asked over HTTP."""

    port: int

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series of an expression now; fail where Prometheus does not evaluate it."""
        result: list[dict[str, Any]] = self._get("query", query=expression)["result"]
        return result

    def rules(self) -> list[dict[str, Any]]:
        """Return the alerts with their health and what they found."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def _get(self, path: str, **arguments: str) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urlencode(arguments)}"
        with urlopen(url, timeout=60) as response:
            answer: dict[str, Any] = json.load(response)
        assert answer["status"] == "success", answer
        data: dict[str, Any] = answer["data"]
        return data


@contextmanager
def prometheus(program: Path, folder: Path, target: int, rules: Path) -> Iterator[Prometheus]:
    """Scrape the target's port each second, and evaluate a file of rules as often."""
    labels = {"job": "placet", "namespace": "kube-system"}
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [
            {
                "job_name": "placet",
                "static_configs": [{"targets": [f"127.0.0.1:{target}"], "labels": labels}],
            }
        ],
    }
    file = folder / "prometheus.yaml"
    file.write_text(json.dumps(configuration))
    port = free_port()
    command: list[str | Path] = [
        program,
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'prometheus'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    with running(command, folder / "prometheus.log") as process:
        process.wait_ready(lambda: answers_ok(port, "/-/ready"), READY_SECONDS)
        yield Prometheus(port)
