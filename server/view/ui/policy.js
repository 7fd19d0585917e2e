// Policy: the pods that it selects, how full its bounds are, and the texts that it had.
import { html, useState } from "./vendor/preact-htm.js";
import { API, Badge, Bar, Table, Waiting, address, ago, count, draftName, moment, patiently, podAddress, policyAddress, useAnswer } from "./parts.js";
import { Fill, boundQuery } from "./home.js";
import { Outcome } from "./outcome.js";

// ---- what it does now

export function Selected({ policy }) {
  const { data, status } = useAnswer(`${API}/selected?${new URLSearchParams({ policy })}`, { seconds: 15 });
  if (status === 404) return html`<section><h2>Pods that it selects</h2><p class="quiet">It is not in force, or made for <code>use</code> alone.</p></section>`;
  if (!data) return html`<section><h2>Pods that it selects</h2><${Waiting} /></section>`;
  return html`<section aria-labelledby="selected"><h2 id="selected">Pods that it selects</h2>
    <p><strong>${count(data.pods, "pod")} of the cluster</strong>${data.waiting > 0 && html`, <span class="wrong">${data.waiting} without a node</span>`}.
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
    ${some.length > 0 && html`<${Table} label="Gangs" head=${["Gang", "State", ">For", ">Needed", ">Held"]}>${some.map((each) => html`<tr key=${`${each.policy} ${each.clause} ${each.name}`}><td>${each.name}</td>
      <td>${each.text || each.state}</td><td class="right">${Math.round(each.seconds)} s</td>
      <td class="right">${each.quorum}</td>
      <td class="right">${each.held}<${Bar} part=${each.held + Object.keys(each.nodes).length} whole=${each.quorum} kind="good" /></td></tr>`)}<//>`}</section>`;
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
    <${Table} label="Drift" head=${["Pod", "Is on", "Breaks", "Since", "Would go to"]}>${own.slice(0, 20).map((pod) => html`<tr key=${pod.uid}>
        <td><a href=${podAddress(pod.pod)}>${pod.pod}</a></td><td>${pod.node}</td>
        <td>${pod.clauses.filter((each) => each.policy === policy).map((each) => each.clause).join(", ")}</td>
        <td><time datetime=${pod.clauses[0].since} title=${pod.clauses[0].since}>${ago(pod.clauses[0].since)}</time></td>
        <td>${place(pod)}</td></tr>`)}<//>
    ${own.length > 20 && html`<p class="quiet">and ${own.length - 20} more</p>`}</section>`;
}

// ---- its texts

// What two texts share at their beginnings and ends stays, with some lines of it; what is between went or came.
export function diff(before, after, around = 3) {
  const a = before.split("\n"), b = after.split("\n"), least = Math.min(a.length, b.length);
  let first = 0, last = 0;
  while (first < least && a[first] === b[first]) first += 1;
  while (last < least - first && a[a.length - 1 - last] === b[b.length - 1 - last]) last += 1;
  const lines = (kind, found) => found.map((line) => [kind, line]);
  return [...lines("", a.slice(Math.max(0, first - around), first)), ...lines("-", a.slice(first, a.length - last)),
    ...lines("+", b.slice(first, b.length - last)), ...lines("", a.slice(a.length - last, a.length - last + around))];
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
    ${revisions.length < 2 ? html`<p class="quiet">This replica has seen no other text of it. It keeps up to 20.</p>` : html`
      <form class="filters" onSubmit=${(event) => event.preventDefault()}>
        ${select("From", first, (chosen) => choose([chosen, last]))} ${select("to", last, (chosen) => choose([first, chosen]))}
        <button type="button" disabled=${trial.running || first === last} onClick=${run}>Which pods would it decide otherwise?</button></form>
      <div class="scroll text" tabindex="0" role="region" aria-label="What changed"><ol class="diff">${diff(older.text, newer.text).map(([kind, line]) =>
        html`<li class=${{ "+": "come", "-": "gone" }[kind] || ""}><code>${kind || " "} ${line}</code></li>`)}</ol></div>
      <div aria-live="polite"><${Outcome} trial=${trial} quiet="" /></div>`}</section>`;
}
