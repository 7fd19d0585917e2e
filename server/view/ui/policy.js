// Policy: its text in colours, the pods that it selects, how full its bounds are, and the texts that it had.
import { html, useState } from "./vendor/preact-htm.js";
import { API, Badge, Bar, Waiting, address, ago, count, draftName, moment, patiently, podAddress, policyAddress, useAnswer } from "./parts.js";
import { Fill, boundQuery } from "./home.js";
import { Outcome } from "./outcome.js";
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

export function Selected({ policy, effect }) {
  const { data, status } = useAnswer(`${API}/selected?${new URLSearchParams({ policy })}`, { seconds: 15 });
  if (status === 404) return html`<section><h2>Pods that it selects</h2><p class="quiet">It is not in force, or made for <code>use</code> alone.</p></section>`;
  if (!data) return html`<section><h2>Pods that it selects</h2><${Waiting} /></section>`;
  return html`<section aria-labelledby="selected"><h2 id="selected">Pods that it selects</h2>
    <p><strong>${count(data.pods, "pod")} of the cluster</strong>${data.waiting > 0 && html`, <span class="wrong">${data.waiting} without a node</span>`}.
      ${effect && ` Lately it ${effect}.`}
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

export function Gangs({ gangs, some }) {
  if (!gangs.length) return null;
  return html`<section><h2>Gangs</h2>
    <p class="quiet">${gangs.map((each, index) => html`${index ? "; " : ""}<a href=${policyAddress(each.policy)}>${each.policy}</a>:
      ${" "}${each.waiting} waiting, ${each.gathering} gathering, ${each.givenUp} given up`)}.</p>
    ${some.length > 0 && html`<div class="scroll" tabindex="0" role="region" aria-label="Gangs"><table><thead><tr><th scope="col">Gang</th>
      <th scope="col">State</th><th scope="col" class="right">For</th><th scope="col" class="right">Needed</th>
      <th scope="col" class="right">Held</th></tr></thead>
    <tbody>${some.map((each) => html`<tr key=${`${each.policy} ${each.clause} ${each.name}`}><td>${each.name}</td>
      <td>${each.text || each.state}</td><td class="right">${Math.round(each.seconds)} s</td>
      <td class="right">${each.quorum}</td>
      <td class="right">${each.held}<${Bar} part=${each.held + each.placed} whole=${each.quorum} kind="good" /></td></tr>`)}</tbody></table></div>`}</section>`;
}

// The nodes that each clause rejected, minute by minute.
export function Rejections({ policy }) {
  const { data } = useAnswer(`${API}/history?${new URLSearchParams({ hours: 168, policy })}`, { seconds: 60 });
  if (!data) return null;
  const start = `rejected ${policy}: `, own = data.series.filter((each) => each.name.startsWith(start) && each.numbers.some((number) => number > 0));
  const since = data.times.length ? moment(1000 * data.times[0]) : "";
  return html`<section aria-labelledby="over-time"><h2 id="over-time">What its clauses rejected</h2>
    ${!own.length ? html`<p class="quiet">${since ? `No clause of it has rejected a node since ${since}.` : "The first number comes within a minute."}</p>`
      : html`<p class="quiet">Nodes in each minute since ${since}, where the clause is among the ten that rejected most.</p>
      <ul class="scores">${own.map((each) => html`<${OverTime} key=${each.name} name=${each.name.slice(start.length)} times=${data.times} numbers=${each.numbers} />`)}</ul>`}</section>`;
}

function OverTime({ name, times, numbers }) {
  const most = Math.max(...numbers), first = times[0], span = Math.max(1, times[times.length - 1] - first);
  const last = new Date(1000 * times[numbers.findLastIndex((number) => number > 0)]).toISOString();
  const lines = numbers.map((number, index) => number > 0 ? `M${(100 * (times[index] - first) / span).toFixed(2)} 20V${(19 - 18 * number / most).toFixed(2)}` : "");
  const said = `at most ${most.toLocaleString("en")}, last ${ago(last)}`;
  return html`<li><span>${name}</span><svg class="over-time" viewBox="-1 0 102 20" preserveAspectRatio="none" role="img" aria-label=${`${name}: ${said}`}>
    <path d=${lines.join("")} /></svg><span class="quiet">${said}</span></li>`;
}

export const Events = ({ events }) => events.length > 0 && html`<section aria-labelledby="events"><h2 id="events">Events</h2>
  <p class="quiet">Those that this replica has written while it led.</p>
  <ul class="lines">${events.map((each) => html`<li><time datetime=${each.at} title=${each.at}>${ago(each.at)}</time>
    <${Badge} kind=${each.type === "Warning" ? "bad" : "plain"}>${each.reason}<//> <span>${each.note}</span></li>`)}</ul></section>`;

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
  // A revision is chosen by its number, the oldest is 1: further ones may come.
  const [[from, to], setPair] = useState([null, null]);
  const [trial, setTrial] = useState({});
  const choose = (pair) => { setPair(pair); setTrial({}); };
  if (!data || !data.revisions.length) return null;
  const { revisions } = data, number = (index) => revisions.length - index;
  const last = to || number(0), first = from || Math.max(1, last - 1);
  const newer = revisions[number(last)], older = revisions[number(first)];
  const run = async () => {
    setTrial({ running: true });
    setTrial(await patiently("evaluate", { text: newer.text, before: older.text, policy, name: draftName(newer.text || older.text) }));
  };
  const select = (label, one, change) => html`<label>${label} <select value=${one} onChange=${(event) => change(Number(event.target.value))}>
    ${revisions.map((each, index) => html`<option value=${number(index)}>${number(index)}: ${each.action}, ${moment(each.at)}</option>`)}</select></label>`;
  return html`<section aria-labelledby="revisions"><h2 id="revisions">Revisions</h2>
    <ul class="lines">${revisions.map((each, index) => html`<li key=${number(index)}>
      <span class="number">${number(index)}</span> <time datetime=${each.at} title=${each.at}>${ago(each.at)}</time>
      <span>${each.action}${each.by && ` by ${each.by}`}</span></li>`)}</ul>
    ${revisions.length < 2 ? html`<p class="quiet">This replica has seen no other text of it. It keeps up to 20 since its start.</p>` : html`
      <form class="filters" onSubmit=${(event) => event.preventDefault()}>
        ${select("From", first, (chosen) => choose([chosen, last]))} ${select("to", last, (chosen) => choose([first, chosen]))}
        <button type="button" disabled=${trial.running || first === last} onClick=${run}>Which pods would it decide otherwise?</button></form>
      <div class="scroll text" tabindex="0" role="region" aria-label="What changed"><ol class="diff">${nearby(diff(older.text, newer.text)).map((line) =>
        line === null ? html`<li class="quiet"><code>…</code></li>` : html`<li class=${line[0] === "+" ? "come" : line[0] === "-" ? "gone" : ""}>
          <code>${line[0] || " "} ${line[1]}</code></li>`)}</ol></div>
      <div aria-live="polite"><${Outcome} trial=${trial} quiet="" /></div>`}</section>`;
}
