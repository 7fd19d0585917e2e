"""The page about kind: its image is that of `make release` and of the chart, its files are right.

tests/e2e/test_installed.py runs what follows the image and the cluster; what the commands of Placet
print is compared by tests/test_shown_commands.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Placet, placet
from tests.deploy.chart import CHART
from tests.deploy.kustomize import NoHelmError, helm
from tests.support.books import DOCS

__all__ = ["placet"]

PAGE = (DOCS / "kind.md").read_text(encoding="utf-8")
FILES = DOCS / "examples" / "kind"
MAKEFILE = (DOCS.parent / "Makefile").read_text(encoding="utf-8")


def commands(first: str) -> list[str]:
    """The commands of the page that begin so, each on one line."""
    blocks = re.findall(r"(?ms)^```sh\n(.*?)^```$", PAGE)
    lines = (line for block in blocks for line in block.replace("\\\n", "").splitlines())
    return [" ".join(line.split()) for line in lines if line.startswith(first)]


def test_the_image_is_built_as_a_release_builds_it() -> None:
    """With the same arguments, and in the place of a lock of its own: the version by the source."""
    (build,) = commands("docker build")
    recipe = MAKEFILE.partition("\nrelease:")[2].partition("\n\n")[0]
    arguments = re.findall(r"--build-arg (\w+)=", recipe)
    assert re.findall(r"--build-arg (\w+)=", build) == arguments == ["VERSION", "REVISION"]
    assert "from cli.version import version; print(version())" in recipe
    assert "from cli.version import version; print(version())" in build
    assert build.endswith(" .")


def test_the_name_of_the_image_is_the_default_of_the_chart() -> None:
    """So the chart needs no value, and each kind of cluster gets the image that was built."""
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))["image"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert values["tag"] == ""
    assert values["pullPolicy"] == "IfNotPresent"
    image = f"{values['repository']}:{chart['appVersion']}"
    assert set(re.findall(r"placet:[\w.]+", PAGE)) == {image}
    loaded = ("docker build", "kind load", "minikube image", "docker save")
    assert [sum(image in line for line in commands(first)) for first in loaded] == [1, 1, 1, 1]


def test_the_flags_of_helm_render_the_chart() -> None:
    (install,) = commands("helm install")
    _, _, release, chart, *flags = install.split()
    assert chart == "deploy/chart"
    assert "--wait" in flags
    try:
        done = helm("template", release, CHART, *(each for each in flags if each != "--wait"))
    except NoHelmError as error:
        pytest.skip(str(error))
    assert done.returncode == 0, done.stderr
    assert "namespace: kube-system" in done.stdout


def test_the_target_of_make_exists() -> None:
    (line,) = commands("make ")
    assert f"\n{line.split()[1]}:" in MAKEFILE


def test_the_policy_of_the_page_is_its_file_and_is_right(placet: Placet) -> None:
    (shown,) = re.findall(r"(?ms)^```yaml\n(.*?)^```$", PAGE)
    assert shown == (FILES / "policy.yaml").read_text(encoding="utf-8")
    assert placet("check", "--strict", str(FILES / "policy.yaml")).code == 0


def test_the_pod_of_the_page_is_the_one_of_the_cluster_that_it_shows() -> None:
    pod = yaml.safe_load((FILES / "web.yaml").read_text(encoding="utf-8"))
    items = yaml.safe_load((FILES / "cluster.yaml").read_text(encoding="utf-8"))["items"]
    (shown,) = (each for each in items if each["kind"] == "Pod")
    assert shown["spec"] == pod["spec"]
    assert pod["metadata"].items() <= shown["metadata"].items()
    nodes = [each["metadata"]["name"] for each in items if each["kind"] == "Node"]
    roles = yaml.safe_load((FILES / "kind.yaml").read_text(encoding="utf-8"))["nodes"]
    assert len(nodes) == len(roles)


@pytest.mark.parametrize("path", re.findall(r"docs/examples/kind/\S+\.yaml", PAGE))
def test_a_file_that_a_command_names_exists(path: str) -> None:
    assert (DOCS.parent / path).is_file()


def test_the_files_are_those_that_the_page_names() -> None:
    named = {Path(path).name for path in re.findall(r"examples/kind/(\S+\.yaml)", PAGE)}
    assert {file.name for file in FILES.iterdir()} == named | {"cluster.yaml"}
