"""Files and documents that do harm to their readers: each ends soon, with a clear error."""

from __future__ import annotations

import os
import threading
import time
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from grammar.meaning.schema import load_schema
from grammar.tree.source import Source
from policies.disk import MOST_OF_DOCUMENT, MOST_OF_PIPE, contents, received
from policies.documents import DocumentError, as_json, read
from policies.manifest_text import GROUP
from policies.validation import check_source
from tests.support.hostile_documents import DOCUMENTS
from tests.support.rows import rows

# What JSON says is passed on unread, and read by its types.
_READ = [name for name in DOCUMENTS if name.endswith(".yaml")]


@pytest.mark.parametrize("name", _READ)
def test_a_hostile_document_is_an_error(name: str) -> None:
    began, text = time.process_time(), DOCUMENTS[name]
    with pytest.raises(DocumentError) if name != "itself.yaml" else nullcontext():
        [*read(text)]
    with suppress(DocumentError):
        assert sum(map(len, as_json(text.encode(), is_yaml=True))) < 2 * len(text)
    assert time.process_time() - began < 5


def test_aliases_that_repeat_little_are_read() -> None:
    (document,) = read("a: &a {x: 1}\nb: [*a, *a]\nc: {<<: *a, y: 2}\n")
    assert document.value == {"a": {"x": 1}, "b": [{"x": 1}, {"x": 1}], "c": {"x": 1, "y": 2}}


def test_what_comes_through_a_pipe_is_read(tmp_path: Path) -> None:
    """Also if its writer comes later, as `<(kubectl get pods)` does."""
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"a" * 200_000,))
    writer.start()
    assert contents(tmp_path / "pipe") == b"a" * 200_000
    writer.join()


def test_a_silent_pipe_is_left() -> None:
    ours, theirs = os.pipe()
    with pytest.raises(TimeoutError, match="nothing has come from it for 1 seconds"):
        received(ours, MOST_OF_DOCUMENT, seconds=1.0)
    os.close(ours)
    os.close(theirs)


def test_a_device_is_read_up_to_the_limit() -> None:
    assert contents(Path(os.devnull)) == b""
    with pytest.raises(OSError, match="it has more than 4,194,304 bytes"):
        contents(Path("/dev/zero"))
    with pytest.raises(OSError, match="it is not a regular file"):
        contents(Path("/dev/zero"), takes_pipes=False)
    assert MOST_OF_PIPE < 2**30


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(OSError, match="it has 1,099,511,627,776 bytes; the limit is 4,194,304"):
        contents(tmp_path / "large")


_OURS = f"{GROUP}/v1alpha1"
_MANY = {
    "empty": "--- {}\n",
    "items": "- {a: 1, a: 2}\n",
    "no fields": f"---\napiVersion: {_OURS}\nkind: PlacementPolicy\nspec: {{odd: 1}}\n",
    "other kinds": f"---\napiVersion: {_OURS}\nkind: PlacementPolcy\n",
}


@rows("text", _MANY)
def test_many_documents_with_mistakes_cost_bounded_time(text: str) -> None:
    """After a thousand mistakes a file is read no further."""
    began = time.process_time()
    head = "kind: List\nitems:\n" if text.startswith("- ") else ""
    found = check_source(Source("many.yaml", head + text * 5_000), load_schema())
    assert time.process_time() - began < 10
    assert len(found.diagnostics) == 1_001
    said = "after 1,000 mistakes the file is read no further"
    assert [d.message for d in found.diagnostics if d.code == "P0504"] == [said]
