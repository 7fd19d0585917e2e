"""Snapshots built from objects at once: the reference for those that the cache keeps."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from engine.cache.names import NameIndex
from engine.cache.node_table import UNKNOWN_ROW, NodeTable, view
from engine.cache.snapshot import ENDED, Snapshot
from engine.objects.codec import Namespace, Node
from engine.objects.peer import Controller, Peer, key_of, root_of, rooted


def build(
    nodes: Iterable[Node],
    pods: Iterable[Peer],
    *,
    namespaces: Iterable[Namespace] = (),
    controllers: Iterable[Controller] = (),
) -> Snapshot:
    """Return the snapshot of decoded objects. Of two objects of one name the later counts.

    As in kube-scheduler, a pod counts on its node until it has succeeded or failed, terminating or
    not. A pod on a node that is not among `nodes` counts on none, but is among the pods.
    """
    known = {c.workload.uid: c for c in controllers}
    workloads = {uid: root_of(controller, known) for uid, controller in known.items()}
    by_name = {n.name: n for n in nodes}
    placed: dict[str, list[Peer]] = {name: [] for name in by_name}
    pending: dict[str, Peer] = {}
    strays: dict[str, Peer] = {}
    for key, peer in {key_of(p): rooted(p, workloads) for p in pods}.items():
        if peer.phase in ENDED:
            continue
        if not peer.nodeName:
            pending[key] = peer
        elif peer.nodeName in placed:
            placed[peer.nodeName].append(peer)
        else:
            strays[key] = peer
    rows = {name: row for row, name in enumerate(by_name, start=UNKNOWN_ROW + 1)}
    versions = np.ones(len(rows) + 1, np.int64)
    versions[UNKNOWN_ROW] = 0
    views = (None, *(view(node, tuple(placed[name])) for name, node in by_name.items()))
    return Snapshot(
        table=NodeTable(object(), rows, views, versions, NameIndex(rows)),
        pending=pending,
        strays=strays,
        namespaces={n.name: n for n in namespaces},
        workloads=workloads,
    )
