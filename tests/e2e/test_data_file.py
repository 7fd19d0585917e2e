"""A table of a file in the folder of a server that watches a real API server."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.manifests import node, pod
from tests.e2e.placet import Placet, placet
from tests.e2e.waiting import until

pytestmark = pytest.mark.e2e

SECONDS = 60.0
NODES = ["n1", "n2"]
POLICY = """\
cluster policy prices {{
  for pods where pod.metadata.namespace == "{namespace}"
  data "prices" {{ from file "now/prices.csv" by "node" columns {{ hour: double }} }}
  filter "cheap" {{ require data.prices[node.name].hour < 1.0 message "dear" missing fail }}
}}
"""


class Mounted:
    """A folder as kubelet mounts a ConfigMap: a link to the last version, which is replaced."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._versions = 0
        folder.mkdir()

    def write(self, text: bytes | None) -> None:
        """Another version, with the file or without."""
        self._versions += 1
        version = self.folder / f"v{self._versions}"
        version.mkdir()
        if text is not None:
            (version / "prices.csv").write_bytes(text)
        link = self.folder / "new"
        link.symlink_to(version.name)
        link.rename(self.folder / "now")


@contextmanager
def served(plane: ControlPlane, cluster: Cluster, mounted: Mounted) -> Iterator[Placet]:
    folder = mounted.folder.parent
    (folder / "prices.policy").write_text(POLICY.format(namespace=cluster.namespace))
    flags = (f"--kubeconfig={plane.placet_kubeconfig}", f"--data-folder={mounted.folder}")
    with placet(folder, folder / "prices.policy", *flags) as server:
        server.wait_ready()
        yield server


def test_a_file(plane: ControlPlane, cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_nodes(map(node, NODES))
    mounted, asked = Mounted(tmp_path / "data"), pod("web", cluster.namespace)
    with served(plane, cluster, mounted) as server:

        def becomes(*wanted: str) -> None:
            until(
                lambda: (server.filter(asked, NODES)["NodeNames"] or []) == [*wanted],
                SECONDS,
                lambda: server.get("/readyz?verbose")[1],
            )

        def says(text: str) -> None:
            until(
                lambda: text in server.get("/readyz?verbose")[1],
                SECONDS,
                lambda: server.get("/readyz?verbose")[1],
            )

        says("prices.csv` cannot be read: no such file or directory; no rows are read")
        becomes()
        mounted.write(b"node,hour\nn1,0.5\nn2,2\n")
        becomes("n1")
        mounted.write(b"node,hour\nn1,2\nn2,0.5\n")
        becomes("n2")
        mounted.write(b"node,hour\nn1,0.5\nn2,\xff\n")
        says("line 3 is not UTF-8; the last 2 rows are read")
        becomes("n2")
        mounted.write(None)
        says("no such file or directory; the last 2 rows are read")
        becomes("n2")
        mounted.write(b"node,hour\nn1,0.5\nn2,0.5\n")
        becomes("n1", "n2")
        assert "[+]data/prices ok" in server.get("/readyz?verbose")[1]
