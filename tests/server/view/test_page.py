"""The files of the page: their headers, their size, and the libraries that come with them."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable
from pathlib import Path

from aiohttp import ClientSession

from engine.decision.journal import Journal
from server.view.page import POLICY, page_files
from tests.browser.vendor import (
    CHART,
    EDITOR,
    EDITOR_LICENCES,
    ESBUILD,
    FOLDER,
    PACKAGES,
    VERSIONS,
    integrity,
)
from tests.support.view_server import Parts, view_of

_ADDRESS = re.compile(r"""(?:from |href=|src=|import\()["']([^"'#$]+)["']|url\(([^)]+)\)""")


async def test_every_file_has_the_policy_and_its_type() -> None:
    types = {
        "html": "text/html",
        "css": "text/css",
        "js": "text/javascript",
        "svg": "image/svg+xml",
    }
    async with view_of(Parts(Journal())) as url, ClientSession(url) as session:
        for path, content in {**page_files(), "": page_files()["index.html"]}.items():
            async with session.get(f"/ui/{path}") as response:
                assert response.status == 200
                assert response.headers["Content-Security-Policy"] == POLICY
                assert response.headers["X-Content-Type-Options"] == "nosniff"
                assert response.content_type == types[(path or "a.html").rpartition(".")[2]]
                assert await response.read() == content
        for shorter in ("/", "/ui"):
            async with session.get(shorter) as response:
                assert response.url.path == "/ui/"
                assert response.status == 200


async def test_nothing_else_is_served() -> None:
    async with view_of(Parts(Journal())) as url, ClientSession(url) as session:
        for path in (
            "/ui/nothing.js",
            "/ui/vendor/",
            "/ui/vendor/versions.json",
            "/ui/%2e%2e/view.py",
        ):
            async with session.get(path) as response:
                assert response.status == 404, path
                assert response.headers["X-Content-Type-Options"] == "nosniff"
        async with session.get("/ui/", headers={"Host": "evil.example"}) as response:
            assert response.status == 403


def test_all_addresses_are_relative_and_lead_to_files() -> None:
    files = page_files()
    found = 0
    for path, content in files.items():
        if path.startswith("vendor/") or path.endswith(".svg"):
            continue
        for match in _ADDRESS.finditer(content.decode()):
            address = (match[1] or match[2]).removeprefix("./")
            assert address in files, f"{path}: {address}"
            found += 1
    assert found > 10


def test_the_html_has_no_script_and_no_style_of_its_own() -> None:
    html = page_files()["index.html"].decode()
    assert re.findall(r"<script[^>]*>(.*?)</script>", html) == [""]
    assert not re.findall(r"<style|\sstyle=|\son\w+=", html)


# They come when somebody opens the playground.
_PLAYGROUND = ("playground.js", "editor.js", "vendor/codemirror.js")


# They come when somebody opens the trends.
_TRENDS = ("trends.js", "vendor/uplot.js")


def _compressed(files: Iterable[bytes]) -> int:
    return len(gzip.compress(b"".join(files), 9))


def test_the_page_is_small() -> None:
    """Compressed: it loads through a port forward."""
    files, late = page_files(), (*_PLAYGROUND, *_TRENDS)
    assert _compressed(c for name, c in files.items() if name not in late) < 60_000
    assert _compressed(files[name] for name in _PLAYGROUND) < 130_000
    assert _compressed(files[name] for name in _TRENDS) < 30_000
    assert sum(_compressed([content]) for content in files.values()) < 220_000


def test_only_the_playground_imports_the_editor() -> None:
    scripts = {n: c.decode() for n, c in page_files().items() if n.endswith(".js")}
    for name in _PLAYGROUND:
        users = {n for n, text in scripts.items() if f'from "./{name}"' in text}
        assert users <= {"playground.js", "editor.js"}, name


def test_the_words_of_the_editor_are_those_of_the_grammar() -> None:
    grammar = (Path(__file__).parents[3] / "grammar" / "syntax" / "policy.lark").read_text("utf-8")
    words = {*re.findall(r"^[A-Z]+\.5: /([a-z]+)", grammar, re.MULTILINE)}
    script = page_files()["words.js"].decode()
    found = re.search(r"WORDS = new Set\((\[.+\])\);", script)
    assert found is not None
    # These are values, and have another colour.
    assert {*json.loads(found[1])} == words - {"true", "false", "null"}


def test_the_libraries_are_what_was_fetched() -> None:
    known = json.loads(VERSIONS.read_text("utf-8"))
    named = [(each["package"], each["version"], each["integrity"]) for each in known]
    packages = (*PACKAGES, CHART, *EDITOR, ESBUILD)
    assert named == [(each.name, each.version, each.integrity) for each in packages]
    files = {name: hashed for each in known for name, hashed in each["files"].items()}
    assert {each.name for each in FOLDER.iterdir()} == {*files, VERSIONS.name}
    for name, hashed in files.items():
        assert integrity((FOLDER / name).read_bytes()) == hashed, name
    assert all(Path(FOLDER / f"LICENSE-{each.name}.txt").exists() for each in (*PACKAGES, CHART))
    licences = (FOLDER / EDITOR_LICENCES).read_text("utf-8")
    assert all(f"{each.name} {each.version}" in licences for each in EDITOR)
