// Parts: what several views share: asking the API, addresses inside the page, and small elements.
import { html, useEffect, useState } from "./vendor/preact-htm.js";

export const API = "../api/v1";

// The answer to GET, nothing for no path: {data}, {error, status}, or {} while there is none. It asks again when the path
// changes, and every `seconds`, a number or a function of the answer; the last answer stays until the next one.
export function useAnswer(path, { seconds = 0 } = {}) {
  const [found, setFound] = useState({});
  useEffect(() => {
    let ended = false, timer = 0;
    setFound((old) => (old.path === path ? old : {}));
    if (path === null) return undefined;
    const ask = async () => {
      const next = await answer(path);
      if (ended) return;
      setFound({ ...next, path });
      const rest = typeof seconds === "function" ? seconds(next) : seconds;
      if (rest) timer = setTimeout(ask, rest * 1000);
    };
    ask();
    return () => { ended = true; clearTimeout(timer); };
  }, [path, seconds]);
  return found.path === path ? found : {};
}

export async function answer(path, options) {
  try {
    const response = await fetch(path, options);
    if (response.ok) return { data: await response.json() };
    return { error: (await response.text()).trim(), status: response.status };
  } catch {
    return { error: "the replica does not answer", status: 0 };
  }
}

// The answer to POST.
export const posted = (path, body) => answer(`${API}/${path}`, {
  method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });

// The replica takes one draft at a time: a check takes some seconds at most, and so long others may have it.
const MOST_TURNS = 20;

export async function patiently(path, body) {
  for (let turns = 1; ; turns += 1) {
    const found = await posted(path, body);
    if (found.status !== 429 || turns === MOST_TURNS) return found;
    await new Promise((resolve) => { setTimeout(resolve, 1000); });
  }
}

// What a draft is called: manifests have another ending than policies.
export const draftName = (text) => /^(\{|apiVersion:)/m.test(text) ? "draft.yaml" : "draft.policy";

// ---- addresses inside the page: #/NAME/NAME?key=value

export function parseAddress(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const names = path.split("/").filter(Boolean).map(decoded);
  return { names, filters: Object.fromEntries(new URLSearchParams(query || "")) };
}

// The filters in the address of a view, and what puts the value of an element there. The address has them at once;
// the event that it changed comes later, when more may be typed.
export function useFilters(view) {
  const { filters } = parseAddress(location.hash);
  return [filters, (key) => (value) => location.replace(address([view], { ...filters, [key]: value }))];
}

function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

export function address(names, filters = {}) {
  const given = Object.entries(filters).filter(([, value]) => value);
  const query = given.length ? `?${new URLSearchParams(given)}` : "";
  return `#/${names.map(encodeURIComponent).join("/")}${query}`;
}

export const podAddress = (pod, node) => address(["pods", ...pod.split("/"), ...(node ? [node] : [])]);
export const policyAddress = (policy) => address(["policies", ...policy.split("/")]);
export const encodedPath = (names) => names.map(encodeURIComponent).join("/");

// The keys with the texts that are first in their values.
export const texts = (of) => Object.entries(of).map(([key, [text]]) => [key, text]);

// ---- words

export const count = (number, one, more = `${one}s`) =>
  `${number.toLocaleString("en")} ${number === 1 ? one : more}`;

const local = (text, form) => Number.isNaN(Date.parse(text)) ? text : new Date(text).toLocaleString("en-GB", form);
export const clock = (text) => local(text, { timeStyle: "medium" });
// The day, too: for what lasts longer than a decision.
export const moment = (text) => local(text, { dateStyle: "medium", timeStyle: "short" });

// How long ago a time was, in words.
export function ago(text) {
  const seconds = (Date.now() - Date.parse(text)) / 1000;
  if (Number.isNaN(seconds)) return text;
  const [number, unit] = seconds < 90 ? [Math.max(0, seconds), "s"] : seconds < 5400 ? [seconds / 60, "min"]
    : seconds < 129_600 ? [seconds / 3600, "h"] : [seconds / 86_400, "days"];
  return `${Math.round(number)} ${unit} ago`;
}

// A number with three digits, or all of a larger whole number.
export const digits = (number) => (Math.abs(number) < 100 ? Number(number.toPrecision(3)) : Math.round(number)).toLocaleString("en", { maximumSignificantDigits: 15 });

export const duration = (seconds) => seconds < 1 ? `${digits(seconds * 1000)} ms` : `${digits(seconds)} s`;

// ---- elements

export const Waiting = () => html`<p class="quiet" role="status">Loading …</p>`;

export const Empty = ({ title, children }) =>
  html`<div class="empty"><h2>${title}</h2><p>${children}</p></div>`;

const REMEDIES = {
  0: "Check that it runs and, if you came through kubectl placet ui, that the command still runs.",
  401: "Reload the page, and give a token of the cluster as the password.",
  403: "Links to the pods and policies of your namespaces work.",
};

export function Problem({ error, status, remedy }) {
  const usual = REMEDIES[status || 0] ?? "The view answered so. Reload the page, or look into the log of the replica.";
  return html`<div class="problem" role="alert"><strong>${sentence(error)}</strong> ${remedy ?? usual}</div>`;
}

export const titled = (text) => text.charAt(0).toUpperCase() + text.slice(1);

export const sentence = (text) => {
  const whole = titled(text);
  return /[.!?]$/.test(whole) ? whole : `${whole}.`;
};

// A bar of `part` of `whole`; the number beside it says the same, so that it has no text of its own.
export const Bar = ({ part, whole, kind = "" }) => html`
  <svg class=${`bar ${kind}`} viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
    <rect class="all" width="100" height="8" />
    <rect class="part" width=${whole ? Math.min(100, (100 * part) / whole) : 0} height="8" />
  </svg>`;

// Facts by their names, but for those that are null.
export const FactList = ({ of }) => html`<dl class="facts">${of.map(([name, value]) => value !== null && html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

// A choice of one value of [value, text].
export const Choice = ({ label, of, value = "", change }) => html`<label>${label} <select value=${value} onChange=${(event) => change(event.target.value)}>
  ${of.map(([each, text]) => html`<option value=${each}>${text}</option>`)}</select></label>`;

// What is wrong with a text.
export const Note = ({ of, at = "" }) => html`<div class=${`note ${of.severity}`}><strong>${of.severity} ${of.code}</strong> ${at}${of.message}
  ${of.notes.map((note) => html`<div>${note}</div>`)}${of.hint && html`<div>hint: ${of.hint}</div>`}</div>`;

export const Failing = ({ status: { data } }) => data && data.failing.map((each) => html`
  <div class="problem" role="alert"><strong>${each.name}:</strong> ${sentence(each.failure)}</div>`);

export const Badge = ({ kind, children }) => html`<span class=${`badge ${kind}`}>${children}</span>`;

// What is said while there is no answer, or instead of one; null once there is one.
export const missing = ({ data, error, status }) =>
  error ? html`<${Problem} error=${error} status=${status} />` : data ? null : html`<${Waiting} />`;

// A table that scrolls by itself. A column that begins with `>` has numbers.
export const Table = ({ label, head, children, ...more }) => html`
  <div class="scroll" tabindex="0" role="region" aria-label=${label}><table ...${more}><thead><tr>${head.map((text) =>
    html`<th scope="col" class=${text[0] === ">" ? "right" : undefined}>${text.replace(/^>/, "")}</th>`)}</tr></thead>
  <tbody>${children}</tbody></table></div>`;

// Named values by their columns; `link` gives the address of what a column names, if it names something.
export function Rows({ label, rows, link = () => null }) {
  const columns = [...new Set(rows.flatMap(Object.keys))];
  const right = (column) => rows.every((row) => row[column] === null || typeof row[column] === "number");
  return html`<${Table} label=${label} head=${columns.map((each) => (right(each) ? ">" : "") + titled(each))}>${rows.map((row, index) => html`
    <tr key=${index}>${columns.map((each) => html`<td class=${right(each) ? "right" : undefined}><${Cell} value=${row[each]}
      to=${row[each] && link(each, row[each])} /></td>`)}</tr>`)}<//>`;
}

function Cell({ value, to }) {
  if (to) return html`<a href=${to}>${value}</a>`;
  if (typeof value === "number") return Math.round(value).toLocaleString("en");
  if (!value || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.join(", ");
  return html`${value.part} of ${value.whole}<${Bar} part=${value.part} whole=${value.whole} kind="good" />`;
}

// The colours of the page are those of the system, and it says when they change.
export function useScheme() {
  const [dark, setDark] = useState(matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)"), changed = () => setDark(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  return dark;
}

// The first of some rows, each made by `row`; the rest comes when it is asked for.
export function First({ rows, first, row }) {
  const [shown, setShown] = useState(first), rest = Math.min(rows.length - shown, 500);
  return html`${rows.slice(0, shown).map(row)}
    ${rest > 0 && html`<li><button onClick=${() => setShown(shown + rest)}>${rest} more</button></li>`}`;
}

export const Names = ({ names, link, first = 24 }) => html`<ul class="names">
  <${First} rows=${names} first=${first} row=${(name) => html`<li key=${name}><a href=${link(name)}>${name}</a></li>`} /></ul>`;
