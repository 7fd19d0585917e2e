"""Files: an open text, checked with the policy files beside it and on the command line.

A text that is open in the editor replaces its file. Files are read again only when they change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.explanation.effects import EffectOfPolicy
from grammar.meaning.schema import Schema
from grammar.tree.source import Source
from policies.editor.edited_text import EditedDocument, document
from policies.loader import SUFFIX, Search, read_source
from policies.manifest_text import GROUP, is_manifest
from policies.validation import Validation, Validator

# A larger file, such as a snapshot of a cluster, is not searched for policies.
_LARGEST = 1024 * 1024
_Mark = tuple[int, int]


@dataclass(slots=True)
class _Folder:
    """The checks of one folder, and the last result with the sources that it is of."""

    validator: Validator
    sources: Sequence[Source] = ()
    validation: Validation | None = None


# A validation with further warnings.
Warn = Callable[[Validation], Validation]
# What the policies of a validation do in a cluster, by address; nothing without one.
Effects = Callable[[Validation], Mapping[str, EffectOfPolicy]]


class PolicyFiles:
    """The files that `use` in an open text may name.

    `texts` are the open texts by path; the editor's, and it changes them. `more` are further files
    and folders.
    """

    def __init__(
        self, schema: Schema, texts: Mapping[str, str], more: Sequence[Path], warn: Warn
    ) -> None:
        self._schema = schema
        self._texts = texts
        self._more = more
        self._warn = warn
        self._folders: dict[Path, _Folder] = {}
        self._read: dict[Path, tuple[_Mark, Source | None]] = {}

    def document(self, path: str, *, warned: bool = False) -> EditedDocument | None:
        """The document of an open text; None for a manifest without policies of Placet.

        If `warned`, its diagnostics have the further warnings.
        """
        if (validation := self.validation(path)) is None:
            return None
        return document(path, self._warn(validation) if warned else validation, self._schema)

    def validation(self, path: str) -> Validation | None:
        """An open text with the files that its policies may name."""
        text = self._texts[path]
        if is_manifest(path) and f"{GROUP}/" not in text:
            return None
        parent = Path(path).parent
        sources = [Source(path, text)]
        for file in (*self._beside(parent), *Search(self._more).files):
            name = str(file)
            if name in (source.name for source in sources):
                continue
            if name in self._texts:
                sources.append(Source(name, self._texts[name]))
            elif (source := self._source(file)) is not None:
                sources.append(source)
        # As `placet check FOLDER` has them.
        sources.sort(key=lambda source: source.name)
        return self._checked(parent, sources)

    def _checked(self, parent: Path, sources: Sequence[Source]) -> Validation:
        folder = self._folders.setdefault(parent, _Folder(Validator(self._schema)))
        if folder.validation is None or folder.sources != sources:
            folder.sources, folder.validation = sources, folder.validator.validate(sources)
        return folder.validation

    def _beside(self, parent: Path) -> Iterator[Path]:
        try:
            entries = sorted(parent.iterdir()) if parent.is_absolute() else []
        except OSError:
            return
        for entry in entries:
            if entry.suffix == SUFFIX or is_manifest(entry.name):
                yield entry

    def _source(self, file: Path) -> Source | None:
        """The text of a file, if it may have policies."""
        try:
            found = file.stat()
        except OSError:
            return None
        mark = found.st_mtime_ns, found.st_size
        known = self._read.get(file)
        if known is not None and known[0] == mark:
            return known[1]
        read = read_source(file) if found.st_size <= _LARGEST and file.is_file() else None
        source = read if isinstance(read, Source) else None
        if source is not None and is_manifest(file.name) and f"{GROUP}/" not in source.text:
            source = None
        self._read[file] = mark, source
        return source
