"""The image, built from the Dockerfile and run as in a pod: as 65532, without a right to write."""

import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.version import version
from tests.image.builder import ROOT, Builder, contained, pip_configuration

pytestmark = pytest.mark.image

SBOM = "placet/share/placet/sbom.cdx.json"
REVISION = "0123456789abcdef0123456789abcdef01234567"
VERSION = version()


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    """The image, built once for all tests."""
    builder = Builder(tmp_path_factory.mktemp("image"))
    builder.base(Path(os.environ["PLACET_IMAGE_BASE"]))
    builder.build(VERSION=VERSION, REVISION=REVISION)
    yield builder
    builder.buildah("rm", "--all")
    builder.buildah("rmi", "--all", "--force")


@pytest.fixture(scope="module")
def root(image: Builder) -> Path:
    return image.unpacked()


@pytest.fixture(scope="module")
def command(image: Builder, root: Path) -> list[str]:
    """What starts the entry point of the image, with its user and its environment."""
    said = image.configuration()
    return contained(root, said["User"], said["Env"], *said["Entrypoint"])


def run(command: list[str], *arguments: str) -> str:
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_runs_as_a_user_without_rights(image: Builder) -> None:
    said = image.configuration()
    assert said["User"] == "65532:65532"
    assert said["Entrypoint"] == ["placet"]


def test_labels_say_what_it_is(image: Builder) -> None:
    prefix = "org.opencontainers.image."
    labels = image.configuration()["Labels"]
    said = {name.removeprefix(prefix): value for name, value in labels.items() if prefix in name}
    assert said.pop("description").startswith("A kube-scheduler extender")
    assert said == {
        "title": "placet",
        "licenses": "Apache-2.0",
        "version": VERSION,
        "revision": REVISION,
    }


def test_it_says_the_version_that_it_was_built_from(command: list[str]) -> None:
    assert run(command, "--version") == f"placet {VERSION}\n"


def test_nothing_can_be_written(root: Path, image: Builder) -> None:
    said = image.configuration()
    try_it = "import pathlib; pathlib.Path('/tmp/x').write_text('x')"
    shell = contained(root, said["User"], said["Env"], "python", "-c", try_it)
    done = subprocess.run(shell, capture_output=True, text=True, check=False, timeout=60)
    assert "Read-only file system" in done.stderr


def test_policies_are_checked(command: list[str], root: Path) -> None:
    """In a folder that is there as a mounted one would be."""
    (root / "policies").mkdir()
    policy = 'policy shop in namespace "shop" { filter "ready" { require node.ready } }\n'
    (root / "policies" / "shop.policy").write_text(policy, encoding="utf-8")
    assert "no problems found" in run(command, "check", "/policies")


def test_manifests_are_in_it(root: Path) -> None:
    here, there = ROOT / "deploy", root / "usr/share/placet/deploy"
    files = [file.relative_to(here) for file in here.rglob("*") if file.is_file()]
    assert files
    assert [f for f in files if (here / f).read_bytes() != (there / f).read_bytes()] == []


def test_it_serves_until_it_is_told_to_end(command: list[str]) -> None:
    with subprocess.Popen(
        [*command, "serve", "--demo", "--listen", "127.0.0.1:0", "--lameduck", "0s"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stderr
            lines = iter(server.stderr.readline, "")
            found = (re.search(r"listening on (http://\S+)", line) for line in lines)
            address = next(match[1] for match in found if match)
            with urllib.request.urlopen(f"{address}/readyz", timeout=60) as answer:  # noqa: S310
                assert answer.status == 200
        finally:
            server.terminate()
        assert server.wait(timeout=60) == 0


def test_its_modules_are_compiled(root: Path) -> None:
    """Nothing can be written later, so each start would compile what is not."""
    packages = root / "placet/lib/python3.11/site-packages"
    for module in ("placet/bundle/cli/main.py", "aiohttp/client.py"):
        assert (packages / module).is_file()
        compiled = (packages / module).parent / "__pycache__"
        assert list(compiled.glob(f"{Path(module).stem}.cpython-311.pyc"))


def test_it_has_no_tools_to_install_or_compile_with(root: Path) -> None:
    tools = re.compile(r"(pip[0-9.]*|cc|gcc|g\+\+|make|ld|wheel|hatchling|cyclonedx-py)")
    programs = (file for folder in ("bin", "sbin") for file in root.rglob(f"{folder}/*"))
    assert sorted(str(file) for file in programs if tools.fullmatch(file.name)) == []
    assert [*root.rglob("site-packages/pip"), *root.rglob("ensurepip")] == []


def test_packages_are_those_of_the_lock(root: Path) -> None:
    """The bill of materials lists what is installed, and each of it is locked by its hash."""
    bill = json.loads((root / SBOM).read_text(encoding="utf-8"))
    assert bill["bomFormat"] == "CycloneDX"
    listed = {f"{part['name'].lower()}=={part['version']}" for part in bill["components"]}
    folders = [*root.glob("placet/lib/python3.11/site-packages/*.dist-info")]
    assert len(listed) == len(folders)
    locked = re.findall(
        r"(?m)^(\S+==\S+)", (ROOT / "requirements-image.lock").read_text(encoding="utf-8")
    )
    assert {part.replace("_", "-") for part in listed} - {*locked, f"placet=={VERSION}"} == set()


def test_configuration_of_the_builder_stays_out(root: Path) -> None:
    assert [file for file in (root / "run").rglob("*") if file.is_file()] == []
    assert [*root.glob("etc/pip.conf"), *root.glob("root/.config/pip")] == []
    addresses = [v for n, v in pip_configuration().items() if n.endswith("index-url")]
    texts = [file.read_bytes() for file in (root / "placet").rglob("*.json")]
    assert [url for url in addresses for text in texts if url.encode() in text] == []
