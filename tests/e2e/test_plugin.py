"""The plugin of kubectl: kubectl finds it, and asks it what can follow on a line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.programs import built

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["explain", "--dec"], "--decision\n:4\n"),
        (["check", ""], ":0\n"),
        (["crds", "--output", ""], ":16\n"),
    ],
    ids=["flag", "file", "folder"],
)
def test_kubectl_completes_the_plugin(
    pytestconfig: pytest.Config, tmp_path: Path, line: list[str], said: str
) -> None:
    """As the script of `kubectl completion` asks kubectl."""
    folders = [Path(sys.executable).parent, built(pytestconfig)]
    path = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
    done = subprocess.run(
        [folders[1] / "kubectl", "__complete", "placet", *line],
        env=os.environ | {"PATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == said
