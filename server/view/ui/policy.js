// Policy: its text in colours, the pods that it selects, how full its bounds are, and the texts that it had.
import { html, useState } from "./vendor/preact-htm.js";
import { API, Badge, Waiting, address, ago, count, podAddress, useAnswer } from "./parts.js";
import { Fill, boundQuery } from "./home.js";
import { WORDS } from "./words.js";

// ---- the text

const TOKENS = /(#.*$|\/\/.*$)|("(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?)|([A-Za-z_][\w]*)|(\b\d[\w.%]*)|([^\w"'#]+|.)/g;

// A line as parts of one colour; a key of YAML is one, too.
export function coloured(line) {
  const found = [];
  const key = /^(\s*(?:- )?)([\w./-]+)(:)(?=\s|$)/.exec(line);
  let rest = line;
  if (key) {
    found.push(["", key[1]], ["key", key[2]], ["", key[3]]);
    rest = line.slice(key[0].length);
  }
  for (const [text, comment, string, word, number] of rest.matchAll(TOKENS)) {
    found.push([comment ? "comment" : string ? "string" : number ? "literal" : word && !key && WORDS.has(word) ? "keyword" : "", text]);
  }
  return found;
}

export const Line = ({ line }) => html`<code>${line ? coloured(line).map(([kind, text]) =>
  kind ? html`<span class=${`t-${kind}`}>${text}</span>` : text) : " "}</code>`;

// ---- what it does now

export function Selected({ policy }) {
  const { data, status } = useAnswer(`${API}/selected?${new URLSearchParams({ policy })}`, { seconds: 15 });
  if (status === 404) return html`<section><h2>Pods that it selects</h2><p class="quiet">It is not in force, or made for <code>use</code> alone.</p></section>`;
  if (!data) return html`<section><h2>Pods that it selects</h2><${Waiting} /></section>`;
  return html`<section aria-labelledby="selected"><h2 id="selected">Pods that it selects</h2>
    <p><strong>${count(data.pods, "pod")}</strong>${data.waiting > 0 && html`, <span class="wrong">${data.waiting} without a node</span>`}.
      ${!data.exactly && html` <span class="quiet">Its selector reads more of a pod than is kept of those that are there, so some may be too many.</span>`}</p>
    ${data.listed.length > 0 && html`<ul class="names">${data.listed.map((each) => html`<li key=${each.pod}>
      <a href=${podAddress(each.pod)}>${each.pod}</a>${!each.node && html` <${Badge} kind="bad">waits<//>`}</li>`)}
      ${data.pods > data.listed.length && html`<li class="quiet">and ${data.pods - data.listed.length} more</li>`}</ul>`}</section>`;
}

export function Bounds({ policy }) {
  const { data } = useAnswer(`${API}/fills`, { seconds: 15 });
  const own = data ? data.bounds.filter((each) => each.policy === policy) : [];
  if (!own.length) return null;
  return html`<section aria-labelledby="bounds"><h2 id="bounds">How full its bounds are</h2>
    <ul class="cards">${own.map((each) => html`<li key=${boundQuery(each)}><${Fill} bound=${each} all=${true} />
      ${each.more > 0 && html`<p class="quiet">${count(each.more, "group")} with less are left out.</p>`}
      <p><a href=${address(["home"], { by: "bound", bound: boundQuery(each) })}>On the nodes</a></p></li>`)}</ul></section>`;
}

// What breaks its clauses where it is, and where a repair would move it.
export function Drift({ policy }) {
  const { data } = useAnswer(`${API}/drift`, { seconds: 15 });
  if (!data || data.problem) return null;
  const own = data.pods.filter((pod) => pod.clauses.some((each) => each.policy === policy));
  if (!own.length) return null;
  const place = (pod) => pod.kept ? `stays: ${pod.kept}` : pod.places[0] || `nowhere: ${pod.reason}`;
  return html`<section aria-labelledby="drift"><h2 id="drift">Drift</h2>
    <p><strong>${count(own.length, "pod")}</strong> on a node that its clauses would not allow now.</p>
    <div class="scroll" tabindex="0" role="region" aria-label="Drift"><table>
      <thead><tr><th>Pod</th><th>Is on</th><th>Breaks</th><th>Since</th><th>Would go to</th></tr></thead>
      <tbody>${own.slice(0, 20).map((pod) => html`<tr key=${pod.uid}>
        <td><a href=${podAddress(pod.pod)}>${pod.pod}</a></td><td>${pod.node}</td>
        <td>${pod.clauses.filter((each) => each.policy === policy).map((each) => each.clause).join(", ")}</td>
        <td><time datetime=${pod.clauses[0].since} title=${pod.clauses[0].since}>${ago(pod.clauses[0].since)}</time></td>
        <td>${place(pod)}</td></tr>`)}</tbody></table></div>
    ${own.length > 20 && html`<p class="quiet">and ${own.length - 20} more</p>`}</section>`;
}

// ---- its texts

// The lines that two texts share, by the longest common subsequence; others went or came.
export function diff(before, after) {
  const a = before.split("\n"), b = after.split("\n");
  let first = 0;
  while (first < a.length && first < b.length && a[first] === b[first]) first += 1;
  let last = 0;
  while (last < a.length - first && last < b.length - first && a[a.length - 1 - last] === b[b.length - 1 - last]) last += 1;
  const x = a.slice(first, a.length - last), y = b.slice(first, b.length - last);
  const found = a.slice(0, first).map((line) => ["", line]);
  if (x.length * y.length > 4_000_000) found.push(...x.map((line) => ["-", line]), ...y.map((line) => ["+", line]));
  else found.push(...between(x, y));
  return [...found, ...a.slice(a.length - last).map((line) => ["", line])];
}

function between(x, y) {
  const width = y.length + 1, length = new Uint32Array((x.length + 1) * width);
  for (let i = x.length - 1; i >= 0; i -= 1) for (let j = y.length - 1; j >= 0; j -= 1) {
    length[i * width + j] = x[i] === y[j] ? length[(i + 1) * width + j + 1] + 1
      : Math.max(length[(i + 1) * width + j], length[i * width + j + 1]);
  }
  const found = [];
  let i = 0, j = 0;
  while (i < x.length || j < y.length) {
    if (i < x.length && j < y.length && x[i] === y[j]) { found.push(["", x[i]]); i += 1; j += 1; }
    else if (j < y.length && (i === x.length || length[i * width + j + 1] > length[(i + 1) * width + j])) { found.push(["+", y[j]]); j += 1; }
    else { found.push(["-", x[i]]); i += 1; }
  }
  return found;
}

// Only what differs, with some lines around it.
function nearby(lines, around = 3) {
  const near = lines.map((_, index) => lines.slice(Math.max(0, index - around), index + around + 1).some(([kind]) => kind));
  const found = [];
  near.forEach((shown, index) => {
    if (shown) found.push(lines[index]);
    else if (found.length && found[found.length - 1] !== null) found.push(null);
  });
  return found;
}

export function Revisions({ policy }) {
  const { data } = useAnswer(`${API}/revisions?${new URLSearchParams({ policy })}`, { seconds: 30 });
  const [chosen, choose] = useState(0);
  if (!data || !data.revisions.length) return null;
  const { revisions } = data, newer = revisions[chosen], older = revisions[chosen + 1];
  return html`<section aria-labelledby="revisions"><h2 id="revisions">Revisions</h2>
    <ul class="lines">${revisions.map((each, index) => html`<li key=${`${each.at} ${index}`}>
      <time datetime=${each.at} title=${each.at}>${ago(each.at)}</time> <span>${each.action}${each.by && ` by ${each.by}`}</span>
      ${index + 1 < revisions.length && html`<button aria-pressed=${index === chosen ? "true" : "false"} onClick=${() => choose(index)}>Show what changed</button>`}</li>`)}</ul>
    ${older ? html`<div class="scroll text" tabindex="0" role="region" aria-label="What changed"><ol class="diff">${nearby(diff(older.text, newer.text)).map((line) =>
        line === null ? html`<li class="quiet"><code>…</code></li>` : html`<li class=${line[0] === "+" ? "come" : line[0] === "-" ? "gone" : ""}>
          <code>${line[0] || " "} ${line[1]}</code></li>`)}</ol></div>`
      : html`<p class="quiet">This replica has seen no other text of it. It keeps up to 20 since its start.</p>`}</section>`;
}
