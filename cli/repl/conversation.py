"""One line after another: what each means, and what it is answered with."""

from __future__ import annotations

from collections.abc import Iterator

from cli.exits import CommandError
from cli.repl import commands, evaluating
from cli.repl.answer import Answer, RefusedError, Told, complaint, problem
from cli.repl.notebook import NAME, Notebook, key, told
from cli.repl.reading import look, reading
from cli.repl.session import Session
from grammar.clauses import Def, Item, Let
from grammar.diagnostics import Diagnostic
from grammar.parser import parse_file, parse_rules
from grammar.source import Source
from policies.validation import Validation, identity

# A definition that nothing uses yet is why one types it.
_UNUSED = "P0303"


def take(session: Session, text: str) -> Answer:
    """Answers a text. The session changes only by what is answered without an error."""
    started, said = session.clock(), list[Told]()
    try:
        said.extend(_answer(session, text))
    except CommandError as error:
        said.append(complaint(error.message, error.hint))
    except RefusedError as error:
        said.extend(error.problems)
    if session.settings.time and said:
        said.append(f"{(session.clock() - started) * 1000:.1f} ms")
    return Answer(tuple(said), session.leaving)


def prompt_of(session: Session) -> str:
    """The pod and the node that are chosen, or our name."""
    place = [session.pod.key if session.pod is not None else "", session.node or ""]
    return f"{' @ '.join(filter(None, place)) or 'placet'}> "


def unfinished(text: str) -> bool:
    """Whether a text may go on: something is open, or an operator lacks its other side."""
    kind = reading(text)
    if kind != "command":
        return kind == "unfinished"
    name, _, rest = text.strip().partition(" ")
    known = commands.COMMANDS.get(name)
    if known is None or known.takes != "expression" or not rest.strip():
        return False
    return reading(rest) == "unfinished" and look(rest) == "expression"


def _answer(session: Session, text: str) -> Iterator[Told]:
    if "\0" in text:
        raise CommandError("there is a NUL character in it", "take it out")
    kind = reading(text)
    match kind if kind != "unfinished" else look(text):
        case "nothing":
            return
        case "command":
            name, _, rest = text.strip().partition(" ")
            yield from commands.find(name).run(session, rest.strip())
        case "expression":
            yield from evaluating.value(session, text.strip())
        case "rules":
            yield from _items(session, Source(NAME, text))
        case _:
            yield from _policies(session, Source(NAME, text))


def _items(session: Session, typed: Source) -> Iterator[Told]:
    """Takes parts of a policy into the session's own."""
    items, found = parse_rules(typed)
    _stop(found, typed)
    before = session.notebook
    validation = session.note(before.with_items(typed, items))
    for item in items:
        yield _noted(session, item, known=key(item) in before.items)
    yield from _warnings(session.notebook, validation, typed)


def _noted(session: Session, item: Item, *, known: bool) -> str:
    match item:
        case Let(name):
            return f"{name} : {session.environment.lets[name].type}"
        case Def(name, parameters, result):
            taken = ", ".join(f"{p.name}: {p.type}" for p in parameters)
            return f"{name}({taken}) : {result}"
        case _:
            return f"{'replaced' if known else 'added'} {told(item)}"


def _policies(session: Session, typed: Source) -> Iterator[Told]:
    """Takes whole policies in."""
    file, found = parse_file(typed)
    _stop(found, typed)
    if file.tests:
        raise CommandError(
            "tests are run from files", "`:save-test FILE` writes one, `placet test` runs it"
        )
    before = session.notebook
    validation = session.note(before.with_policies(typed, file.policies))
    for policy in file.policies:
        known = identity(policy) in before.policies
        yield f"{'replaced' if known else 'added'} policy {policy.address}"
    yield from _warnings(session.notebook, validation, typed)


def _stop(found: list[Diagnostic], typed: Source) -> None:
    errors = [(d, typed) for d in found if d.severity == "error"]
    if errors:
        raise RefusedError(errors)


def _warnings(notebook: Notebook, validation: Validation, typed: Source) -> Iterator[Told]:
    """Those about what was typed just now."""
    for found, source in validation.findings():
        diagnostic, where = notebook.as_typed(found, source)
        here = where is typed or (
            source in notebook.policies.values() and source.text == typed.text
        )
        if here and diagnostic.severity == "warning" and diagnostic.code != _UNUSED:
            yield problem((diagnostic, where))
