"""Versions: tests with the lowest and the newest packages that pyproject.toml allows.

    make versions [PYTHONS="3.11 3.13"]

Each Python that is found gets a virtual environment with the lowest versions of what Placet needs,
and one with the newest. What the tests need themselves is as new as it can be.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "versions"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# The ends of the range, by uv's names for them.
ENDS = {"lowest": "lowest-direct", "newest": "highest"}
# What depends on the packages most: HTTP, sockets, TLS, the client of the API server, the parser.
TESTS = ("tests/server", "tests/engine/cluster", "tests/grammar/syntax", "tests/test_call_paths.py")
SHOWN = ("aiohttp", "httptools", "msgspec", "numpy")
# Those that start servers are among them.
MARKED = "not (thorough or e2e or bench or chaos or rollouts or image or browser)"
_SUMMARY = re.compile(r"^=*\s*((?:\d+ [a-z]+,? ?)+)in ", re.MULTILINE)


def main() -> int:
    uv = _uv()
    wanted = tuple(os.environ.get("PYTHONS", "").split()) or PYTHONS
    failed = False
    for version in wanted:
        python = found(version)
        if python is None:
            print(f"{version:<5} skipped: there is no python{version} here", flush=True)
            continue
        for end, resolution in ENDS.items():
            began = time.monotonic()
            run = Environment(uv, python, FOLDER / f"{version}-{end}").tested(resolution)
            failed = failed or not run.passed
            seconds = round(time.monotonic() - began)
            print(f"{version:<5} {end:<7} {run.packages}: {run.summary}, {seconds} s", flush=True)
            if not run.passed:
                print(f"      see {run.log.relative_to(ROOT)}", flush=True)
    return int(failed)


def found(version: str) -> Path | None:
    """A Python of this version, from PATH or from pyenv; None if none runs."""
    name = f"python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = shutil.which(name)
    candidates = sorted(pyenv.glob(f"{version}.*/bin/{name}"), reverse=True)
    for candidate in [Path(on_path), *candidates] if on_path else candidates:
        # A shim of pyenv may have no program behind it.
        done = subprocess.run([candidate, "-c", "import venv"], capture_output=True, check=False)
        if done.returncode == 0:
            return candidate
    return None


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the tests. `packages` are the versions of some of them."""

    passed: bool
    packages: str
    summary: str
    log: Path


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment of a Python in a folder, made anew by uv."""

    uv: Path
    python: Path
    folder: Path

    def tested(self, resolution: str) -> Run:
        """Installs the packages of a resolution, and runs the tests with them."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        log = self.folder / "log"
        with log.open("w", encoding="utf-8") as output:
            for command in self._commands(resolution):
                done = subprocess.run(
                    command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, check=False
                )
                if done.returncode:
                    break
        text = log.read_text(encoding="utf-8")
        packages = dict(re.findall(r"(?m)^([a-z0-9-]+)==(\S+)", self._locked()))
        shown = ", ".join(f"{name} {packages.get(name, '?')}" for name in SHOWN)
        summaries: list[str] = _SUMMARY.findall(text)
        summary = summaries[-1].strip() if summaries else "the packages cannot be installed"
        return Run(done.returncode == 0, shown, summary, log)

    def _commands(self, resolution: str) -> Iterator[Sequence[str | Path]]:
        own, all_of_them = self.folder / "own", self.folder / "all"
        compile_ = (self.uv, "pip", "compile", "--quiet", "--no-header", "--python", self.python)
        yield (
            *compile_,
            "pyproject.toml",
            "--resolution",
            resolution,
            "--output-file",
            own,
        )
        yield (
            *(*compile_, "pyproject.toml", "--group", "dev"),
            *("--constraint", own, "--output-file", all_of_them),
        )
        yield (self.uv, "venv", "--quiet", "--python", self.python, self.folder / "venv")
        program = self.folder / "venv" / "bin" / "python"
        yield (self.uv, "pip", "install", "--quiet", "--python", program, "-r", all_of_them)
        yield (
            *(self.uv, "pip", "install", "--quiet", "--python", program),
            *("--no-deps", "--no-build-isolation", "--editable", ROOT),
        )
        yield (program, "-m", "pytest", "--numprocesses=auto", "--quiet", "-m", MARKED, *TESTS)

    def _locked(self) -> str:
        path = self.folder / "all"
        return path.read_text(encoding="utf-8") if path.exists() else ""


def _uv() -> Path:
    """uv, which knows how to resolve to the lowest versions, in a folder of its own."""
    folder = FOLDER / "uv"
    program = folder / "bin" / "uv"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = folder / "bin" / "pip"
        quiet = ("--quiet", "--disable-pip-version-check")
        subprocess.run([pip, "install", *quiet, "uv"], check=True)
    return program


if __name__ == "__main__":
    sys.exit(main())
