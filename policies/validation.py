"""Validation: texts to checked policies, and `use` between policies."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, pairwise

from grammar import rules
from grammar.checker import declarations
from grammar.checker.policy_checker import Checked, check_policy, refusal
from grammar.meaning.access import beyond
from grammar.meaning.environment import ClusterFacts
from grammar.meaning.schema import Schema
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic
from grammar.rules.pods import gangs_of, has_mutual_limit, together, unknown_of_selector
from grammar.syntax.formatter import print_data
from grammar.syntax.parser import DECLARING, Lexemes, parse_file
from grammar.tree.ast import Expr, Ident
from grammar.tree.policy import Argument, Data, File, FromConfigMap, Policy, Test, Use, of_kind
from grammar.tree.printer import print_expression
from grammar.tree.source import Source, Span
from grammar.tree.walk import walk
from policies.loader import is_manifest, is_test_file, parsed_library

# The prefix of the policies that come with Placet.
LIBRARY = "library/"

# The most policies that a policy uses, directly or not: two `use`s in each of thirty policies would
# otherwise lead to a billion.
MOST_USED = 100
# The errors of `use` that are reported for one policy.
_MOST_USE_ERRORS = 10
# The warnings about a constant, which a `use` may have given: a resource, a percentage, a word.
_ABOUT_CONSTANTS = frozenset(
    "P0331 P0332 P0333 P0337 P0339 P0343 P0344 P0345 P0346 P0347 P0348".split()
)


def known_names(policies: Iterable[Checked], library: Iterable[Checked]) -> dict[str, Checked]:
    """The policies that `use` can name: by address, and policies of the library with a prefix."""
    found = {LIBRARY + c.policy.name: c for c in library}
    for checked in policies:
        found.setdefault(checked.policy.address, checked)
    return found


@lru_cache(maxsize=1)
def checked_library(schema: Schema) -> tuple[Checked, ...]:
    """The policies that come with Placet, checked; most processes have one schema."""
    checked = (checked_file(*parsed, schema) for parsed in parsed_library())
    return tuple(policy for file in checked for policy in file.policies)


# A policy with values for its parameters.
Fill = Callable[[Checked, Mapping[str, Expr]], Checked]


def fill(checked: Checked, values: Mapping[str, Expr]) -> Checked:
    """The policy with checked values for its parameters, checked again."""
    schema = checked.environment.schema
    assert schema is not None, "policies are checked with a schema"
    assert checked.template is not None, "it has parameters"
    return _further(check_policy(checked.template, schema, values), filled=True)


def resolve(checked: Checked, names: Mapping[str, Checked], make: Fill = fill) -> Checked:
    """The policy with all policies that it uses, directly or not; errors become its diagnostics."""
    found: list[Diagnostic] = []
    path = [checked.policy.address]
    used = tuple(islice(_used(checked, names, path, found, make), MOST_USED + 1))
    found.extend(_about_values(checked.policy, names))
    if checked.policy.namespace is not None:
        found.extend(catalogue.closed_use(use.name, m, use.span) for use, m in _beyond(used))
        with_cards = (use for use, other in used if other.environment.cards)
        found.extend(catalogue.cards_of_namespace(use.span) for use in with_cards)
        found.extend(_chosen_sources(checked, used, names, make))
    if not used and not found:
        return checked
    if (what := unknown_of_selector(checked)) is not None:
        there = (use for use, other in used if has_mutual_limit(other))
        found.extend(catalogue.uses_mutual(use.name, what, use.span) for use in there)
    if len(used) > MOST_USED:
        found.append(catalogue.too_many_uses(MOST_USED, used[-1][0].span))
    taken = {c.name for c in checked.policy.clauses}
    for use, other in used:
        for clause in other.policy.clauses:
            if clause.name in taken:
                found.append(catalogue.duplicate_name("the clause", clause.name, use.span))
            taken.add(clause.name)
    found.extend(_gangs_of_the_same_pods(checked, used))
    uses = tuple(other for _, other in used)
    return replace(checked, uses=uses, diagnostics=(*checked.diagnostics, *found))


def _gangs_of_the_same_pods(
    checked: Checked, used: Iterable[tuple[Use, Checked]]
) -> Iterator[Diagnostic]:
    """The gangs of used policies that can have the same pods as another gang of the policy."""
    known = [*gangs_of(checked)]
    for use, other in used:
        for gang in gangs_of(other):
            for each in known:
                if (severity := together(each, gang)) is not None:
                    yield catalogue.two_gangs(each.name, use.span, severity)
                    break
            known.append(gang)


def uses_others(policy: Policy) -> bool:
    """Whether a policy names others, or has values for their parameters."""
    return bool(policy.values) or bool(of_kind(policy.items, Use))


def _used(
    checked: Checked,
    names: Mapping[str, Checked],
    path: list[str],
    found: list[Diagnostic],
    make: Fill,
) -> Iterable[tuple[Use, Checked]]:
    for use in of_kind(checked.policy.items, Use):
        # Each of them compares names, which takes long if there are many.
        if sum(d.severity == "error" for d in found) >= _MOST_USE_ERRORS:
            return
        key = _key(use.name, checked.policy, names)
        other = names.get(key)
        if other is None:
            found.append(catalogue.unknown_policy(use.name, _offered(names, checked), use.span))
        elif key in path:
            found.append(catalogue.recursion([*path, key], use.span))
        elif other.broken:
            found.append(catalogue.broken_use(use.name, use.span))
        elif (made := _filled(use, other, checked.policy.values, found, make)) is not None:
            yield use, made
            inner = _used(made, names, [*path, key], found, make)
            # An error in a policy further down belongs to the `use` that leads there.
            yield from ((use, deeper) for _, deeper in inner)


def _offered(names: Mapping[str, Checked], user: Checked) -> Iterator[str]:
    """The names that a policy is told of: one of a namespace, none of another namespace."""
    own = (None, user.policy.namespace)
    every = user.policy.namespace is None
    return (name for name, each in names.items() if every or each.policy.namespace in own)


def _filled(
    use: Use, other: Checked, more: Sequence[Argument], found: list[Diagnostic], make: Fill
) -> Checked | None:
    """The policy with the values that it gets; None for values that it does not accept.

    `more` are values for every `use`. One in the `use` itself comes before them.
    """
    policy, schema = other.policy, other.environment.schema
    assert schema is not None, "policies are checked with a schema"
    own = {argument.name for argument in use.arguments}
    known = {parameter.name for parameter in policy.parameters}
    shared = (a for a in more if a.name in known - own)
    values, wrong = declarations.given(policy, (*use.arguments, *shared), use.span, schema)
    found.extend(wrong)
    if wrong:
        return None
    if not values:
        return other
    made = make(other, values)
    error = next((d for d in made.diagnostics if d.severity == "error"), None)
    if error is not None:
        found.append(catalogue.bad_filling(use.name, error, use.span))
        return None
    before = {d.message for d in other.diagnostics}
    odd = {d.message: d for d in made.diagnostics if d.code in _ABOUT_CONSTANTS}
    found.extend(
        catalogue.odd_filling(use.name, d, use.span)
        for message, d in odd.items()
        if message not in before
    )
    return made


def _about_values(policy: Policy, names: Mapping[str, Checked]) -> Iterator[Diagnostic]:
    """An error for each value for every `use` that none of the used policies has a parameter for.

    None if one of these policies is unknown: it could have the parameter.
    """
    used = [names.get(_key(i.name, policy, names)) for i in of_kind(policy.items, Use)]
    if None in used:
        return
    known = {p.name for other in used if other is not None for p in other.policy.parameters}
    for value in policy.values:
        if value.name not in known:
            yield catalogue.unused_value(value.name, known, value.span)


def _chosen_sources(
    checked: Checked, used: Sequence[tuple[Use, Checked]], names: Mapping[str, Checked], make: Fill
) -> Iterator[Diagnostic]:
    """An error for each block of data that a policy of a namespace chooses by its values.

    Placet reads sources with its own rights, so operators choose them; a ConfigMap of the namespace
    may be chosen.
    """
    policy = checked.policy
    blocks = [(use, data) for use, other in used for data in of_kind(other.policy.items, Data)]
    if not blocks or not (policy.values or any(use.arguments for use, _ in used)):
        return
    items = (replace(i, arguments=()) if isinstance(i, Use) else i for i in policy.items)
    plain = replace(checked, policy=replace(policy, values=(), items=tuple(items)))
    offered = islice(_used(plain, names, [policy.address], [], make), MOST_USED + 1)
    known = {
        print_data(data)
        for _, other in offered
        for data in of_kind(other.policy.items, Data)
        if not declarations.has_example(data.source)
    }
    own = f"{policy.namespace}/"
    for use, data in blocks:
        source = data.source
        is_own = isinstance(source, FromConfigMap) and source.name.startswith(own)
        if not is_own and print_data(data) not in known:
            message = f"a policy of a namespace cannot choose the source of `data.{data.name}`"
            hint = "leave out the values of its parameters, or choose a ConfigMap of the namespace"
            yield catalogue.data_of_namespace(message, use.span, hint)


def _beyond(used: Iterable[tuple[Use, Checked]]) -> Iterator[tuple[Use, str]]:
    """Each `use` whose policy reads more than a policy of a namespace may, with the thing read."""
    for use, other in used:
        environment = other.environment
        assert environment.schema is not None, "policies are checked with a schema"
        definitions = environment.definitions
        if more := beyond(other.policy, environment.schema, definitions):
            yield use, more[0].what


def _key(name: str, user: Policy, names: Mapping[str, Checked]) -> str:
    """The key of what a `use` names: an address, or a name in the namespace of the user."""
    near = f"{user.namespace}/{name}"
    return near if user.namespace is not None and near in names else name


# ---- texts to checked policies

# Whether it is a cluster policy, its namespace, and its name; unique for each policy.
Identity = tuple[bool, str | None, str]

# A name, a function, cards, data, a group.
_UNKNOWN = frozenset({"P0101", "P0103", "P0132", "P0137", "P0138"})
_SELECTS_EVERYTHING = "P0206"
_NOWHERE = Span(0, 0)
# What the default of a parameter makes always true, or always kept, another value may not.
_BY_DEFAULT = frozenset({"P0302", "P0310", "P0311", "P0348"})


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A checked file. `whole` is true if all of it could be parsed."""

    source: Source
    whole: bool
    policies: tuple[Checked, ...]
    tests: tuple[Test, ...]
    # The diagnostics of the text itself; the diagnostics of a policy are in the policy.
    unread: tuple[Diagnostic, ...]
    # The number of objects of other kinds beside the policies.
    others: int = 0
    # What is left of policies with errors that could reject nodes: the selectors of their pods.
    refusing: tuple[Checked, ...] = ()
    # False if it may have a policy of which nobody knows the pods.
    knows_pods: bool = True

    @property
    def private(self) -> bool:
        """Whether its policies apply only in its tests."""
        return is_test_file(self.source.name)

    @property
    def may_have_hints(self) -> bool:
        """Whether a check with hints can say more."""
        return any(d.fix or d.remedy or d.severity == "error" for d in self.diagnostics)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All diagnostics of the file, in the order of the text."""
        found = [*self.unread, *(d for p in self.policies for d in p.diagnostics)]
        return tuple(sorted(found, key=lambda d: d.span.start))


@dataclass(frozen=True, slots=True)
class Validation:
    """A validation: all checked files, in the order in which they were given."""

    files: tuple[CheckedFile, ...]

    @property
    def policies(self) -> tuple[Checked, ...]:
        """All policies outside of test files."""
        return tuple(policy for file in self.files if not file.private for policy in file.policies)

    def findings(self) -> Iterator[tuple[Diagnostic, Source]]:
        """Every diagnostic with its source."""
        for file in self.files:
            for diagnostic in file.diagnostics:
                yield diagnostic, file.source


class Validator:
    """A validator keeps the results of the last time, so an unchanged file costs nothing."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._known: dict[Source, CheckedFile] = {}
        # The policies with values, of this time and of the last one, by policy and values. The
        # policy is kept too, so that no other one gets its id.
        self._filled: dict[object, tuple[Checked, Checked]] = {}
        self._before: dict[object, tuple[Checked, Checked]] = {}
        # The policies that use others, before and after, by the id of the first, which is kept too.
        self._resolved: dict[int, tuple[Checked, Checked]] = {}

    def validate(
        self, sources: Sequence[Source], objects: Sequence[CheckedFile] = ()
    ) -> Validation:
        """Checks each file by itself, then names and `use` over all files and objects."""
        self._known = {s: self._known.get(s) or check_source(s, self._schema) for s in sources}
        files = tuple(_unique((*(self._known[s] for s in sources), *objects)))
        return Validation(self._with_uses(files))

    def _with_uses(self, files: tuple[CheckedFile, ...]) -> tuple[CheckedFile, ...]:
        """The files, with each policy resolved."""
        if not any(uses_others(p.policy) for f in files for p in f.policies):
            return files
        library = checked_library(self._schema)
        self._before, self._filled = self._filled, {}
        shared = (p for f in files if not f.private for p in f.policies)
        names = known_names(shared, library)
        before, self._resolved = self._resolved, {}

        def resolved(checked: Checked) -> Checked:
            if not uses_others(checked.policy):
                return checked
            found = resolve(checked, names, self._fill)
            _, last = before.get(id(checked), (checked, found))
            # Of the same policies it is the same one again, which keeps its programs.
            if found.diagnostics == last.diagnostics and [*map(id, found.uses)] == [
                *map(id, last.uses)
            ]:
                found = last
            self._resolved[id(checked)] = checked, found
            return found

        return tuple(_with_resolved(f, tuple(map(resolved, f.policies))) for f in files)

    def _fill(self, checked: Checked, values: Mapping[str, Expr]) -> Checked:
        written = sorted((name, print_expression(value)) for name, value in values.items())
        key = id(checked), tuple(written)
        known = self._filled.get(key) or self._before.get(key)
        if known is None:
            known = checked, fill(checked, values)
        self._filled[key] = known
        return known[1]


def _with_resolved(file: CheckedFile, policies: tuple[Checked, ...]) -> CheckedFile:
    """The file with resolved policies, of which others than before may be broken."""
    pairs = [*zip(file.policies, policies, strict=True)]
    if all(before is each for before, each in pairs):
        return file
    broken = [each for before, each in pairs if each.broken and not before.broken]
    return _waited_for(replace(file, policies=policies), broken)


def identity(policy: Policy) -> Identity:
    return policy.cluster, policy.namespace, policy.name


def check_source(source: Source, schema: Schema, *, has_hints: bool = True) -> CheckedFile:
    """Checks one file: every policy that could be parsed, even if others have errors."""
    file = _check(source, schema)
    if not (has_hints and file.may_have_hints):
        return file
    # Whoever checks a text without a mistake needs none of it.
    from policies.hints import shown, with_hints  # noqa: PLC0415

    if any(d.severity == "error" for d in file.diagnostics):
        file = with_hints(lambda: _check(source, schema))

    # The rules say something about a text only if nothing else is wrong with it.
    alone = _check(source, schema, by_rules=False) if file.whole else file
    by_rules = all(d.severity != "error" for d in alone.diagnostics)

    def look(text: Source) -> tuple[Diagnostic, ...]:
        return _check(text, schema, by_rules=by_rules).diagnostics

    changed = shown(source, file.diagnostics, look)
    return _told(file, lambda found: changed.get(id(found), found))


def _told(file: CheckedFile, change: Callable[[Diagnostic], Diagnostic]) -> CheckedFile:
    """The file after a change of each diagnostic."""
    policies = (replace(p, diagnostics=tuple(map(change, p.diagnostics))) for p in file.policies)
    return replace(file, policies=tuple(policies), unread=tuple(map(change, file.unread)))


def stopped_file(source: Source, message: str, hint: str, span: Span = _NOWHERE) -> CheckedFile:
    """A file of which nothing could be read in time."""
    stopped = Diagnostic("P0504", "error", message, span, hint=hint)
    return CheckedFile(source, False, (), (), (stopped,), knows_pods=False)


def unchecked_file(source: Source, schema: Schema, message: str, hint: str) -> CheckedFile:
    """A file whose check was stopped: the pods of its policies wait, as with errors."""
    file, found, _ = _parsed(source)
    bare = (check_policy(replace(p, items=(), values=()), schema) for p in file.policies)
    pairs = zip(bare, file.policies, strict=True)
    policies = [replace(each, template=policy, partial=True) for each, policy in pairs]
    stopped = replace(stopped_file(source, message, hint), tests=file.tests, knows_pods=True)
    return replace(_waited_for(stopped, policies, found), tests=())


def _parsed(source: Source) -> tuple[File, list[Diagnostic], int]:
    if not is_manifest(source.name):
        return *parse_file(source), 0
    # Importing YAML takes as long as checking most files.
    from policies.manifests import parse_manifests  # noqa: PLC0415

    return parse_manifests(source)


def _check(source: Source, schema: Schema, *, by_rules: bool = True) -> CheckedFile:
    """The checked file, with hints only while somebody looks for them."""
    parsed, found, others = _parsed(source)
    file = checked_file(source, parsed, found, schema, by_rules=by_rules)
    if not is_manifest(source.name):
        return file
    file = replace(of_objects(file), others=others)
    if not any(d.fix is not None for d in file.diagnostics):
        return file
    from policies.manifests import mendable  # noqa: PLC0415

    spans = mendable(source)

    def within(found: Diagnostic) -> Diagnostic:
        """The diagnostic, without a fix outside the spans, which are in order."""
        if (fix := found.fix) is None:
            return found
        place = bisect_right(spans, fix.span.start, key=lambda span: span.start)
        is_within = place > 0 and spans[place - 1].holds(fix.span)
        return found if is_within else replace(found, fix=None)

    return _told(file, within)


def checked_file(
    source: Source,
    file: File,
    found: list[Diagnostic],
    schema: Schema,
    *,
    by_rules: bool = True,
) -> CheckedFile:
    """Checks a parsed file; `found` are the diagnostics of the parser."""
    whole = not any(d.severity == "error" for d in found)
    policies = (check_policy(policy, schema) for policy in file.policies)
    # The further checks would report the parts that could not be parsed.
    if not whole:
        policies = (_without_echoes(policy, source) for policy in policies)
    elif by_rules:
        policies = (_further(policy) for policy in policies)
    checked = tuple(policies)
    made = CheckedFile(source, whole, checked, file.tests, tuple(found))
    return _waited_for(made, checked, found)


def _waited_for(
    file: CheckedFile, policies: Sequence[Checked], found: Sequence[Diagnostic] = ()
) -> CheckedFile:
    """The file with what keeps the pods of these policies waiting, of which some are broken.

    `found` are the parser's diagnostics; an error outside of them may have been a policy.
    """
    source, errors = file.source, [d.span for d in found if d.severity == "error"]
    left = (refusal(p, _unparsed(p, source, errors, len(policies))) for p in policies if p.broken)
    waited = [each for each in left if each is not None]
    known = tuple(each for each in waited if not each.partial)
    read = [*(each.policy.span for each in policies), *(test.span for test in file.tests)]
    knows = all(any(span.holds(error) for span in read) for error in errors)
    knows = file.knows_pods and knows and len(known) == len(waited)
    return replace(file, refusing=(*file.refusing, *known), knows_pods=knows)


def _unparsed(
    checked: Checked, source: Source, errors: Sequence[Span], policies: int
) -> frozenset[str] | None:
    """The words of a policy of which not all could be parsed; None for any other."""
    span = checked.policy.span
    if not errors or not (policies == 1 or any(span.holds(each) for each in errors)):
        return None
    return frozenset(item.text for item in Lexemes(source.slice(span)).items)


def of_objects(file: CheckedFile) -> CheckedFile:
    """The file with its diagnostics in the words of objects, which select pods by a selector."""

    def said(found: Diagnostic) -> Diagnostic:
        hint = None if found.hint is None else found.hint.replace("`for`", "`podSelector`")
        if hint is not None:
            # An object declares no parameters.
            hint = hint.partition(", or declare a parameter")[0]
        message = found.message.replace("`for`", "`podSelector`")
        return replace(found, message=message, hint=hint)

    policies = (replace(p, diagnostics=tuple(map(said, p.diagnostics))) for p in file.policies)
    return replace(file, policies=tuple(policies))


def _further(checked: Checked, *, filled: bool = False) -> Checked:
    """The policy with the findings of the rules, which need a policy without errors.

    A `filled` one has a value for each parameter, and no examples.
    """
    if checked.broken:
        return checked
    found = rules.run(checked)
    if not filled and any(p.default is None for p in checked.policy.parameters):
        # The examples of values would get warnings.
        found = [d for d in found if d.severity == "error"]
    elif not filled and checked.template is not None:
        named = {parameter.name for parameter in checked.policy.parameters}
        idents = (e for e in walk(checked.template.items) if isinstance(e, Ident))
        places = [e.span for e in idents if e.name in named]
        found = [
            d for d in found if d.code not in _BY_DEFAULT or not any(map(d.span.holds, places))
        ]
    return replace(checked, diagnostics=(*checked.diagnostics, *found))


def in_cluster(validation: Validation, cluster: ClusterFacts) -> Validation:
    """The validation with the warnings that follow from a cluster among its diagnostics."""
    files = (
        replace(file, policies=tuple(_in_cluster(checked, cluster) for checked in file.policies))
        for file in validation.files
    )
    return Validation(tuple(files))


def _in_cluster(checked: Checked, cluster: ClusterFacts) -> Checked:
    found = rules.run_in_cluster(checked, cluster)
    # What the nodes say of a label is more than what Kubernetes says of it.
    spans = [each.span for each in found]
    known = (
        each
        for each in checked.diagnostics
        if each.code != "P0346"
        or not any(s.start <= each.span.end and each.span.start <= s.end for s in spans)
    )
    return replace(checked, diagnostics=(*known, *found))


def _without_echoes(checked: Checked, source: Source) -> Checked:
    """The policy as partial, without the errors that only follow from what was not parsed."""
    words = [item.text for item in Lexemes(source.slice(checked.policy.span)).items]
    declared = {name.strip("\"'") for word, name in pairwise(words) if word in DECLARING}
    lost = declared - {getattr(item, "name", "") for item in checked.policy.items}

    def is_echo(diagnostic: Diagnostic) -> bool:
        if diagnostic.code in _UNKNOWN:
            return source.slice(diagnostic.span).partition("(")[0].strip("\"'") in lost
        return diagnostic.code == _SELECTS_EVERYTHING and "for" in words

    found = tuple(d for d in checked.diagnostics if not is_echo(d))
    return replace(checked, diagnostics=found, partial=True)


def _unique(files: Iterable[CheckedFile]) -> Iterator[CheckedFile]:
    """The files, with an error for each policy whose name an earlier policy has.

    Test files have their own names.
    """
    first: dict[tuple[str, Identity], str] = {}
    for file in files:
        policies = list(file.policies)
        for number, checked in enumerate(file.policies):
            policy = checked.policy
            line, column = file.source.position(policy.name_span.start)
            here = f"{file.source.name}:{line}:{column}"
            scope = file.source.name if file.private else ""
            there = first.setdefault((scope, identity(policy)), here)
            if there != here:
                kind = "cluster policy" if policy.cluster else "policy"
                error = catalogue.duplicate_name(kind, policy.address, policy.name_span)
                error = replace(error, notes=(f"the first one is at {there}",))
                found = (*checked.diagnostics, error)
                policies[number] = replace(checked, diagnostics=found)
        yield _with_resolved(file, tuple(policies))
