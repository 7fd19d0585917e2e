"""Keys of objects: what several objects of one key come to, and how long that takes."""

from __future__ import annotations

import asyncio
import gc
import time
from pathlib import Path

import pytest

from engine.cluster.data_watching import ObjectRows
from engine.program.frame import Frame
from engine.program.tables import LiveRows
from grammar.values.errors import MissingError
from grammar.values.time import Timestamp
from tests.engine.cluster.test_data_sources import CLAIM_PATH, claim, claims_of, keeping
from tests.support.engines import CLAIMS, spec_of
from tests.support.fake_api_server import FakeApiServer

pytestmark = pytest.mark.fake_clock


async def test_a_key_of_two_objects_has_no_row(server: FakeApiServer, tmp_path: Path) -> None:
    claims_of(server)
    source = CLAIMS.replace('object.metadata.namespace + "/" + ', "")
    claim(server, "shop/a", "pv-1")
    claim(server, "shop/b", "pv-2")
    async with keeping(server, tmp_path) as kept:
        kept.adopt(spec_of(source, "claims"))
        await kept.read(a=("pv-1",), b=("pv-2",))
        claim(server, "evil/a", "pv-9")
        await kept.read(b=("pv-2",))
        assert kept.status.cause == "the key `a` is that of two objects: evil/a, shop/a"
        assert kept.status.left_out == 1
        rows = LiveRows(kept.table, Frame(None, Timestamp.now(), slots=0))
        with pytest.raises(MissingError, match=r"`a` in `data\.claims`: several objects"):
            rows["a"]
        with pytest.raises(MissingError, match=r"`c` in `data\.claims`$"):
            rows["c"]
        server.delete(CLAIM_PATH, "evil/a")
        await kept.read(a=("pv-1",), b=("pv-2",))
        assert kept.table.shared == frozenset()


async def test_the_objects_of_a_key_are_counted_and_added_up(
    server: FakeApiServer, tmp_path: Path
) -> None:
    claims_of(server)
    source = (
        'from objects "v1/PersistentVolumeClaim" by object.metadata.namespace columns { n = count, '
        "sum = sum size(object.spec.volumeName), last = most object.metadata.name.size(), "
        "most = most string(object.spec.volumeName), volume = string(object.spec.volumeName) }"
    )
    claim(server, "shop/a", "pv-1")
    async with keeping(server, tmp_path) as kept:
        kept.adopt(spec_of(source, "claims"))
        await kept.read(shop=(1, 4, 1, "pv-1", "pv-1"))
        claim(server, "shop/bc", "pv-23")
        await kept.read(shop=(2, 9, 2, "pv-23", None))
        assert kept.table.shared == frozenset({"shop"})
        assert kept.status.left_out == 0
        claim(server, "lab/c", None)
        claim(server, "shop/d", None)
        # What one object does not say, nobody knows of all.
        await kept.read(lab=(1, None, 1, None, None), shop=(3, None, 2, None, None))
        server.delete(CLAIM_PATH, "shop/d")
        server.delete(CLAIM_PATH, "lab/c")
        server.delete(CLAIM_PATH, "shop/a")
        await kept.read(shop=(1, 5, 2, "pv-23", "pv-23"))


@pytest.mark.process
@pytest.mark.parametrize(
    ("source", "number"),
    [
        (CLAIMS, 50_000),
        (CLAIMS.replace('/" + object.metadata.name columns {', '" columns { n = count,'), 1),
    ],
)
async def test_no_step_is_long_that_makes_rows_of_many_objects(source: str, number: int) -> None:
    """The processor time between two turns of the loop, and no work for the garbage collector."""
    spec, changed = spec_of(source), asyncio.Event()
    rows = ObjectRows(spec, time.time_ns, changed)
    gc.collect()
    gc.freeze()
    try:
        for each in range(50_000):
            meta = f'"metadata":{{"namespace":"shop","name":"c{each}"}}'
            raw = f'{{{meta},"spec":{{"volumeName":"v{each}"}}}}'.encode()
            rows.store.upsert(f"shop/c{each}", "1", raw)
        longest, work = 0.0, asyncio.ensure_future(rows.apply())
        before = time.thread_time()
        while not work.done():
            await asyncio.sleep(0)
            longest, before = max(longest, time.thread_time() - before), time.thread_time()
        made = rows.rows
        copied = time.thread_time() - before
    finally:
        gc.unfreeze()
    assert len(made) == number
    assert not any(map(gc.is_tracked, made.values()))
    assert longest < 0.02
    assert copied < 0.02
