"""`placet doctor` and kube-scheduler agree about the configurations with which it starts.

kube-scheduler validates a configuration and builds all of its plugins and extenders before it looks
for an API server, so none is there. DOCTOR_CASES and DOCTOR_SEED give more configurations, and
others.
"""

import json
import os
import re
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.doctor.configuration_text import FLAGS
from cli.doctor.plugins import DEFAULTS, MULTI_POINT, POINTS, POINTS_OF
from cli.main import main
from tests.e2e.test_scheduler_config import read_by_kube_scheduler
from tests.support.generated_scheduler_configs import Certificates, Generator
from tests.support.scheduler_configs import configuration

pytestmark = pytest.mark.e2e

CASES = int(os.environ.get("DOCTOR_CASES", "400"))
SEED = int(os.environ.get("DOCTOR_SEED", "36"))
FILES = Path(__file__).parents[1] / "support" / "scheduler_files.yaml"
# What doctor says of a configuration with which kube-scheduler 1.36 does not start.
REFUSED = ("refuses to start", "does not read", "do not read")


def refusals(texts: Sequence[str], programs: Path, folder: Path) -> list[str | None]:
    """Return what kube-scheduler says against each configuration; None where it starts."""

    def refusal(number: int) -> str | None:
        own = folder / str(number)
        own.mkdir()
        understood = read_by_kube_scheduler(programs, own, texts[number])
        return understood[-400:] if isinstance(understood, str) else None

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(refusal, range(len(texts))))


def told(text: str, folder: Path) -> list[str]:
    """Return what doctor says of a configuration: the message of each finding."""
    file = folder / "told.yaml"
    file.write_text(text, encoding="utf-8")
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["doctor", "--format", "json", str(file)])
    assert code in (0, 1), err.getvalue()
    return [each["message"] for each in json.loads(out.getvalue())["findings"]]


def says_refused(messages: Sequence[str]) -> bool:
    return any(words in message for message in messages for words in REFUSED)


def test_generated_configurations(programs: Path, tmp_path: Path) -> None:
    generator = Generator(SEED, Certificates.new())
    texts = [generator.configuration() for _ in range(CASES)]
    started = clean = 0
    for text, refusal in zip(texts, refusals(texts, programs, tmp_path), strict=True):
        messages = told(text, tmp_path)
        assert says_refused(messages) == (refusal is not None), f"{refusal}\n{messages}\n{text}"
        started += refusal is None
        clean += not messages
    # Neither kind is rare, or the comparison would say little.
    assert CASES // 5 < started < CASES * 4 // 5
    assert clean > CASES // 20


def test_published_configurations(programs: Path, tmp_path: Path) -> None:
    files: list[dict[str, Any]] = yaml.safe_load(FILES.read_text(encoding="utf-8"))
    assert len(files) == 36
    asked = refusals([each["text"] for each in files], programs, tmp_path)
    for each, refusal in zip(files, asked, strict=True):
        assert (refusal is None) == each["starts"], (each["name"], refusal)
        messages = told(each["text"], tmp_path)
        assert says_refused(messages) != each["starts"], (each["name"], refusal, messages)


def test_fixed_configurations(programs: Path, tmp_path: Path) -> None:
    """What `--fix` writes starts, or doctor says of it that it does not."""
    generator = Generator(SEED, Certificates.new())
    files = yaml.safe_load(FILES.read_text(encoding="utf-8"))
    texts = [each["text"] for each in files]
    texts += [generator.configuration() for _ in range(CASES // 4)]
    fixed = [text for number, text in enumerate(texts) if (text := fix(text, number, tmp_path))]
    asked = refusals(fixed, programs, tmp_path)
    for text, refusal in zip(fixed, asked, strict=True):
        messages = told(text, tmp_path)
        assert says_refused(messages) == (refusal is not None), f"{refusal}\n{messages}\n{text}"
    # Most of what is not sound can be mended.
    assert sum(refusal is None for refusal in asked) > len(texts) // 3


def fix(text: str, number: int, folder: Path) -> str:
    """Return what `doctor --fix` makes of a configuration; nothing if it leaves it as it is."""
    file = folder / f"fix{number}.yaml"
    file.write_text(text, encoding="utf-8")
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        main(["doctor", "--fix", str(file)])
    found = file.read_text(encoding="utf-8")
    if found == text:
        return ""
    assert file.with_name(f"{file.name}.orig").read_text(encoding="utf-8") == text
    return found


def test_extension_points_of_every_plugin(programs: Path, tmp_path: Path) -> None:
    places = [(name, point) for name in POINTS_OF for point in (*POINTS, MULTI_POINT)]
    texts = [
        json.dumps(configuration(profiles=[{"plugins": {point: {"enabled": [{"name": name}]}}}]))
        for name, point in places
    ]
    works = [refusal is None for refusal in refusals(texts, programs, tmp_path)]
    assert works == [point == MULTI_POINT or point in POINTS_OF[name] for name, point in places]


def test_default_plugins(programs: Path, tmp_path: Path) -> None:
    understood = read_by_kube_scheduler(programs, tmp_path, json.dumps(configuration()))
    assert isinstance(understood, dict)
    plugins = understood["profiles"][0]["plugins"]["multiPoint"]["enabled"]
    assert {each["name"]: each.get("weight", 0) for each in plugins} == dict(DEFAULTS)


def test_flags(programs: Path) -> None:
    shown = subprocess.run(
        [programs / "kube-scheduler", "--help"], capture_output=True, text=True, check=True
    ).stdout
    flags = re.findall(r"(?m)^ +(?:-(\w), )?--([a-z0-9-]+)", shown)
    assert {name for pair in flags for name in pair if name} == FLAGS
