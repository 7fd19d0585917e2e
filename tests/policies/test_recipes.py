"""Recipes: each is checked and tested, and found by the words of those who ask."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.policy_tests.runner import Runner, collect
from grammar.meaning.schema import Schema
from grammar.tree.source import Source
from policies.recipe_collection import Recipe, best, named, recipes, search
from policies.validation import Validator, check_source

RECIPES = recipes()

# What people ask, and a recipe that must be among the first three.
ASKED = [
    ("at most three per zone", "at-most-three-per-zone"),
    ("max 3 per zone", "at-most-three-per-zone"),
    ("away from databases", "never-beside-a-database"),
    ("never beside a database", "never-beside-a-database"),
    ("not next to db", "never-beside-a-database"),
    ("weekends", "not-at-weekends"),
    ("half on spot", "half-on-spot"),
    ("40 percent on spot", "forty-percent-on-spot"),
    ("one per node", "one-per-node"),
    ("at most 3 per node", "at-most-two-per-node"),
    ("at most 12 per node", "at-most-two-per-node"),
    ("do not run two kafka brokers on one machine", "one-per-node"),
    ("spread across zones", "spread-over-zones"),
    ("balance over AZs", "spread-over-zones"),
    ("together with the cache", "beside-the-cache"),
    ("same zone as the database", "in-the-zone-of-the-database"),
    ("only on gpu nodes", "gpu-nodes-for-gpu-pods"),
    ("prefer ssd", "prefer-ssd"),
    ("avoid spot", "avoid-spot"),
    ("never on spot", "never-on-spot"),
    ("working hours", "only-in-working-hours"),
    ("only at night", "only-at-night"),
    ("over midnight", "only-at-night"),
    ("maintenance window", "not-before-maintenance"),
    ("keep memory free", "memory-headroom"),
    ("pack nodes", "pack-cpu"),
    ("bin packing", "pack-cpu"),
    ("emptiest node", "emptiest-nodes-first"),
    ("license limit in the cluster", "licences-in-the-cluster"),
    ("team pool", "team-stays-on-its-pool"),
    ("dedicated nodes for a namespace", "nodes-of-a-team"),
    ("gdpr", "only-in-europe"),
    ("arm64", "only-arm"),
    ("windows", "windows-for-windows-pods"),
    ("kubelet version", "new-kubelets"),
    ("driver version", "new-drivers"),
    ("all or nothing", "all-or-none"),
    ("young nodes", "settled-nodes"),
    ("unless", "unless-important"),
    ("if else", "if-else"),
    ("protect from eviction", "protect-victims"),
    ("dry run", "only-a-trial"),
    ("price of nodes", "cheap-nodes-first"),
    ("missing label", "absent-labels"),
    ("regex node name", "nodes-by-name"),
    ("instance type", "large-machines"),
    ("primary and standby apart", "standby-away-from-primary"),
    ("per rack", "one-per-rack"),
    ("n+1 per zone", "one-zone-can-fail"),
    ("rack power", "power-of-a-rack"),
    ("namespace quota cpu", "quota-of-a-namespace"),
    ("fair share of the cluster", "at-most-half-of-the-cluster"),
    ("licence per core", "licensed-cores"),
    ("cost budget", "cost-of-a-namespace"),
    ("more at night than by day", "more-batch-at-night"),
    ("change freeze", "change-freeze"),
    ("starting pods per node", "three-starting-pods"),
    ("retry on another node", "not-where-the-last-attempt-failed"),
    ("out of memory larger node", "larger-after-oom"),
    ("at most two victims", "at-most-two-victims"),
    ("stop in an outage", "stop-in-an-outage"),
    ("kernel version", "new-kernels"),
]


def test_there_are_at_least_eighty_with_names_of_their_own() -> None:
    assert len(RECIPES) >= 80
    assert len({r.name for r in RECIPES}) == len(RECIPES)
    assert len({r.wish for r in RECIPES}) == len(RECIPES)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda r: r.name)
def test_nothing_is_wrong_with_a_recipe(recipe: Recipe, schema: Schema, tmp_path: Path) -> None:
    """Nor with its tests, of which it has at least one."""
    path = tmp_path / "recipe_test.policy"
    path.write_text(recipe.text, encoding="utf-8")
    collection = collect([path], Validator(schema))
    (suite,) = collection.suites
    assert [d.message for d, _ in suite.errors] == []
    results = list(Runner(collection, schema).run(suite, suite.tests))
    assert results
    assert [r.diagnostics for r in results if r.outcome != "passed"] == []


@pytest.mark.parametrize(
    "recipe", [r for r in RECIPES if "library/" not in r.name], ids=lambda r: r.name
)
def test_a_recipe_has_no_warning(recipe: Recipe, schema: Schema) -> None:
    file = check_source(Source("recipe.policy", recipe.policy), schema)
    assert [d.message for d in file.diagnostics] == []


def test_a_recipe_has_at_most_ten_lines() -> None:
    lines = {r.name: len(r.policy.splitlines()) for r in RECIPES if "library/" not in r.name}
    assert {name: n for name, n in lines.items() if n > 10} == {}


@pytest.mark.parametrize(("words", "name"), ASKED, ids=[a[0] for a in ASKED])
def test_a_recipe_is_found_by_its_words(words: str, name: str) -> None:
    assert name in [r.name for r in search(words)[:3]]
    assert named(name) is not None


@pytest.mark.parametrize(
    ("words", "name", "bound"),
    [
        ("at most 3 per zone", "at-most-three-per-zone", "per zone at most 3 strict"),
        ("at most 7 pods per node", "at-most-7-per-node", "per node at most 7 strict"),
        ("no more than four in each region", "at-most-4-per-region", "per region at most 4"),
        ("one per zone", "at-most-1-per-zone", "per zone at most 1 strict"),
        ("one per rack", "one-per-rack", 'per node.labels["rack"] at most 1 strict'),
        ("at most 2 per rack", "at-most-2-per-rack", 'per node.labels["rack"] at most 2 strict'),
        ("at-most-5-per-zone", "at-most-5-per-zone", "per zone at most 5 strict"),
        ("max 50 per node", "at-most-50-per-node", "per node at most 50 strict"),
    ],
)
def test_a_number_and_a_place_are_written_into_the_recipe(
    words: str, name: str, bound: str, schema: Schema, tmp_path: Path
) -> None:
    """It is a recipe as all others: nothing is wrong with it, and it passes its tests."""
    recipe, others = best(words)
    assert recipe.name == name
    assert f"{{ {bound}" in recipe.policy
    assert name not in [each.name for each in others]
    test_nothing_is_wrong_with_a_recipe(recipe, schema, tmp_path)
    test_a_recipe_has_no_warning(recipe, schema)


@pytest.mark.parametrize(
    "words",
    [
        "at most 51 per node",
        "at most 3 per zone if possible",
        "at least 2 per zone",
        "at most 0 per zone",
        "at most -7 per node",
    ],
)
def test_a_wish_that_says_more_gets_a_recipe_that_is_written(words: str) -> None:
    assert best(words)[0] in RECIPES


def test_words_that_mean_nothing_find_nothing() -> None:
    assert search("") == ()
    assert search("the of and") == ()
    assert search("xyzzy frobnicate") == ()
