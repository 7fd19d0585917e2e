"""Command `manifests`: lists, prints and writes the files of deploy/."""

from pathlib import Path

import pytest
import yaml

from cli.main import main

DEPLOY = Path(__file__).parents[3] / "deploy"


def test_list_has_every_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["manifests"]) == 0
    files = (file for file in DEPLOY.rglob("*") if file.is_file())
    wanted = sorted(file.relative_to(DEPLOY).as_posix() for file in files)
    assert capsys.readouterr().out.splitlines() == wanted


@pytest.mark.parametrize("path", ["rbac", "rbac/", "rbac/placet.yaml"])
def test_folder_and_file_are_printed_as_one_stream(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["manifests", path]) == 0
    kinds = {document["kind"] for document in yaml.safe_load_all(capsys.readouterr().out)}
    assert "ClusterRole" in kinds


def test_files_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["manifests", "bypass", "--output", str(tmp_path / "new")]) == 0
    written = tmp_path / "new" / "bypass" / "placet.yaml"
    assert written.read_bytes() == (DEPLOY / "bypass" / "placet.yaml").read_bytes()
    assert capsys.readouterr().out == f"wrote {written}\n"


def test_unknown_path_gets_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["manifests", "rba"]) == 2
    said = capsys.readouterr().err
    assert "there is no manifest `rba`" in said
    assert "`placet manifests` lists the files" in said
