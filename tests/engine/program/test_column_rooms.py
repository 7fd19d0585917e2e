"""The room for what policies keep of nodes: no namespace takes that of others."""

from __future__ import annotations

from engine.program.columns import COLUMN_BYTES, SHARED_BYTES, ColumnRoom, ColumnRooms


def test_namespaces_have_fair_shares_of_one_room() -> None:
    rooms = ColumnRooms()
    first, second = ColumnRoom(rooms, "a"), ColumnRoom(rooms, "a")
    first.take(SHARED_BYTES // 4)
    second.take(SHARED_BYTES // 4)
    assert first.left == second.left == 0
    assert ColumnRoom(rooms, "b").left == SHARED_BYTES // 4
    assert ColumnRoom(rooms).left == COLUMN_BYTES
    del first
    assert second.left == SHARED_BYTES // 4
