"""Sessions with `placet lsp`, as pytest-lsp and its client have them."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from lsprotocol import types
from pytest_lsp import LanguageClient, client_capabilities
from pytest_lsp.client import make_test_lsp_client

from tests.cli import shop

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.process]
ROOT = Path(__file__).parents[3]
OTHER = """\
policy spot(least: int) {
  description "Only spot nodes."
  for pods where false
  filter "spot" { require node.pods.size() < least }
}
"""
# The snowman is one unit in UTF-16, the dromedary two.
TEXT = """\
policy shop {
  for pods where pod.namespace == "shop" // ☃ 🐪
  let name = node.zone == pod.annotations["☃🐪"] || node.zoen == "a"
  use "spot" (least: 3)
  filter "named" { require name }
}
"""


class Editor:
    """An editor with open texts in a folder."""

    def __init__(self, client: LanguageClient, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self._versions: dict[str, int] = {}

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    async def write(self, name: str, text: str) -> list[types.Diagnostic]:
        """Opens or changes a text; the diagnostics after that."""
        self.client.diagnostics.clear()
        uri, version = self.uri(name), self._versions.get(name, 0) + 1
        self._versions[name] = version
        if version == 1:
            item = types.TextDocumentItem(uri, "placet", version, text)
            self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        else:
            whole = [types.TextDocumentContentChangeWholeDocument(text)]
            changed = types.VersionedTextDocumentIdentifier(version, uri)
            change = types.DidChangeTextDocumentParams(changed, whole)
            self.client.text_document_did_change(change)
        return await self.told(name)

    async def told(self, name: str) -> list[types.Diagnostic]:
        """The diagnostics of a text since the last change, once they have come."""
        return await self.told_of(self.uri(name))

    async def told_of(self, uri: str) -> list[types.Diagnostic]:
        async with asyncio.timeout(60):
            while (found := self.client.diagnostics.get(uri)) is None:
                await self.client.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        return list(found)

    def text(self, name: str) -> types.TextDocumentIdentifier:
        return types.TextDocumentIdentifier(self.uri(name))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def editor(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Editor]:
    folder = tmp_path_factory.mktemp("policies")
    cluster = tmp_path_factory.mktemp("cluster")
    shop.write(cluster)
    (folder / "spot.policy").write_text(OTHER, "utf-8")
    client = make_test_lsp_client()
    arguments = ("-m", "cli", "lsp", "--cluster", str(cluster / "cluster.json"))
    await client.start_io(sys.executable, *arguments, cwd=ROOT)
    capabilities = client_capabilities("neovim@0.7.0")
    await client.initialize_session(types.InitializeParams(capabilities=capabilities))
    yield Editor(client, folder)
    await client.shutdown_session()
    await client.stop()  # type: ignore[no-untyped-call]


async def test_diagnostics_have_the_ranges_and_hints_of_check(editor: Editor) -> None:
    found = await editor.write("ranges.policy", TEXT)
    assert [(d.code, d.severity) for d in found] == [("P0102", types.DiagnosticSeverity.Error)]
    assert found[0].message.splitlines()[0] == "Node has no field `zoen`"
    assert "help: " in found[0].message
    line = TEXT.splitlines()[2]
    start = len(line[: line.index("zoen")].encode("utf-16-le")) // 2
    place = types.Range(types.Position(2, start), types.Position(2, start + 4))
    assert found[0].range == place


async def test_a_quick_fix_applies_the_hint(editor: Editor) -> None:
    found = await editor.write("fix.policy", TEXT)
    document = editor.text("fix.policy")
    context = types.CodeActionContext(found)
    asked = types.CodeActionParams(document, found[0].range, context)
    actions = await editor.client.text_document_code_action_async(asked)
    assert actions
    action = actions[0]
    assert isinstance(action, types.CodeAction)
    assert action.title == "replace `zoen` by `zone`"
    assert action.edit is not None
    assert action.edit.changes is not None
    (edit,) = action.edit.changes[editor.uri("fix.policy")]
    assert (edit.range, edit.new_text) == (found[0].range, "zone")
    assert await editor.write("fix.policy", TEXT.replace("zoen", "zone")) == []


async def test_an_edit_of_one_file_tells_about_the_others(editor: Editor) -> None:
    text = TEXT.replace("zoen", "zone")
    assert await editor.write("user.policy", text) == []
    await editor.write("spot.policy", OTHER.replace("least", "most"))
    found = await editor.told("user.policy")
    assert "needs a value for `most`" in found[0].message
    closed = types.DidCloseTextDocumentParams(editor.text("spot.policy"))
    editor.client.diagnostics.clear()
    editor.client.text_document_did_close(closed)
    assert await editor.told("user.policy") == []


async def test_hover(editor: Editor) -> None:
    await editor.write("hover.policy", TEXT)
    asked = types.HoverParams(editor.text("hover.policy"), types.Position(2, 20))
    found = await editor.client.text_document_hover_async(asked)
    assert found is not None
    assert isinstance(found.contents, types.MarkupContent)
    assert "node.zone: string" in found.contents.value
    assert "In the cluster: " in found.contents.value
    asked = types.HoverParams(editor.text("hover.policy"), types.Position(0, 2))
    assert await editor.client.text_document_hover_async(asked) is None


async def test_completion_has_the_label_keys_of_the_snapshot(editor: Editor) -> None:
    begun = 'policy p {\n  filter "f" { require node.labels["cap'
    await editor.write("labels.policy", begun)
    end = types.Position(1, len(begun.splitlines()[1]))
    asked = types.CompletionParams(editor.text("labels.policy"), end)
    found = await editor.client.text_document_completion_async(asked)
    assert isinstance(found, list)
    assert [item.label for item in found] == ["capacity"]
    assert isinstance(found[0].text_edit, types.TextEdit)
    assert found[0].text_edit.new_text == 'capacity"'


async def test_label_keys_that_no_node_has_are_found_and_mended(editor: Editor) -> None:
    text = 'cluster policy p {\n  filter "f" { require node.labels["capcity"] == "spot" }\n}\n'
    found = await editor.write("unknown.policy", text)
    label = next(d for d in found if d.code == "P0320")
    context = types.CodeActionContext([label])
    asked = types.CodeActionParams(editor.text("unknown.policy"), label.range, context)
    actions = await editor.client.text_document_code_action_async(asked)
    titles = [a.title for a in actions or () if isinstance(a, types.CodeAction)]
    assert 'replace `"capcity"` by `"capacity"`' in titles


async def test_definition_in_another_file_and_in_the_library(editor: Editor) -> None:
    await editor.write("uses.policy", TEXT.replace('"spot" (least: 3)', '"library/spot-ceiling"'))
    asked = types.DefinitionParams(editor.text("uses.policy"), types.Position(3, 12))
    found = await editor.client.text_document_definition_async(asked)
    assert isinstance(found, types.Location)
    assert found.uri == (ROOT / "policies" / "library" / "spot-ceiling.policy").as_uri()
    await editor.write("uses.policy", TEXT)
    found = await editor.client.text_document_definition_async(asked)
    assert isinstance(found, types.Location)
    assert found.uri == editor.uri("spot.policy")
    assert found.range.start == types.Position(0, len("policy "))


async def test_format(editor: Editor) -> None:
    await editor.write("format.policy", 'policy  p { filter "f" {require true} }')
    document = editor.text("format.policy")
    options = types.FormattingOptions(tab_size=2, insert_spaces=True)
    asked = types.DocumentFormattingParams(document, options)
    edits = await editor.client.text_document_formatting_async(asked)
    assert edits
    assert edits[0].new_text == 'policy p {\n  filter "f" { require true }\n}\n'
    await editor.write("format.policy", "policy p {")
    assert not await editor.client.text_document_formatting_async(asked)


async def test_manifests_have_diagnostics_if_they_are_of_placet(editor: Editor) -> None:
    assert await editor.write("other.yaml", "kind: ConfigMap\nbroken: [\n") == []
    kind = "apiVersion: placement-policy.scheduling.x-k8s.io/v1alpha1\nkind: PlacementPolicie\n"
    found = await editor.write("policy.yaml", kind)
    assert found
    asked = types.HoverParams(editor.text("policy.yaml"), types.Position(0, 2))
    assert await editor.client.text_document_hover_async(asked) is None


async def test_a_text_in_no_file_is_checked(editor: Editor) -> None:
    item = types.TextDocumentItem("untitled:Untitled-1", "placet", 1, "policy p {")
    editor.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
    assert await editor.told_of("untitled:Untitled-1")


async def test_the_server_ends_as_it_is_asked_to() -> None:
    """With 0, and without a word."""
    requests: list[dict[str, object]] = [
        {"id": 1, "method": "initialize", "params": {"processId": None, "capabilities": {}}},
        {"id": 2, "method": "shutdown"},
        {"method": "exit"},
    ]
    bodies = [json.dumps({"jsonrpc": "2.0", **each}) for each in requests]
    given = "".join(f"Content-Length: {len(body)}\r\n\r\n{body}" for body in bodies)
    command = [sys.executable, "-m", "cli", "lsp"]
    pipe = subprocess.PIPE
    server = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe
    )
    _, said = await asyncio.wait_for(server.communicate(given.encode()), 60)
    assert (server.returncode, said) == (0, b"")
