"""Annotations of pods that resemble one that Placet reads."""

from __future__ import annotations

import json

import pytest

from cli.sources import misspelt_annotations
from engine.objects.request_pod import BYPASS, FORM
from policies.manifest_text import GROUP


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("placet.dev/bypas", BYPASS),
        ("placet.dev/bypassed", BYPASS),
        (f"{GROUP}/portable", FORM),
        ("placet.dev/portabel", FORM),
        (BYPASS, None),
        (f"{GROUP}/bypass", BYPASS),
        ("example.com/bypass", None),
        ("kubectl.kubernetes.io/restartedAt", None),
    ],
)
def test_a_misspelt_annotation_is_found(key: str, meant: str | None) -> None:
    body = json.dumps({"metadata": {"annotations": {key: "x"}}}).encode()
    assert list(misspelt_annotations(body)) == ([] if meant is None else [(key, meant)])
