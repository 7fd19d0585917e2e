"""The room for what policies keep of nodes: no namespace takes that of others."""

from __future__ import annotations

from engine.program.columns import COLUMN_BYTES, ColumnRoom, ColumnRooms


def test_namespaces_have_fair_shares_of_one_room() -> None:
    rooms = ColumnRooms()
    first, second = ColumnRoom(rooms, "a"), ColumnRoom(rooms, "a")
    first.take(COLUMN_BYTES // 4)
    second.take(COLUMN_BYTES // 4)
    assert first.left == second.left == 0
    assert ColumnRoom(rooms, "b").left == COLUMN_BYTES // 4
    assert ColumnRoom(rooms).left == COLUMN_BYTES
    del first
    assert second.left == COLUMN_BYTES // 4
