"""Proxies: the one that the environment names, by the rules of kubectl."""

from __future__ import annotations

import os

import pytest

from engine.cluster.client import proxy_of

PROXY = "http://proxy.example.com:3128"


@pytest.mark.parametrize(
    ("address", "environment", "expected"),
    [
        ("https://api.example.com:6443", {}, None),
        ("https://api.example.com:6443", {"HTTPS_PROXY": PROXY}, PROXY),
        ("https://api.example.com:6443", {"https_proxy": PROXY}, PROXY),
        ("https://api.example.com:6443", {"HTTPS_PROXY": "proxy.example.com:3128"}, PROXY),
        ("https://api.example.com:6443", {"HTTP_PROXY": PROXY}, None),
        ("http://api.example.com:8080", {"HTTP_PROXY": PROXY}, PROXY),
        ("https://api.example.com", {"HTTPS_PROXY": PROXY, "NO_PROXY": "example.com"}, None),
        ("https://api.example.com", {"HTTPS_PROXY": PROXY, "NO_PROXY": "*"}, None),
        ("https://api.example.com", {"HTTPS_PROXY": PROXY, "NO_PROXY": "other.com"}, PROXY),
        ("https://10.96.0.1:443", {"HTTPS_PROXY": PROXY, "NO_PROXY": "svc, 10.96.0.0/12"}, None),
        ("https://10.96.0.1:443", {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.96.0.1"}, None),
        ("https://10.96.0.1:443", {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.0.0.0/16"}, PROXY),
        ("https://[fd00::1]:443", {"HTTPS_PROXY": PROXY, "NO_PROXY": "fd00::/8"}, None),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": PROXY}, None),
        ("https://[::1]:6443", {"HTTPS_PROXY": PROXY}, None),
        ("https://localhost:6443", {"HTTPS_PROXY": PROXY}, None),
    ],
)
def test_which_proxy_is_taken(
    address: str,
    environment: dict[str, str],
    expected: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert proxy_of(address) == expected
