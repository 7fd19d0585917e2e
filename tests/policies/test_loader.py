"""Paths to policies in force: files, silent disks, and what holds of the texts they give."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.enforced import InForce, succeed
from grammar.meaning.schema import Schema
from grammar.tree.source import Source
from policies.disk import Disk, Visit
from policies.loader import Search, load
from policies.validation import Validator


def names(*paths: Path) -> list[str]:
    return [path.name for path in Search(paths).files]


def test_folder_stands_for_its_policy_files(tmp_path: Path) -> None:
    """In and below it, by name, without other files and hidden ones."""
    (tmp_path / "below").mkdir()
    (tmp_path / ".hidden").mkdir()
    for name in ("b.policy", "a_test.policy", "notes.txt", "below/c.policy", ".hidden/d.policy"):
        (tmp_path / name).touch()
    (tmp_path / ".e.policy").touch()
    assert names(tmp_path) == ["a_test.policy", "b.policy", "c.policy"]


def test_named_file_is_read_whatever_it_is_called(tmp_path: Path) -> None:
    path = tmp_path / "rules.txt"
    path.write_text("# nothing", encoding="utf-8")
    loaded = load([path])
    assert [(s.name, s.text) for s in loaded.sources] == [(str(path), "# nothing")]
    assert loaded.problems == ()


def test_file_is_read_once(tmp_path: Path) -> None:
    """However often it is named, and through links too."""
    (tmp_path / "a.policy").touch()
    (tmp_path / "b.policy").symlink_to(tmp_path / "a.policy")
    assert names(tmp_path, tmp_path / "a.policy", tmp_path) == ["a.policy"]


def test_mounted_config_map_is_read(tmp_path: Path) -> None:
    """Its files are links through a hidden link into a hidden folder."""
    (tmp_path / "..2026_11_21").mkdir()
    (tmp_path / "..2026_11_21" / "shop.policy").touch()
    (tmp_path / "..data").symlink_to("..2026_11_21")
    (tmp_path / "shop.policy").symlink_to("..data/shop.policy")
    assert Search([tmp_path]).files == [tmp_path / "shop.policy"]


def test_loop_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "again").symlink_to(tmp_path)
    (tmp_path / "a.policy").touch()
    assert names(tmp_path) == ["a.policy"]


def test_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.policy").write_bytes(b"\xef\xbb\xbf# text")
    assert load([tmp_path]).sources[0].text == "# text"


def test_good_files_are_read_beside_bad_ones(tmp_path: Path) -> None:
    """A sentence and a hint for each that is not."""
    (tmp_path / "good.policy").touch()
    (tmp_path / "latin.policy").write_bytes(b"# caf\xe9")
    (tmp_path / "empty").mkdir()
    loaded = load([tmp_path, tmp_path / "missing.policy", tmp_path / "empty"])
    assert [Path(s.name).name for s in loaded.sources] == ["good.policy"]
    ending = "policy files end in `.policy`, manifests in `.json`, `.yaml` or `.yml`"
    assert {p.message.replace(str(tmp_path), ""): (p.hint, p.unread) for p in loaded.problems} == {
        "`/latin.policy` is not UTF-8 text at byte 5": ("save it as UTF-8", True),
        "`/missing.policy` does not exist": ("check the path", False),
        "the folder `/empty` has no policy files": (ending, False),
    }


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_unread(tmp_path: Path) -> None:
    """Files and folders; it may be there, so nothing follows from its silence."""
    (tmp_path / "a.policy").touch(mode=0)
    (tmp_path / "closed").mkdir(mode=0)
    problems = load([tmp_path]).problems
    assert [p.message.partition(": ")[2] for p in problems] == ["permission denied"] * 2
    assert all(p.unread for p in problems)


# ---- the disk of a server: what never answers is left out, and is asked again once it does


GOOD, HUNG, BESIDE = Path("folder/good"), Path("folder/hung"), Path("folder/hung/beside")


@pytest.fixture
def answers() -> Iterator[threading.Event]:
    """Whether the silent path answers; it does at the end, so that no thread is left."""
    event = threading.Event()
    yield event
    event.set()


def look(visit: Visit, answers: threading.Event) -> dict[Path, str]:
    """What each path answers, or why it does not."""
    found = {}
    for path in (HUNG, GOOD, BESIDE):
        try:
            visit(path)
        except OSError as error:
            found[path] = error.strerror or ""
            continue
        if path == HUNG:
            answers.wait()
        found[path] = "here"
    return found


def test_a_path_that_never_answers_is_left_out_with_all_beneath(answers: threading.Event) -> None:
    """The second time nobody waits for it, and no further thread does."""
    disk = Disk(seconds=1.0)
    silent = "the file system does not answer"
    wanted = {HUNG: silent, GOOD: "here", BESIDE: silent}
    before = threading.active_count()
    for _ in range(3):
        assert disk.run(lambda visit: look(visit, answers)) == wanted
    assert threading.active_count() <= before + 2
    answers.set()
    until_ended(disk, answers)


def until_ended(disk: Disk, answers: threading.Event) -> None:
    deadline = time.monotonic() + 10
    while set(disk.run(lambda visit: look(visit, answers)).values()) != {"here"}:
        assert time.monotonic() < deadline


def test_many_silent_paths_take_few_threads(answers: threading.Event) -> None:
    """Their folder counts as silent then."""
    disk = Disk(seconds=0.05, more_seconds=0.01)
    paths = [Path(f"folder/{number}") for number in range(100)]

    def work(visit: Visit) -> int:
        silent = 0
        for path in paths:
            try:
                visit(path)
            except OSError:
                silent += 1
            else:
                answers.wait()
        return silent

    before = threading.active_count()
    assert disk.run(work) == 100
    assert threading.active_count() <= before + 10


def test_errors_of_the_work_are_those_of_the_call() -> None:
    def work(_visit: Visit) -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        Disk().run(work)


# ---- inForce: the last valid version of each policy stays in force after a change


class Files:
    """Policy files over time: each call is how they are next."""

    def __init__(self, schema: Schema) -> None:
        self._validator = Validator(schema)
        self.now = InForce()

    def __call__(self, *unread: str, **texts: str) -> list[str]:
        """What is in force: `name:disk`, with a star where that is not what the file says."""
        sources = [Source(name, text) for name, text in texts.items()]
        self.now = succeed(self.now, self._validator.validate(sources), unread)
        return [
            f"{s.checked.policy.setting('description', '')}{'*' if s.stale else ''}"
            for s in self.now.active
        ]


@pytest.fixture
def files(schema: Schema) -> Files:
    return Files(schema)


def policy(name: str, disk: str, *, broken: bool = False) -> str:
    field = "lables" if broken else "labels"
    return (
        f'cluster policy {name} {{ description "{name}:{disk}"\n'
        f'filter "disk" {{ require node.{field}["disk"] == "{disk}" }} }}\n'
    )


UNREADABLE = "cluster policy x { filter\n"


def test_what_holds_is_in_force(files: Files) -> None:
    assert files(one=policy("a", "ssd") + policy("b", "hdd")) == ["a:ssd", "b:hdd"]
    assert files(one=policy("a", "nvme")) == ["a:nvme"]
    assert files() == []


def test_policy_that_does_not_hold_keeps_its_last_version(files: Files) -> None:
    """The others of its file change all the same."""
    files(one=policy("a", "ssd") + policy("b", "ssd"))
    broken = policy("a", "hdd", broken=True)
    assert files(one=broken + policy("b", "hdd")) == ["a:ssd*", "b:hdd"]
    assert files(one=broken) == ["a:ssd*"]
    assert files(one=policy("a", "hdd")) == ["a:hdd"]


def test_file_that_cannot_be_read_whole_keeps_all_of_it(files: Files) -> None:
    """Its changes to policies that could be read are not in force either."""
    files(one=policy("a", "ssd") + policy("b", "ssd"), two=policy("c", "ssd"))
    now = files(one=policy("a", "hdd") + UNREADABLE, two=policy("c", "hdd"))
    assert now == ["a:ssd*", "b:ssd*", "c:hdd"]


def test_file_that_gives_no_text_keeps_all_of_it(files: Files) -> None:
    files(one=policy("a", "ssd"), two=policy("b", "ssd"))
    assert files("one", two=policy("b", "hdd")) == ["b:hdd", "a:ssd*"]
    assert files(two=policy("b", "hdd")) == ["b:hdd"]


def test_what_never_held_governs_nothing(files: Files) -> None:
    assert files(one=policy("a", "ssd", broken=True) + policy("b", "ssd")) == ["b:ssd"]
    assert files.now.idle == ("a",)
    assert files(one=policy("b", "ssd") + policy("c", "ssd") + UNREADABLE) == ["b:ssd*"]
    # Of a text that ends too early, the block that is open is a policy, too.
    assert list(files.now.idle) == ["c", "x"]


def test_policy_takes_its_last_version_along_to_another_file(files: Files) -> None:
    """Whether the file that it leaves can be read or not, the policy stands once."""
    files(one=policy("a", "ssd"), two="")
    assert files(one="", two=policy("a", "hdd", broken=True)) == ["a:ssd*"]
    assert files(one=UNREADABLE, two=policy("a", "hdd")) == ["a:hdd"]


def test_of_two_policies_of_one_name_the_first_is_in_force(files: Files) -> None:
    """The second is the mistake, and its removal ends that."""
    assert files(one=policy("a", "ssd"), two=policy("a", "hdd")) == ["a:ssd"]
    assert files(two=policy("a", "hdd")) == ["a:hdd"]
    assert files(one=policy("a", "ssd", broken=True), two=policy("a", "nvme")) == ["a:hdd*"]


def test_policies_of_test_files_are_never_in_force(files: Files) -> None:
    assert files(**{"a.policy": policy("a", "ssd"), "a_test.policy": policy("b", "hdd")}) == [
        "a:ssd"
    ]
    assert files.now.idle == ()
