"""`placet analyze`: what stands in a pod's way, as text of a fixed width."""

from pathlib import Path

import pytest

from tests.cli import shop
from tests.cli.conftest import Placet


@pytest.fixture(autouse=True)
def files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "96")
    shop.write(folder)


def test_clauses_nearest_misses_and_the_smallest_relaxation(placet: Placet) -> None:
    done = placet("analyze", "shop/web-1", *shop.WORLD)
    assert (done.code, done.err) == (0, "")
    assert (
        done.out[done.out.index("clause ") :]
        == """\
clause                                                   passes  fails  fails only this
shop/shop: headroom                                           3      1                1
  node.free["memory"] - pod.requests["memory"] >= "1Gi"       3      1
  node.ready                                                  4      0
shop/shop: zone                                               3      1                1
  node.zone != "c"                                            3      1
shop/shop: one per node                                       3      1                1

1 of 4 nodes passes

nearest misses
  n-2 fails 1 clause
    shop/shop: headroom: needs 1Gi to spare
      1536Mi free
  n-3 fails 1 clause
    shop/shop: zone
      node.zone != "c": node.zone is "c"
  n-4 fails 1 clause
    shop/shop: one per node: one is there
      1 on this node, at most 1 with this pod
        bound: shop/web-2

smallest relaxation
  without shop/shop: headroom: 1 more node would pass
  without shop/shop: zone: 1 more node would pass
  without shop/shop: one per node: 1 more node would pass
"""
    )


def test_a_pod_that_nothing_rejects_has_nothing_in_its_way(placet: Placet) -> None:
    done = placet("analyze", "far/db-0", *shop.WORLD)
    assert done.code == 0
    assert done.out.endswith("no clause can reject the pod: 4 nodes pass\n")


def test_two_clauses_that_only_help_together_are_named_together(
    placet: Placet, folder: Path
) -> None:
    text = """\
cluster policy both {
  filter "small" { require node.allocatable["cpu"] < "1" }
  filter "old" { require node.labels["age"] == "old" }
}
"""
    (folder / "shop.policy").write_text(text, encoding="utf-8")
    done = placet("analyze", "far/db-0", *shop.WORLD)
    assert "  n-1 fails 2 clauses\n" in done.out
    assert "there is no key `age`" in done.out
    assert done.out.endswith("  without both: small and both: old: 4 more nodes would pass\n")


def test_an_absent_label_is_said_once_and_of_the_part_that_reads_it(
    placet: Placet, folder: Path
) -> None:
    text = 'cluster policy p { filter "old" { require node.labels["age"] == "old" } }'
    (folder / "shop.policy").write_text(text, encoding="utf-8")
    done = placet("analyze", "far/db-0", *shop.WORLD)
    read, error = 'node.labels["age"]', "there is no key `age`"
    assert f'      {read} == "old": {read} has no value: {error}\n' in done.out
