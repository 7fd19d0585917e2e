"""`placet doctor` and kube-scheduler agree about the configurations with which it does not start.

Of plugins and their arguments, of profiles and of times doctor says nothing, unless it asks
kube-scheduler. kube-scheduler validates a configuration and builds all of its plugins and extenders
before it looks for an API server, so none is there. DOCTOR_CASES, DOCTOR_CHANGED and DOCTOR_SEED
give more configurations, more changed files, and others.
"""

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from tests.e2e.placet import REPOSITORY
from tests.e2e.process import needs_known_fields
from tests.e2e.test_scheduler_config import read_by_kube_scheduler
from tests.support.generated_scheduler_configs import Certificates, Generator, changed_text
from tests.support.scheduler_configs import configuration

pytestmark = pytest.mark.e2e

CASES = int(os.environ.get("DOCTOR_CASES", "400"))
CHANGED = int(os.environ.get("DOCTOR_CHANGED", "100"))
SEED = int(os.environ.get("DOCTOR_SEED", "36"))
FILES = Path(__file__).parents[1] / "support" / "scheduler_files.yaml"
# What doctor says of a configuration with which kube-scheduler 1.36 does not start.
REFUSED = ("refuses to start", "does not read", "do not read", "reads only the first")
# What kube-scheduler says against that which doctor leaves to it, as files that are not here.
LEFT = re.compile(
    r"[Pp]lugin|stat |profiles|queueSort|scheduler name|leaderElection|podMaxBackoffSeconds"
    r"|[a-z]Args\b"
)
# As many files as one command line takes.
AT_ONCE = 500


def refusals(texts: Sequence[str], programs: Path, folder: Path) -> list[str | None]:
    """Return what kube-scheduler says against each configuration; None where it starts."""

    def refusal(number: int) -> str | None:
        own = folder / str(number)
        own.mkdir()
        understood = read_by_kube_scheduler(programs, own, texts[number])
        return understood if isinstance(understood, str) else None

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(refusal, range(len(texts))))


def doctor(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return placet("doctor", *arguments, folder=folder)


def placet(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Return how the command ended."""
    return subprocess.run(
        [sys.executable, "-m", "cli", *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def told(texts: Sequence[str], folder: Path) -> Iterator[list[str]]:
    """Yield what doctor says of each configuration: the message of each finding."""
    for start in range(0, len(texts), AT_ONCE):
        names = []
        for number, text in enumerate(texts[start : start + AT_ONCE], start):
            names.append(f"{number}.yaml")
            folder.joinpath(names[-1]).write_text(text, encoding="utf-8")
        done = doctor("-o", "json", *names, folder=folder)
        assert done.returncode in (0, 1), done.stderr
        document = json.loads(done.stdout)
        # A file in which there is no configuration is passed over if others have one.
        read = {each["file"] for each in document["placet"]}
        found = defaultdict(list)
        for each in document["diagnostics"]:
            found[each["file"]].append(each["message"])
        assert read == {*names}
        yield from (found[name] for name in names)


def compare(texts: Sequence[str], programs: Path, folder: Path) -> tuple[int, int]:
    """Return how many configurations start, and how many have no findings."""
    started = clean = 0
    asked = zip(texts, refusals(texts, programs, folder), told(texts, folder), strict=True)
    for text, refusal, messages in asked:
        refused = any(words in message for message in messages for words in REFUSED)
        is_left = refusal is not None and LEFT.search(refusal) is not None
        assert refused == (refusal is not None) or is_left, f"{refusal}\n{messages}\n{text}"
        started += refusal is None
        clean += not messages
    return started, clean


def generated(count: int) -> list[str]:
    generator = Generator(SEED, Certificates.new())
    return [generator.configuration() for _ in range(count)]


def published() -> list[dict[str, Any]]:
    files: list[dict[str, Any]] = yaml.safe_load(FILES.read_text(encoding="utf-8"))
    return files


def judged(texts: Sequence[str], folder: Path) -> list[str]:
    """Return what doctor says of each file that is an error."""

    def said(number: int) -> str:
        file = folder / f"{number}.yaml"
        file.write_text(texts[number], encoding="utf-8")
        done = doctor("-o", "json", file.name, folder=folder)
        if done.returncode == 2:
            return REFUSED[0]
        return "\n".join(each["message"] for each in json.loads(done.stdout)["diagnostics"])

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(said, range(len(texts))))


@needs_known_fields
def test_files_with_changed_lines(programs: Path, tmp_path: Path) -> None:
    """No file is said to start that does not, and hardly one is refused that starts."""
    random, wrong = Random(SEED), list[str]()
    files = [each["text"] for each in published()] + generated(len(published()))
    texts = [changed_text(random.choice(files), random) for _ in range(CHANGED)]
    refused = refusals(texts, programs, tmp_path)
    for text, refusal, said in zip(texts, refused, judged(texts, tmp_path), strict=True):
        # Of a second document doctor says that it is not read, whatever the first one is.
        refuses, of_second = (any(map(said.count, words)) for words in (REFUSED[:3], REFUSED[3:]))
        is_left = refusal is not None and LEFT.search(refusal) is not None
        assert refuses or of_second or refusal is None or is_left, f"{refusal}\n{text}"
        wrong += [text] if refuses and refusal is None else []
    assert len(wrong) <= CHANGED // 250, "\n=====\n".join(wrong)


@needs_known_fields
def test_generated_configurations(programs: Path, tmp_path: Path) -> None:
    started, clean = compare(generated(CASES), programs, tmp_path)
    # Neither kind is rare, or the comparison would say little.
    assert CASES // 5 < started < CASES * 4 // 5
    assert clean > CASES // 20


def test_published_configurations(programs: Path, tmp_path: Path) -> None:
    files = published()
    assert len(files) == 38
    started, _ = compare([each["text"] for each in files], programs, tmp_path)
    assert started == sum(each["starts"] for each in files)


def test_converted_configurations(programs: Path, tmp_path: Path) -> None:
    """What `scheduler-config --from` writes starts, or doctor says of it that it does not."""
    texts = [*(each["text"] for each in published()), *generated(24)]
    converted = list(filter(None, (convert(text, tmp_path) for text in texts)))
    started, _ = compare(converted, programs, tmp_path)
    # Many can be mended, or the comparison would say little.
    assert started > len(texts) // 5


def convert(text: str, folder: Path) -> str:
    """Return what `scheduler-config --from` makes of a configuration; nothing if it refuses it."""
    file = folder / "old.yaml"
    file.write_text(text, encoding="utf-8")
    return placet("scheduler-config", "--from", file.name, folder=folder).stdout


@needs_known_fields
def test_what_is_asked_of_kube_scheduler(programs: Path, tmp_path: Path) -> None:
    """In its own words, of each thing that doctor leaves to it."""
    fit, spread = "NodeResourcesFit", "PodTopologySpread"
    for profile, said in (
        ({"plugins": {"score": {"enabled": [{"name": "Mine"}]}}}, 'ScorePlugin "Mine" does not'),
        ({"plugins": {"filter": {"enabled": [{"name": "ImageLocality"}]}}}, "does not extend"),
        ({"plugins": {"bind": {"disabled": [{"name": "*"}]}}}, "at least one bind plugin"),
        ({"pluginConfig": [{"name": fit, "args": {"scoringStrategy": {"type": "M"}}}]}, "type"),
        ({"pluginConfig": [{"name": spread, "args": {"maxSkew": 1}}]}, "unknown field"),
        ({"schedulerName": ""}, "schedulerName"),
        ({}, ""),
    ):
        file = tmp_path / "s.yaml"
        file.write_text(json.dumps(configuration(profiles=[profile])), encoding="utf-8")
        program = ("--kube-scheduler", str(programs / "kube-scheduler"))
        done = doctor("-o", "plain", *program, file.name, folder=tmp_path)
        assert done.returncode == bool(said), f"{said}\n{done.stdout}{done.stderr}"
        assert said in done.stdout
        without = doctor("-o", "plain", file.name, folder=tmp_path)
        assert without.returncode == 0, without.stdout
    gone = doctor("--kube-scheduler", "/none", file.name, folder=tmp_path)
    assert gone.returncode == 2
    assert "`/none` cannot be asked: no such file or directory" in gone.stderr
