"""Objects of the cluster to checked policies: for who watches them, and who is to admit them."""

from __future__ import annotations

from dataclasses import dataclass

from grammar.clauses import File
from grammar.cost import LIMIT
from grammar.diagnostics import Diagnostic, Severity
from grammar.schema import Schema
from policies.manifest import manifest_from_json
from policies.manifests import about
from policies.page import object_page, report
from policies.resource import Manifest
from policies.sugar import policy_of
from policies.validation import CheckedFile, checked_file


@dataclass(frozen=True, slots=True)
class CheckedObject:
    """An object, if a policy can be made of it, and the policy as a file of its own.

    Without a manifest the file has no policy, and says why.
    """

    manifest: Manifest | None
    file: CheckedFile


def check_object(
    name: str, raw: bytes, schema: Schema, cost_limit: int = LIMIT, *, stored: bool = False
) -> CheckedObject:
    """Checks the JSON of an object by itself; never raises for what is in it.

    `name` is how messages call the object. `stored` is as in `manifest_from`. What objects and
    files must not say together, and `use`, is for a Validator.
    """
    read = manifest_from_json(raw, stored=stored)
    manifest = read.manifest
    page = object_page(name, (manifest and manifest.spec.rules) or "")
    found = [about(problem, page) for problem in read.problems]
    file = File(())
    if manifest is not None:
        policy, wrong = policy_of(manifest, page)
        file, found = File((policy,)), [*found, *wrong]
    return CheckedObject(manifest, checked_file(page.source, file, found, schema, cost_limit))


def lines(file: CheckedFile, severity: Severity) -> tuple[str, ...]:
    """The diagnostics of an object, as `status.diagnostics` and an admission response have them.

    `rules:3:12 error[P0102]: …`, or with the field in front.
    """
    found: tuple[Diagnostic, ...] = file.diagnostics
    return tuple(report(d, file.source) for d in found if d.severity == severity)
