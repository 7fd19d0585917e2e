"""Vendor: brings the libraries of the page from npm: `make vendor`, with versions and hashes.

`server/view/ui/vendor/versions.json` says what is there. Another version is written into PACKAGES
here. npm checks the integrity that its registry names, and this script the one that is written
here. The parts of the editor are joined to one file by esbuild, whose program is for Linux on
x86-64.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "server" / "view" / "ui" / "vendor"
VERSIONS = FOLDER / "versions.json"


@dataclass(frozen=True)
class Package:
    """A version of a package, its licence, and its files with their names here."""

    name: str
    version: str
    integrity: str
    licence: str
    files: Mapping[str, str] = field(default_factory=dict)


PACKAGES = (
    # The file has Preact, its hooks and htm together.
    Package(
        "htm",
        "3.1.1",
        "sha512-983Vyg8NwUE7JkZ6NmOqpCZ+sh1bKv2iYTlUkzlWmA5JD2acKoxd4KVxbMmxX/85mtfdnDmTFoNKcg5DGAvxNQ==",
        "Apache-2.0",
        {"preact/standalone.module.js": "preact-htm.js", "LICENSE": "LICENSE-htm.txt"},
    ),
    # Only its licence: which version of Preact is in that file is up to htm.
    Package(
        "preact",
        "10.5.15",
        "sha512-5chK29n6QcJc3m1lVrKQSQ+V7K1Gb8HeQY6FViQ5AxCAEGu3DaHffWNDkC9+miZgsLvbvU9rxbV1qinGHMHzqA==",
        "MIT",
        {"LICENSE": "LICENSE-preact.txt"},
    ),
)
# The charts of trends; its module comes from npm with spaces and comments.
CHART = Package(
    "uplot",
    "1.6.32",
    "sha512-KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==",
    "MIT",
    {
        "dist/uPlot.esm.js": "uplot.js",
        "dist/uPlot.min.css": "uplot.css",
        "LICENSE": "LICENSE-uplot.txt",
    },
)


# What the editor is made of. They import each other by name, which a browser cannot follow.
EDITOR = (
    Package(
        "@codemirror/autocomplete",
        "6.20.4",
        "sha512-yF8RhOf2SXlg00+qtupzLhrglcas61boqaONiNcbPIebHCpJocpqTBA6dyrtUrQO47hqyTdeob/3XnYilT7TaQ==",
        "MIT",
    ),
    Package(
        "@codemirror/commands",
        "6.11.1",
        "sha512-O/4hG3SC1YwcmQ0d2UVNDs+AsaNWd1iHVxbTeEBuqH+6bExAiPK3iS/BvpY6rZGURALv4ZD3sIgcCmRvw3ehBg==",
        "MIT",
    ),
    Package(
        "@codemirror/language",
        "6.13.1",
        "sha512-zfvU2r3TyylQLMj/te+5CnQ0rSqZi8B1oTCBbQkagcLW4Xc6imab6qN+pEJhsuNOLaJqiRyBXp9UhWA1DhVvDw==",
        "MIT",
    ),
    Package(
        "@codemirror/lint",
        "6.9.8",
        "sha512-qNvtcE73xUto/D1RvtgSRI4A1Hg8ekxlvtZpjHpdpisLBnhyu82EUEJMEgaxkjuQCA8vqnrylENWKOsEDCOHcw==",
        "MIT",
    ),
    Package(
        "@codemirror/state",
        "6.7.6",
        "sha512-kAz+AncRtKuIknedxT1bq4XwXv4UowhbkHU1myPrtVb/jZtImWuV5BXzv5vK6i3kYACsdiZiQKFQQ5Mq7elW8w==",
        "MIT",
    ),
    Package(
        "@codemirror/streamparser",
        "6.0.0",
        "sha512-JTFPF6xrfjt0mnfGPgzcLiMwYmvIyNaoizp8BYzv8FE8KrT6GBGDZ190rtt+O7Wke3gG/MFHyiY9YGNeimof4w==",
        "MIT",
    ),
    Package(
        "@codemirror/view",
        "6.43.15",
        "sha512-HHsfpqFeHyXLs983pSRe38Xajs0vFWZQ2BuX0m7Ki8w3jZ5iD8cuR3lBz2/5/X53Dhf32SBHKh6rtSTB6tKeGw==",
        "MIT",
    ),
    Package(
        "@lezer/common",
        "1.5.5",
        "sha512-Pw7PVCndruF1pb3ebCxpSVpkMHSDjwRCLcTRw+RizUKco5QbWylwq2g4lnG/RYN7yTTQDXE9F77MwtkAyphrjg==",
        "MIT",
    ),
    Package(
        "@lezer/highlight",
        "1.2.5",
        "sha512-O1GMVKgtf5YspFaRzpmqkVgMtIk2HG9uMAbH6wdAIdNh3TVzCsch/+cRi+6l2//UGDKe6NB9BW3cvuR5ezMQ0w==",
        "MIT",
    ),
    Package(
        "@marijn/find-cluster-break",
        "1.0.4",
        "sha512-Wy0V7+SGUjnF9/TkiM1hKVDPj7jKXduPNboMVtHTA8dySMURWqfg/JZ9E2Sq8JgSJmkl7k7Qe9FLeMSrSraWmQ==",
        "MIT",
    ),
    Package(
        "crelt",
        "1.0.7",
        "sha512-aK6BbWfhf4U/wCcLHKPJl/xa6VkVstRaPywWtMKGwuOLc/wZTyQYuoxgvZnNsBvv7Kg3YTBQYYBCggcviQczuA==",
        "MIT",
    ),
    Package(
        "style-mod",
        "4.1.5",
        "sha512-WQ2llCZa9sZSkJA+aOwpg5DkfbAXFKGh//t3MRTBeruFiSBC+GXUmbBzrw3bXyboCWAbtCW9InDfBsXrRD/rAg==",
        "MIT",
    ),
    Package(
        "w3c-keyname",
        "2.2.8",
        "sha512-dpojBhNsCNN7T82Tm7k26A6G9ML3NkhDsnw9n/eoxSRlVBB4CEtIQ/KTCLI2Fwf3ataSXRhYFkQi3SlnFwPvPQ==",
        "MIT",
    ),
)
ESBUILD = Package(
    "@esbuild/linux-x64",
    "0.28.2",
    "sha512-4xTZr1FUmSoQW4XIWmit3tzQrUTZM+N3P0XV8xROKYF50XfI7xeO90+1bZvNwxIufQ9hDQVRJH5YhgPVF8A/HQ==",
    "MIT",
)
EDITOR_FILE, EDITOR_LICENCES = "codemirror.js", "LICENSE-codemirror.txt"
# What the page uses of it.
_EDITOR_EXPORTS = """
export { EditorState } from "@codemirror/state";
export {
  EditorView, keymap, lineNumbers, highlightActiveLine, drawSelection, hoverTooltip,
} from "@codemirror/view";
export { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
export {
  StreamLanguage, HighlightStyle, syntaxHighlighting, bracketMatching, indentUnit,
} from "@codemirror/language";
export { autocompletion, completionKeymap, closeBrackets } from "@codemirror/autocomplete";
export { linter, lintGutter, lintKeymap } from "@codemirror/lint";
export { tags } from "@lezer/highlight";
"""


def integrity(content: bytes) -> str:
    """The hash as npm writes it."""
    return "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()


def fetch(package: Package, folder: Path) -> Path:
    """The folder with the contents of a package."""
    named = f"{package.name}@{package.version}"
    subprocess.run(["npm", "pack", "--silent", named], cwd=folder, check=True)  # noqa: S607
    short = package.name.removeprefix("@").replace("/", "-")
    archive = folder / f"{short}-{package.version}.tgz"
    found = integrity(archive.read_bytes())
    if found != package.integrity:
        raise SystemExit(f"{named} has the integrity {found}, and not {package.integrity}")
    contents = folder / "node_modules" / package.name
    with tarfile.open(archive) as members:
        members.extractall(folder / short, filter="data")
    contents.parent.mkdir(parents=True, exist_ok=True)
    (folder / short / "package").rename(contents)
    return contents


def minified(esbuild: Path, script: Path, *more: str) -> bytes:
    """A module without spaces and comments."""
    options = ["--minify", "--format=esm", "--target=es2022", "--legal-comments=none", *more]
    made = subprocess.run(
        [esbuild, script.name, *options, "--log-level=warning"],
        cwd=script.parent,
        check=True,
        capture_output=True,
    )
    return made.stdout


def editor(folder: Path, esbuild: Path) -> Mapping[str, bytes]:
    """The editor as one file, and the licences of its parts."""
    licences: dict[str, list[str]] = {}
    for package in EDITOR:
        text = (fetch(package, folder) / "LICENSE").read_text("utf-8")
        licences.setdefault(text, []).append(f"{package.name} {package.version}")
    (folder / "editor.js").write_text(_EDITOR_EXPORTS, encoding="utf-8")
    made = minified(esbuild, folder / "editor.js", "--bundle")
    parts = [f"{', '.join(names)}\n\n{text.strip()}\n" for text, names in licences.items()]
    return {EDITOR_FILE: made, EDITOR_LICENCES: "\n----\n\n".join(parts).encode()}


def _known(package: Package, files: Mapping[str, bytes]) -> Mapping[str, object]:
    return {
        "package": package.name,
        "version": package.version,
        "integrity": package.integrity,
        "licence": package.licence,
        "files": {name: integrity(content) for name, content in files.items()},
    }


def main() -> None:
    known = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for package in PACKAGES:
            root = fetch(package, folder)
            files = {here: (root / path).read_bytes() for path, here in package.files.items()}
            known.append(_known(package, files))
            for here, content in files.items():
                (FOLDER / here).write_bytes(content)
        esbuild = fetch(ESBUILD, folder) / "bin" / "esbuild"
        root = fetch(CHART, folder)
        files = {here: (root / path).read_bytes() for path, here in CHART.files.items()}
        files["uplot.js"] = minified(esbuild, root / "dist" / "uPlot.esm.js")
        known.append(_known(CHART, files))
        for here, content in files.items():
            (FOLDER / here).write_bytes(content)
        made = editor(folder, esbuild)
        for here, content in made.items():
            (FOLDER / here).write_bytes(content)
        # The file that is made of several packages stands with the program that made it.
        known += [_known(package, {}) for package in EDITOR] + [_known(ESBUILD, made)]
    VERSIONS.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
