"""Server: the requests of an editor, answered by `policies.editor`.

It lives as long as the editor keeps standard input open. It reads policies and writes nothing but
answers: edits are the editor's.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.resources import files as package_files
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from cli.language_server.files import Effects, PolicyFiles, Warn
from grammar.meaning.schema import Schema
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.syntax.parser import parse_file
from grammar.tree.printer import format_file
from grammar.tree.source import Source, Span
from policies.editor.completion import Candidate, Samples
from policies.editor.edited_text import EditedDocument, Entry, complete, outline
from policies.editor.meaning import Meaning, meaning
from policies.editor.tokens import coloured_lines
from policies.manifest_text import is_manifest
from policies.validation import LIBRARY

_LINE_END = re.compile(r"\r\n|\n|\r")


class Positions:
    """The positions of one text. Lines and columns count from 0.

    A column counts units of the encoding that server and editor agreed on: UTF-16 for most.
    """

    def __init__(self, text: str, encoding: types.PositionEncodingKind | str) -> None:
        self._text = text
        self._encoding = encoding
        self._starts = [0, *(found.end() for found in _LINE_END.finditer(text))]

    def position(self, offset: int) -> types.Position:
        offset = max(0, min(offset, len(self._text)))
        line = bisect_right(self._starts, offset) - 1
        before = self._text[self._starts[line] : offset]
        return types.Position(line, sum(map(self._units, before)))

    def range(self, span: Span) -> types.Range:
        return types.Range(self.position(span.start), self.position(span.end))

    def offset(self, position: types.Position) -> int:
        """A position past the end of its line, or of the text, is that end."""
        if position.line >= len(self._starts):
            return len(self._text)
        at = self._starts[position.line]
        found = _LINE_END.search(self._text, at)
        end, units = found.start() if found is not None else len(self._text), 0
        while at < end and units < position.character:
            units += self._units(self._text[at])
            at += 1
        return at

    def _units(self, character: str) -> int:
        match self._encoding:
            case types.PositionEncodingKind.Utf8:
                return len(character.encode("utf-8", "surrogatepass"))
            case types.PositionEncodingKind.Utf32:
                return 1
            case _:
                return 2 if ord(character) > 0xFFFF else 1


# A check starts when nothing was typed for so long.
_PAUSE_SECONDS = 0.1
# The longest text in the title of a quick fix.
_LONGEST = 60
_KINDS = {
    "field": types.CompletionItemKind.Field,
    "function": types.CompletionItemKind.Function,
    "key": types.CompletionItemKind.Property,
    "name": types.CompletionItemKind.Variable,
    "policy": types.CompletionItemKind.Module,
    "sign": types.CompletionItemKind.Operator,
    "text": types.CompletionItemKind.Value,
    "type": types.CompletionItemKind.Class,
    "word": types.CompletionItemKind.Keyword,
}
_SYMBOLS = {
    "policy": types.SymbolKind.Module,
    "test": types.SymbolKind.Event,
    "let": types.SymbolKind.Variable,
    "def": types.SymbolKind.Function,
    "use": types.SymbolKind.Package,
}


# The colours of pieces by their kind.
_COLOURS = {
    "comment": types.SemanticTokenTypes.Comment,
    "string": types.SemanticTokenTypes.String,
    "number": types.SemanticTokenTypes.Number,
    "function": types.SemanticTokenTypes.Function,
    "variable": types.SemanticTokenTypes.Variable,
    "word": types.SemanticTokenTypes.Keyword,
}
_LEGEND = types.SemanticTokensLegend([*_COLOURS.values()], [])


class PolicyServer:
    """A language server about policy files.

    `more` are further files for `use`. `samples` are values of a cluster, `warn` adds warnings
    about this cluster, and `effects` says what policies do there.
    """

    def __init__(
        self,
        schema: Schema,
        more: Sequence[Path],
        samples: Samples,
        warn: Warn,
        effects: Effects,
        version: str,
    ) -> None:
        self._effects = effects
        self._texts: dict[str, str] = {}
        self._uris: dict[str, str] = {}
        self._files = PolicyFiles(schema, self._texts, more, warn)
        self._samples = samples
        self._pending: asyncio.TimerHandle | None = None
        # The whole text with each change: editors and Python do not agree on what ends a line.
        kind = types.TextDocumentSyncKind.Full
        self._server = LanguageServer("placet", version, text_document_sync_kind=kind)
        self._register()

    def run(self) -> None:
        """Answers requests on standard input until the editor ends it."""
        self._server.start_io()

    def _register(self) -> None:
        triggers = types.CompletionOptions(trigger_characters=[".", '"', "'", "["])
        fixes = types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix])
        handlers: list[tuple[str, Callable[..., object], object]] = [
            (types.TEXT_DOCUMENT_DID_OPEN, self._opened, None),
            (types.TEXT_DOCUMENT_DID_CHANGE, self._changed, None),
            (types.TEXT_DOCUMENT_DID_SAVE, self._saved, None),
            (types.TEXT_DOCUMENT_DID_CLOSE, self._closed, None),
            (types.TEXT_DOCUMENT_COMPLETION, self._complete, triggers),
            (types.TEXT_DOCUMENT_HOVER, self._hover, None),
            (types.TEXT_DOCUMENT_DEFINITION, self._definition, None),
            (types.TEXT_DOCUMENT_FORMATTING, self._format, None),
            (types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, self._symbols, None),
            (types.TEXT_DOCUMENT_CODE_ACTION, self._fixes, fixes),
            (types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, self._colours, _LEGEND),
        ]
        for method, handler, options in handlers:
            # pygls sets attributes of a handler, which a method does not have.
            self._server.feature(method, options)(partial(handler))

    # ---- texts

    def _opened(self, params: types.DidOpenTextDocumentParams) -> None:
        self._keep(params.text_document.uri)
        self._check()

    def _changed(self, params: types.DidChangeTextDocumentParams) -> None:
        self._keep(params.text_document.uri)
        if self._pending is not None:
            self._pending.cancel()
        loop = asyncio.get_running_loop()
        self._pending = loop.call_later(_PAUSE_SECONDS, self._check)

    def _saved(self, _: types.DidSaveTextDocumentParams) -> None:
        self._check()

    def _closed(self, params: types.DidCloseTextDocumentParams) -> None:
        path = _path(params.text_document.uri)
        self._texts.pop(path, None)
        self._publish(self._uris.pop(path, params.text_document.uri), [])
        self._check()

    def _keep(self, uri: str) -> None:
        path = _path(uri)
        self._uris[path] = uri
        self._texts[path] = self._server.workspace.get_text_document(uri).source

    def _document(
        self, uri: str, *, warned: bool = False
    ) -> tuple[EditedDocument | None, Positions]:
        path = _path(uri)
        positions = self._positions(self._texts[path])
        return self._files.document(path, warned=warned), positions

    def _positions(self, text: str) -> Positions:
        encoding = self._server.workspace.position_encoding
        return Positions(text, encoding or types.PositionEncodingKind.Utf16)

    # ---- diagnostics

    def _check(self) -> None:
        """Publishes the diagnostics of all open texts: a `use` may name a policy of another."""
        for uri in [*self._uris.values()]:
            document, positions = self._document(uri, warned=True)
            found = document.file.diagnostics if document is not None else ()
            self._publish(uri, [_diagnostic(each, positions) for each in found])

    def _publish(self, uri: str, found: list[types.Diagnostic]) -> None:
        params = types.PublishDiagnosticsParams(uri, found)
        self._server.text_document_publish_diagnostics(params)

    def _fixes(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        document, positions = self._document(params.text_document.uri, warned=True)
        if document is None:
            return []
        first, last = (positions.offset(p) for p in (params.range.start, params.range.end))
        return [
            _fix(each, edit, document, params.text_document.uri, positions)
            for each in document.file.diagnostics
            if each.span.start <= last and first <= each.span.end
            if (edit := document.edit(each)) is not None
        ]

    # ---- what is at a position

    def _complete(self, params: types.CompletionParams) -> list[types.CompletionItem]:
        document, positions = self._document(params.text_document.uri)
        if document is None:
            return []
        offset = positions.offset(params.position)
        return [
            _item(candidate, number, positions.range(Span(candidate.start, offset)))
            for number, candidate in enumerate(complete(document, offset, self._samples))
        ]

    def _meaning(
        self, params: types.HoverParams | types.DefinitionParams
    ) -> tuple[Meaning | None, Positions]:
        document, positions = self._document(params.text_document.uri)
        if document is None:
            return None, positions
        return meaning(document, positions.offset(params.position), self._samples), positions

    def _hover(self, params: types.HoverParams) -> types.Hover | None:
        if (effect := self._effect(params)) is not None:
            return effect
        found, positions = self._meaning(params)
        if found is None:
            return None
        text = "\n\n".join((f"```placet\n{found.heading}\n```", *found.about))
        contents = types.MarkupContent(types.MarkupKind.Markdown, text)
        return types.Hover(contents, positions.range(found.span))

    def _effect(self, params: types.HoverParams) -> types.Hover | None:
        """What a policy or a clause does in the cluster, at its name."""
        document, positions = self._document(params.text_document.uri)
        validation = self._files.validation(_path(params.text_document.uri))
        if document is None or validation is None:
            return None
        offset = positions.offset(params.position)
        for checked in document.file.policies:
            policy = checked.policy
            if not policy.span.start <= offset <= policy.span.end:
                continue
            effect = self._effects(validation).get(policy.address)
            if effect is None:
                return None
            named = [(policy.name_span, effect.text)]
            texts = {each.clause: each.text for each in effect.clauses}
            named += [(c.name_span, texts[c.name]) for c in policy.clauses if c.name in texts]
            for span, text in named:
                if span.start <= offset <= span.end:
                    contents = types.MarkupContent(types.MarkupKind.Markdown, text)
                    return types.Hover(contents, positions.range(span))
        return None

    def _definition(self, params: types.DefinitionParams) -> types.Location | None:
        found, _ = self._meaning(params)
        if found is None or found.definition is None:
            return None
        source = found.definition.source
        uri = self._uris.get(source.name) or from_fs_path(str(_file(source)))
        span = self._positions(source.text).range(found.definition.span)
        return None if uri is None else types.Location(uri, span)

    # ---- the whole text

    def _format(self, params: types.DocumentFormattingParams) -> list[types.TextEdit] | None:
        """One edit; none for a text with syntax errors, whose layout is unknown."""
        path = _path(params.text_document.uri)
        source = Source(path, self._texts[path])
        file, found = parse_file(source)
        if is_manifest(path) or any(d.severity == "error" for d in found):
            return None
        whole = self._positions(source.text).range(Span(0, len(source.text)))
        text = format_file(file, source)
        return [types.TextEdit(whole, text)] if text != source.text else []

    def _colours(self, params: types.SemanticTokensParams) -> types.SemanticTokens:
        """The pieces of a text that have a colour, each with its place after the one before it."""
        path = _path(params.text_document.uri)
        text = "" if is_manifest(path) else self._texts[path]
        positions, data = self._positions(text), list[int]()
        offset, last = 0, types.Position(0, 0)
        for line in coloured_lines(text):
            for kind, piece in line:
                start, end = positions.position(offset), positions.position(offset + len(piece))
                offset += len(piece)
                if kind and piece and start.line == end.line:
                    is_same = start.line == last.line
                    column = start.character - last.character if is_same else start.character
                    length = end.character - start.character
                    colour = list(_COLOURS).index(kind)
                    data += [start.line - last.line, column, length, colour, 0]
                    last = start
            offset += 1
        return types.SemanticTokens(data)

    def _symbols(self, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        document, positions = self._document(params.text_document.uri)
        entries = outline(document) if document is not None else ()
        return [_symbol(entry, positions) for entry in entries]


def _path(uri: str) -> str:
    """The path of a file, or the address of a text that is in none."""
    return to_fs_path(uri) or uri if uri.startswith("file:") else uri


def _file(source: Source) -> Path:
    """The file of a source, also of a policy that comes with Placet."""
    if source.name.startswith(LIBRARY):
        return Path(str(package_files("policies").joinpath(source.name)))
    return Path(source.name).absolute()


def _diagnostic(found: Diagnostic, positions: Positions) -> types.Diagnostic:
    is_error = found.severity == "error"
    return types.Diagnostic(
        range=positions.range(found.span),
        message="\n".join(_lines(found)),
        severity=types.DiagnosticSeverity.Error if is_error else types.DiagnosticSeverity.Warning,
        code=found.code or None,
        source="placet",
    )


def _lines(found: Diagnostic) -> Iterator[str]:
    yield found.message
    if found.hint:
        yield f"help: {found.hint}"
    yield from (f"note: {note}" for note in found.notes)


def _fix(
    found: Diagnostic, fix: Fix, document: EditedDocument, uri: str, positions: Positions
) -> types.CodeAction:
    old, new = (_shortened(t) for t in (document.source.slice(fix.span), fix.text))
    title = f"replace `{old}` by `{new}`" if old and new else f"insert `{new}`"
    edit = types.TextEdit(positions.range(fix.span), fix.text)
    return types.CodeAction(
        title=title if new else f"remove `{old}`",
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[_diagnostic(found, positions)],
        is_preferred=found.fix is not None,
        edit=types.WorkspaceEdit(changes={uri: [edit]}),
    )


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."


def _item(candidate: Candidate, number: int, replaced: types.Range) -> types.CompletionItem:
    about = types.MarkupContent(types.MarkupKind.Markdown, candidate.about)
    return types.CompletionItem(
        label=candidate.label or candidate.text.rstrip("([\"': "),
        kind=_KINDS[candidate.kind],
        detail=candidate.note,
        documentation=about if candidate.about else None,
        # Editors sort by this text: the display order.
        sort_text=f"{number:05}",
        filter_text=candidate.matches or candidate.text,
        text_edit=types.TextEdit(replaced, candidate.text),
    )


def _symbol(entry: Entry, positions: Positions) -> types.DocumentSymbol:
    return types.DocumentSymbol(
        name=entry.name or entry.kind,
        detail=entry.kind,
        kind=_SYMBOLS.get(entry.kind, types.SymbolKind.Method),
        range=positions.range(entry.span),
        selection_range=positions.range(entry.name_span),
        children=[_symbol(part, positions) for part in entry.parts],
    )
