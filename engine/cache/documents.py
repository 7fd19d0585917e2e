"""The JSON and YAML documents in files that somebody named, each as the bytes of a JSON value."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import yaml

from policies.yaml_text import MAX_DEPTH, JsonLoader, depth, problem

SUFFIXES = frozenset({".json", ".yaml", ".yml"})
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    # What `>` writes in some shells on Windows.
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class ClusterFileError(Exception):
    """A file that cannot be read as what it should be: a sentence, and what to do about it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def files_of(paths: Sequence[Path]) -> list[Path]:
    """The files behind the paths: a folder stands for the JSON and YAML files in it, by name.

    Raises ClusterFileError for a path that is not there and a folder without such files.
    """
    files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        inside = sorted(p for p in path.iterdir() if p.suffix in SUFFIXES and p.is_file())
        if not inside:
            raise ClusterFileError(
                f"the folder `{path}` has no JSON or YAML files",
                how_to_write(path / "cluster.json"),
            )
        files.extend(inside)
    return files


def documents(path: Path) -> Iterator[bytes]:
    """The documents of a file, by what is in it: its name says nothing for sure.

    Raises ClusterFileError for a file that cannot be read, is empty, or is neither JSON nor YAML.
    """
    data = _read(path)
    if not data.strip():
        raise ClusterFileError(f"`{path}` is empty", how_to_write(path))
    if data.lstrip()[:1] in b"{[" and path.suffix not in {".yaml", ".yml"}:
        yield data
        return
    yield from _yaml_documents(data, path)


def how_to_write(path: Path) -> str:
    """The command that makes such a file."""
    form = "yaml" if path.suffix in {".yaml", ".yml"} else "json"
    return f"write one with `kubectl get nodes,pods -A -o {form} > {path}`"


def _read(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ClusterFileError(f"cannot read `{path}`: {reason}", how_to_write(path)) from None
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            try:
                return data.decode(encoding).encode()
            except UnicodeDecodeError:
                raise ClusterFileError(f"`{path}` is not text", how_to_write(path)) from None
    return data


def _yaml_documents(data: bytes, path: Path) -> Iterator[bytes]:
    if depth(data) > MAX_DEPTH:
        raise ClusterFileError(f"`{path}` is nested too deeply", how_to_write(path))
    try:
        # An empty file and `---` alone are documents of their own, of nothing.
        for document in yaml.load_all(data, Loader=JsonLoader):
            if document is not None:
                yield msgspec.json.encode(document)
    except yaml.YAMLError as error:
        raise ClusterFileError(
            f"`{path}` is not YAML: {problem(error)}",
            "a file that was cut off can be written again",
        ) from None
    except UnicodeDecodeError:
        raise ClusterFileError(f"`{path}` is not UTF-8 text", how_to_write(path)) from None
    except RecursionError:
        raise ClusterFileError(f"`{path}` is nested too deeply", how_to_write(path)) from None
    except (TypeError, ValueError, OverflowError) as error:
        # YAML can say things that JSON cannot: a list as a key, a tag for a date that is none.
        raise ClusterFileError(
            f"`{path}` is not what JSON could be: {error}", how_to_write(path)
        ) from None
