"""The table of docs/extender.md, and what was observed of each version of kube-scheduler."""

from tests.contract import versions


def test_the_page_has_what_was_observed() -> None:
    assert versions.table(versions.read()) in versions.PAGE.read_text(encoding="utf-8")


def test_what_the_page_says_of_all_versions() -> None:
    """Requests have the same keys, and answers the same effect, in all of them."""
    found = versions.read()
    for fact in next(iter(found.values())):
        if not fact.startswith("feature "):
            assert len({each[fact] for each in found.values()}) == 1, fact
