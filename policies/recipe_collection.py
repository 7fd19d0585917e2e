"""Recipes: whole policies with tests for what people wish, found by words.

They are those of `policies/recipes/`, and the policies of the library, each as another policy uses
it. A recipe is a policy with the tests below it; the comment above it has further words by
which it is found. They ship with Placet and never change while it runs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import log
from pathlib import Path
from string import Template

from grammar.messages.diagnostics import UserError
from grammar.syntax.parser import parse_file
from grammar.tree.source import Source
from policies.loader import TEST_SUFFIX, library_sources, parsed_library

_FOLDER, _WORDS = Path(__file__).with_name("recipes"), "# words:"
# So many recipes are named for some words; the best one is shown whole.
MOST_NAMED = 3
_STOP = frozenset(
    "a an the of on in at to for with and or is are be by from that this it as its my our their "
    "pods pod node nodes only when if run should must want do does per each every".split()
)
# A place for which something is counted.
_COUNTED_IN = re.compile(
    r"\b(?:per|(?:in|on|for) (?:each|every|one|an?|the same)|each|every|same)"
    r" (node|host|machine|server|zone|az|region|rack|cluster|namespace)s?\b"
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """A recipe for a wish: a name, the wish in a line, a policy, and its tests."""

    name: str
    wish: str
    policy: str
    tests: str
    words: str = ""

    @property
    def text(self) -> str:
        """The whole recipe as a file of the language."""
        return f"{self.policy}\n\n{self.tests}" if self.tests else f"{self.policy}\n"


@cache
def recipes() -> tuple[Recipe, ...]:
    """All recipes, those of wishes first, then those of the library."""
    return (*_of_wishes(), *_of_library())


def search(words: str) -> tuple[Recipe, ...]:
    """The recipes that have words of a search, the best first; none if no word is known."""
    wanted = set(_terms(words))
    known = _weighed()
    spread = Counter(term for _, weights in known for term in weights)
    scores = {
        recipe.name: sum(
            weights[term] * log(1 + len(known) / spread[term]) for term in wanted if term in weights
        )
        - _UNASKED * len({*_terms(recipe.wish)} - wanted)
        for recipe, weights in known
    }
    # What has much less of the search than the best one is about something else.
    least = max(scores.values()) / 3
    found = (r for r, _ in known if scores[r.name] > 0 and scores[r.name] >= least)
    return tuple(sorted(found, key=lambda r: -scores[r.name]))


def named(name: str) -> Recipe | None:
    """The recipe of a name."""
    return next((recipe for recipe in recipes() if recipe.name == name), None)


def best(words: str) -> tuple[Recipe, tuple[Recipe, ...]]:
    """The recipe of a name, or the best one for words, and some others.

    Raises UserError if there is none.
    """
    matching = search(words) if (known := named(words)) is None else (known,)
    if known is None and (bounded := _bounded(words)) is not None:
        matching = (bounded, *(each for each in matching if each.name != bounded.name))
    if not matching:
        hint = "use other words; without words all recipes are listed"
        raise UserError(f"no recipe is about `{words}`", hint)
    return matching[0], matching[1:MOST_NAMED]


def shown(recipe: Recipe, others: tuple[Recipe, ...]) -> list[str]:
    """The lines that name some recipes, each with its number, and show the first one whole."""
    named_ones = listed((recipe, *others)) if others else []
    numbered = [f"# {number}  {line}" for number, line in enumerate(named_ones, 1)]
    whole = f"# {'1: ' if others else ''}{recipe.name}: {recipe.wish}"
    return [*numbered, *[""] * bool(others), whole, *recipe.text.rstrip().split("\n")]


# ---- a recipe with the number and the place of a wish

_BOUND = re.compile(r'limit ".*" \{ per (node|zone|region) at most ([1-9]\d*) strict \}')
_POD = '  pod "shop/web-%s" {"labels": {"app": "web"}, "workload": {"name": "web"}} on "a-1"'
_MOST_PODS = 50


def _bounded(words: str) -> Recipe | None:
    """The recipe for at most so many pods in a place; None for words that say something else."""
    # It reads all that a wish can say, and takes a while to load.
    from grammar.mistakes.readings import clause_of  # noqa: PLC0415

    # The name of such a recipe says the same.
    said_plainly = re.sub(r"\b-", " ", words).replace("rack", "zone")
    found = _BOUND.fullmatch(clause_of(said_plainly) or "")
    if found is None or int(found[2]) > _MOST_PODS:
        return None
    place, number = ("rack" if "rack" in words else found[1]), int(found[2])
    per = 'node.labels["rack"]' if place == "rack" else place
    said = {"number": number, "place": place, "bound": f"{{ per {per} at most {number} strict }}"}
    known = (recipe for recipe in recipes() if f"{said['bound']}\n" in recipe.policy)
    pods = "\n".join(_POD % each for each in range(1, number + 1))
    template = (_FOLDER / "at-most.txt").read_text(encoding="utf-8")
    return next(known, None) or _recipe(Template(template).substitute(said, pods=pods))


# What a word of the wish counts for, one of the comment, and one of the policy itself.
_OF_WISH, _OF_COMMENT, _OF_TEXT = 3.0, 2.0, 0.3
# What a word of a recipe counts for that nobody asked for.
_UNASKED = 0.2


@cache
def _weighed() -> tuple[tuple[Recipe, dict[str, float]], ...]:
    """The recipes with the weights of their words."""
    found: list[tuple[Recipe, dict[str, float]]] = []
    for recipe in recipes():
        weights = dict.fromkeys(_terms(recipe.policy), _OF_TEXT)
        weights |= dict.fromkeys(_terms(recipe.words), _OF_COMMENT)
        weights |= dict.fromkeys(_terms(f"{recipe.wish} {recipe.name}"), _OF_WISH)
        found.append((recipe, weights))
    return tuple(found)


def _terms(text: str) -> list[str]:
    """The words of a text in the form in which they are compared."""
    plain = text.lower().replace("-", " ")
    found = re.findall(r"%|[a-z][a-z0-9']*|\d+", plain)
    terms = [_stem(word) for word in found if word not in _STOP]
    return [*terms, *(f"per {_stem(place)}" for place in _COUNTED_IN.findall(plain))]


def _stem(word: str) -> str:
    """The word without the ending of a plural or a participle."""
    for ending in ("ies", "ing", "es", "ed", "s", "ly"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            stem = word.removesuffix(ending)
            return f"{stem}y" if ending == "ies" else stem.removesuffix("e")
    return word.removesuffix("e") if len(word) > 4 else word


# ---- reading


def _of_wishes() -> list[Recipe]:
    """The recipes of files: each is a comment with words, a policy, and tests."""
    found: list[Recipe] = []
    for path in sorted(_FOLDER.glob("*.policy")):
        for part in re.split(rf"(?m)^(?={_WORDS})", path.read_text(encoding="utf-8"))[1:]:
            first, _, rest = part.partition("\n")
            found.append(_recipe(rest, first.removeprefix(_WORDS).strip()))
    return found


def _recipe(text: str, words: str = "") -> Recipe:
    """The recipe of a text: a policy, and tests below it."""
    policy, tests = _divided(text)
    file, wrong = parse_file(Source("recipe", policy))
    assert not wrong, wrong
    (parsed,) = file.policies
    wish = str(parsed.setting("description", parsed.name))
    return Recipe(parsed.name, wish, policy, tests, words)


def _divided(text: str) -> tuple[str, str]:
    """What comes before the tests of a text, and the tests."""
    policy, *tests = re.split(r"(?m)^(?=test )", text.strip(), maxsplit=1)
    return policy.strip(), f"{tests[0]}\n" if tests else ""


def _of_library() -> list[Recipe]:
    """The policies of the library, each with the policy of its tests, which uses it."""
    tests = {source.name: source.text for source in library_sources(tests=True)}
    found: list[Recipe] = []
    for source, file, _ in parsed_library():
        for policy in file.policies:
            test = tests.get(source.name.removesuffix(".policy") + TEST_SUFFIX, "")
            name, (used, written) = f"library/{policy.name}", _divided(test)
            if re.search(r"(?m)^(?:cluster )?policy ", used) is None:
                used = f'cluster policy example {{\n  use "{name}"\n}}'
            comment = " ".join(re.findall(r"(?m)^#\s*(.+)$", source.text))
            wish = str(policy.setting("description", policy.name))
            found.append(Recipe(name, wish, used, written, comment))
    return found


def listed(found: Sequence[Recipe]) -> list[str]:
    """A line for each recipe: its name and its wish."""
    width = max((len(r.name) for r in found), default=0)
    return [f"{r.name:<{width}}  {r.wish}" for r in found]
