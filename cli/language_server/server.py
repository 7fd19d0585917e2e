"""Server: the requests of an editor, answered by `policies.editor`.

It lives as long as the editor keeps standard input open. It reads policies and writes nothing but
answers: edits are the editor's.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from importlib.resources import files as package_files
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path
from pygls.workspace import PositionCodec

from cli.expressions import ClusterSamples, Subject
from engine.cache.cluster_copy import ClusterCopy
from engine.objects.request_pod import ObjectCodec
from grammar.meaning.schema import load_schema
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.messages.texts import excerpt
from grammar.syntax.formatter import format_file
from grammar.syntax.parser import parse_file
from grammar.tree.source import Source, Span
from policies.editor.completion import Candidate
from policies.editor.edited_text import EditedDocument, Meaning, complete, document, meaning
from policies.loader import SUFFIX, Search, is_manifest, read_source
from policies.manifest_text import GROUP
from policies.validation import LIBRARY, Validation, Validator, in_cluster

_LINE_END = re.compile(r"\r\n|\n|\r")


class Positions:
    """The positions of one text. Lines and columns count from 0.

    A column counts units of the encoding that server and editor agreed on: UTF-16 for most.
    """

    def __init__(self, text: str, encoding: types.PositionEncodingKind | str) -> None:
        self._text = text
        self._units = PositionCodec(encoding).client_num_units
        self._starts = [0, *(found.end() for found in _LINE_END.finditer(text))]

    def position(self, offset: int) -> types.Position:
        offset = max(0, min(offset, len(self._text)))
        line = bisect_right(self._starts, offset) - 1
        before = self._text[self._starts[line] : offset]
        return types.Position(line, self._units(before))

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


# A check starts when nothing was typed for so long.
_PAUSE_SECONDS = 0.1
# The bytes of a file that is searched for policies.
_LARGEST_FILE = 1024 * 1024
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


class PolicyServer:
    """A language server about policy files.

    `more` are further files for `use`. With a cluster it completes values, and warns of labels that
    no node has.
    """

    def __init__(
        self, more: Sequence[Path], cluster: ClusterCopy | None, codec: ObjectCodec, version: str
    ) -> None:
        self._cluster = cluster
        self._codec = codec
        self._facts = cluster.facts() if cluster is not None else None
        self._samples = ClusterSamples(Subject(cluster, codec))
        self._texts: dict[str, str] = {}
        self._uris: dict[str, str] = {}
        self._more = more
        self._validators: dict[Path, Validator] = {}
        self._pending: asyncio.TimerHandle | None = None
        # The whole text with each change: editors and Python do not agree on what ends a line.
        kind = types.TextDocumentSyncKind.Full
        self._server = LanguageServer("placet", version, text_document_sync_kind=kind)
        triggers = types.CompletionOptions(trigger_characters=[".", '"', "'", "["])
        fixes = types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix])
        handlers: list[tuple[str, Callable[..., object], object]] = [
            (types.TEXT_DOCUMENT_DID_OPEN, self._opened, None),
            (types.TEXT_DOCUMENT_DID_CHANGE, self._changed, None),
            (types.TEXT_DOCUMENT_DID_SAVE, lambda _: self._check(), None),
            (types.TEXT_DOCUMENT_DID_CLOSE, self._closed, None),
            (types.TEXT_DOCUMENT_COMPLETION, self._complete, triggers),
            (types.TEXT_DOCUMENT_HOVER, self._hover, None),
            (types.TEXT_DOCUMENT_DEFINITION, self._definition, None),
            (types.TEXT_DOCUMENT_FORMATTING, self._format, None),
            (types.TEXT_DOCUMENT_CODE_ACTION, self._fixes, fixes),
        ]
        for method, handler, options in handlers:
            # pygls sets attributes of a handler, which a method does not have.
            self._server.feature(method, options)(partial(handler))

    def run(self) -> None:
        """Answers requests on standard input until the editor ends it."""
        self._server.start_io()

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
        """The document of an open text, if it may have policies.

        If `warned`, its diagnostics have the warnings about the cluster.
        """
        path = _path(uri)
        positions = self._positions(self._texts[path])
        validation = self._validation(path)
        if validation is None:
            return None, positions
        if warned and self._facts is not None:
            validation = in_cluster(validation, self._facts)
        return document(path, validation, load_schema()), positions

    def _validation(self, path: str) -> Validation | None:
        """An open text, checked with the files that its policies may name.

        Open texts replace their files. None for a manifest without policies of Placet.
        """
        if is_manifest(path) and f"{GROUP}/" not in self._texts[path]:
            return None
        parent = Path(path).parent
        beside = [f for f in _entries(parent) if f.suffix == SUFFIX or is_manifest(f.name)]
        sources = {path: Source(path, self._texts[path])}
        for file in (*beside, *Search(self._more).files):
            name = str(file)
            source = Source(name, self._texts[name]) if name in self._texts else _source(file)
            if source is not None:
                sources.setdefault(name, source)
        validator = self._validators.setdefault(parent, Validator(load_schema()))
        # As `placet check FOLDER` has them.
        return validator.validate([sources[name] for name in sorted(sources)])

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
        known, positions = self._meaning(params)
        if known is None:
            return None
        text = "\n\n".join((f"```placet\n{known.heading}\n```", *known.about))
        contents = types.MarkupContent(types.MarkupKind.Markdown, text)
        return types.Hover(contents, positions.range(known.span))

    def _definition(self, params: types.DefinitionParams) -> types.Location | None:
        found, _ = self._meaning(params)
        if found is None or found.definition is None:
            return None
        source, span = found.definition
        file = Path(source.name).absolute()
        if source.name.startswith(LIBRARY):
            # A policy that comes with Placet.
            file = Path(str(package_files("policies").joinpath(source.name)))
        uri = self._uris.get(source.name) or from_fs_path(str(file))
        place = self._positions(source.text).range(span)
        return None if uri is None else types.Location(uri, place)

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


def _path(uri: str) -> str:
    """The path of a file, or the address of a text that is in none."""
    return to_fs_path(uri) or uri if uri.startswith("file:") else uri


def _entries(folder: Path) -> Sequence[Path]:
    try:
        return sorted(folder.iterdir()) if folder.is_absolute() else ()
    except OSError:
        return ()


def _source(file: Path) -> Source | None:
    """The text of a file that may have policies; a snapshot of a cluster is too large."""
    try:
        is_small = file.stat().st_size <= _LARGEST_FILE
    except OSError:
        return None
    source = read_source(file) if is_small else None
    if not isinstance(source, Source) or (
        is_manifest(file.name) and f"{GROUP}/" not in source.text
    ):
        return None
    return source


def _diagnostic(found: Diagnostic, positions: Positions) -> types.Diagnostic:
    is_error = found.severity == "error"
    help_ = [f"help: {found.hint}"] if found.hint else []
    return types.Diagnostic(
        range=positions.range(found.span),
        message="\n".join((found.message, *help_, *(f"note: {note}" for note in found.notes))),
        severity=types.DiagnosticSeverity.Error if is_error else types.DiagnosticSeverity.Warning,
        code=found.code or None,
        source="placet",
    )


def _fix(
    found: Diagnostic, fix: Fix, document: EditedDocument, uri: str, positions: Positions
) -> types.CodeAction:
    old, new = (excerpt(t, _LONGEST) for t in (document.source.slice(fix.span), fix.text))
    title = f"replace `{old}` by `{new}`" if old and new else f"insert `{new}`"
    edit = types.TextEdit(positions.range(fix.span), fix.text)
    return types.CodeAction(
        title=title if new else f"remove `{old}`",
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[_diagnostic(found, positions)],
        is_preferred=found.fix is not None,
        edit=types.WorkspaceEdit(changes={uri: [edit]}),
    )


def _item(candidate: Candidate, number: int, replaced: types.Range) -> types.CompletionItem:
    text = "\n".join(filter(None, (candidate.heading, candidate.about)))
    about = types.MarkupContent(types.MarkupKind.Markdown, text)
    return types.CompletionItem(
        label=candidate.text.rstrip("([\"': "),
        kind=_KINDS[candidate.kind],
        detail=candidate.note,
        documentation=about if text else None,
        # Editors sort by this text: the display order.
        sort_text=f"{number:05}",
        filter_text=candidate.text,
        text_edit=types.TextEdit(replaced, candidate.text),
    )
