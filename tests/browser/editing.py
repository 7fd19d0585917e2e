"""Editing: how tests write into the editor of the playground."""

from __future__ import annotations

from playwright.sync_api import Page

_PASTE = """(editor, text) => {
  const clipboardData = new DataTransfer();
  clipboardData.setData("text/plain", text);
  const how = { clipboardData, bubbles: true, cancelable: true };
  editor.dispatchEvent(new ClipboardEvent("paste", how));
}"""


def write(page: Page, text: str) -> None:
    """Replaces the draft by a text that is pasted."""
    editor = page.get_by_label("Text of the draft")
    editor.click()
    page.keyboard.press("Control+a")
    editor.evaluate(_PASTE, text)
