"""Files of manifests to policies that are not yet checked, with what is wrong with the text."""

from __future__ import annotations

from grammar.clauses import File, Policy
from grammar.diagnostics import Diagnostic
from grammar.mistakes import listed
from grammar.source import Source, Span
from policies.decoding import Problem
from policies.documents import NoDocumentsError, documents, file_page, literal_rules
from policies.forms import GROUP
from policies.manifest import is_ours, manifest_from
from policies.page import Page
from policies.resource import KINDS, PlacementPolicy
from policies.sugar import DEFAULT_NAMESPACE, policy_of


def parse_manifests(source: Source) -> tuple[File, list[Diagnostic]]:
    """The policies of a file's manifests that could be read, and what is wrong with the rest.

    As `grammar.parser.parse_file` does for a text of the language.
    """
    try:
        found = documents(source)
    except NoDocumentsError as error:
        message = f"this is neither YAML nor JSON: {error}"
        return File(()), [Diagnostic("P0501", "error", message, Span(0, 0))]
    policies: list[Policy] = []
    wrong: list[Diagnostic] = []
    for document in found:
        page = file_page(source, document)
        if not is_ours(document.value):
            wrong.append(_foreign(document.value, page))
            continue
        read = manifest_from(document.value)
        wrong.extend(about(problem, page) for problem in read.problems)
        if read.manifest is not None:
            if isinstance(read.manifest, PlacementPolicy) and not read.manifest.metadata.namespace:
                wrong.append(_homeless(page))
            policy, mistakes = policy_of(read.manifest, page)
            policies.append(policy)
            wrong.extend(mistakes)
    return File(tuple(policies)), sorted(wrong, key=lambda d: d.span.start)


def mendable(source: Source) -> tuple[Span, ...]:
    """The parts of a file in which the edits that diagnostics propose can be made."""
    try:
        found = (literal_rules(document) for document in documents(source))
        return tuple(span for span in found if span is not None)
    except NoDocumentsError:
        return ()


def about(problem: Problem, page: Page) -> Diagnostic:
    """A problem of a field as a diagnostic."""
    code = "P0503" if problem.severity == "error" else "P0321"
    place = page.place(problem.field)
    return Diagnostic(code, problem.severity, str(problem), place, hint=problem.hint or None)


def _foreign(value: object, page: Page) -> Diagnostic:
    kind = str(value.get("kind", "")) if isinstance(value, dict) else ""
    what = f"`{kind}` of `{value.get('apiVersion', '')}`" if isinstance(value, dict) else "this"
    kinds = listed([f"`{kind}`" for kind in KINDS])
    place = page.place("kind")
    hint = f"a policy is a {kinds} of `{GROUP}`; keep others in files of their own"
    return Diagnostic("P0502", "error", f"{what} is no policy", place, hint=hint)


def _homeless(page: Page) -> Diagnostic:
    message = f"metadata.namespace: is missing, and `{DEFAULT_NAMESPACE}` then"
    return Diagnostic("P0322", "warning", message, page.place("metadata.name"))
