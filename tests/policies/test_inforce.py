"""InForce: the last valid version of each policy stays in force after a change."""

import pytest

from grammar.meaning.schema import Schema, load_schema
from grammar.tree.source import Source
from policies.validation import InForce, Validator, succeed


@pytest.fixture(scope="module")
def schema() -> Schema:
    return load_schema()


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
