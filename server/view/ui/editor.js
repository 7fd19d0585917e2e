// Editor: the text of a draft in CodeMirror, with the colours of the language and what is wrong with it.
import { html, useEffect, useRef } from "./vendor/preact-htm.js";
import {
  EditorState, EditorView, HighlightStyle, StreamLanguage, autocompletion, bracketMatching, closeBrackets,
  completionKeymap, defaultKeymap, drawSelection, highlightActiveLine, history, historyKeymap, indentUnit, keymap, lineNumbers, lintGutter, lintKeymap, linter, syntaxHighlighting, tags,
} from "./vendor/codemirror.js";
import { WORDS } from "./words.js";

const language = StreamLanguage.define({
  name: "placet",
  languageData: { commentTokens: { line: "#" }, closeBrackets: { brackets: ["(", "[", "{", '"', "'"] } },
  startState: () => ({ quote: "", dot: false }),
  token(stream, state) {
    if (state.quote) return insideText(stream, state);
    if (stream.eatSpace()) return null;
    if (stream.match(/^(#|\/\/)/)) { stream.skipToEnd(); return "comment"; }
    const text = stream.match(/^[rRbB]{0,2}("""|'''|"|')/);
    if (text) { state.quote = text[1]; return insideText(stream, state); }
    const afterDot = state.dot;
    state.dot = false;
    if (stream.match(/^\d[\w.]*%?/)) return "number";
    if (stream.match(/^[A-Za-z_]\w*/)) {
      const word = stream.current();
      if (afterDot) return "propertyName";
      if (/^(true|false|null)$/.test(word)) return "atom";
      return WORDS.has(word) ? "keyword" : "variableName";
    }
    state.dot = stream.peek() === ".";
    stream.next();
    return null;
  },
});

function insideText(stream, state) {
  while (!stream.eol()) {
    if (stream.match(state.quote)) { state.quote = ""; return "string"; }
    if (stream.next() === "\\") stream.next();
  }
  if (state.quote.length === 1) state.quote = "";
  return "string";
}

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--link)", fontWeight: "600" },
  { tag: tags.string, color: "var(--good)" },
  { tag: [tags.number, tags.atom], color: "var(--part)" },
  { tag: tags.comment, color: "var(--quiet)", fontStyle: "italic" },
]);

const theme = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--raised)", fontSize: "0.9rem" },
  "&.cm-focused": { outline: "2px solid var(--link)" },
  ".cm-scroller": { fontFamily: "ui-monospace, monospace", minHeight: "16rem", maxHeight: "32rem" },
  ".cm-gutters": { backgroundColor: "var(--raised)", color: "var(--quiet)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--back)" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground":
    { backgroundColor: "var(--part-back)" },
  ".cm-tooltip": { color: "var(--text)", backgroundColor: "var(--back)", border: "1px solid var(--line)", maxWidth: "36rem" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { color: "var(--back)", backgroundColor: "var(--link)" },
  // The marks of the library are pictures inside its styles, which the page does not allow.
  ".cm-lintRange-error, .cm-lintRange-warning, .cm-lintRange-info": {
    backgroundImage: "none", textDecoration: "underline wavy var(--bad)", textDecorationSkipInk: "none" },
  ".cm-lintRange-warning, .cm-lintRange-info": { textDecorationColor: "var(--part)" },
  ".cm-lint-marker-error, .cm-lint-marker-warning, .cm-lint-marker-info":
    { content: "none", borderRadius: "50%", width: "0.6em", height: "0.6em", margin: "0.3em 0.2em", backgroundColor: "var(--part)" },
  ".cm-lint-marker-error": { backgroundColor: "var(--bad)" },
  ".cm-diagnostic": { whiteSpace: "pre-wrap" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--bad)" },
});

// A text in its element; `check` gives the diagnostics of the text, and `complete` what can stand at a place, with offsets
// in characters. `load` is a text that replaces the one in the editor when it changes.
export function Editor({ load, change, check, complete, run }) {
  const place = useRef(null), view = useRef(null), now = useRef({});
  now.current = { change, check, complete, run };
  useEffect(() => {
    // Styles go to the sheets of a shadow root: the page allows no style elements.
    const root = place.current.shadowRoot || place.current.attachShadow({ mode: "open" });
    view.current = new EditorView({ parent: root, root, state: EditorState.create({
      doc: load.text,
      extensions: [
        lineNumbers(), history(), drawSelection(), bracketMatching(), closeBrackets(), highlightActiveLine(),
        indentUnit.of("  "), language, syntaxHighlighting(colours), theme, lintGutter(),
        EditorView.contentAttributes.of({ "aria-label": "Text of the draft", tabindex: "0" }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) now.current.change(update.state.doc.toString());
        }),
        linter(async ({ state }) => marks(state.doc, await now.current.check(state.doc.toString())), { delay: 300 }),
        autocompletion({ override: [(context) => completions(context, now.current.complete)] }),
        keymap.of([
          { key: "Mod-Enter", run: () => { now.current.run(); return true; } },
          ...completionKeymap, ...lintKeymap, ...historyKeymap, ...defaultKeymap,
        ]),
      ],
    }) });
    return () => view.current.destroy();
  }, []);
  useEffect(() => {
    const { state } = view.current;
    if (state.doc.toString() === load.text) return;
    view.current.dispatch({ changes: { from: 0, to: state.doc.length, insert: load.text } });
  }, [load]);
  return html`<div class="editor" ref=${place}></div>`;
}

// The place of a line and a column, both from 1; a column counts characters, and the editor parts of UTF-16.
function offset(doc, line, column) {
  const found = doc.line(Math.min(Math.max(line, 1), doc.lines));
  return found.from + [...found.text].slice(0, column - 1).join("").length;
}

const marks = (doc, diagnostics) => diagnostics.map((each) => {
  const from = offset(doc, each.line, each.column);
  return {
    from, to: Math.max(from, offset(doc, each.endLine, each.endColumn)), severity: each.severity,
    message: [`${each.message} (${each.code})`, ...each.notes, ...(each.hint ? [`hint: ${each.hint}`] : [])].join("\n"),
  };
});

// The editor counts parts of UTF-16, and the replica characters.
const characters = (text) => [...text].length;
const parts = (text, number) => [...text].slice(0, number).join("").length;

const KINDS = { field: "property", function: "function", key: "constant", name: "variable", policy: "class",
  sign: "keyword", text: "text", type: "type", word: "keyword" };

async function completions(context, complete) {
  const before = context.state.sliceDoc(0, context.pos), text = context.state.doc.toString();
  if (!context.explicit && !/[\w.$"'[(]$/.test(before)) return null;
  const found = await complete(text, characters(before));
  if (!found.length || context.aborted) return null;
  const options = found.filter((each) => each.start === found[0].start).map((each) => ({
    label: each.text, detail: each.note, info: [each.heading, each.about].filter(Boolean).join("\n") || undefined, type: KINDS[each.kind] }));
  return { from: parts(text, found[0].start), options, validFor: /^\w*$/ };
}
