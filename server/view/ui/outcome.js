// Outcome: which pods would get another answer, by a draft, and what the draft does.
import { html } from "./vendor/preact-htm.js";
import { Badge, Names, Problem, Table, Waiting, count, podAddress } from "./parts.js";

const SHOWN = 200;

export function Outcome({ trial: { running, error, status, data }, quiet }) {
  if (running) return html`<${Waiting} />`;
  if (error) return html`<${Problem} error=${error} status=${status} />`;
  if (!data) return html`<p class="quiet">${quiet}</p>`;
  if (data.diagnostics.some((each) => each.severity === "error")) return html`<p>The draft has errors, so nothing was tried.</p>`;
  const { changed } = data, waiting = changed.filter((each) => !each.on).length;
  const asked = data.asked < data.pods
    ? `${count(data.asked, "pod")} of ${data.pods.toLocaleString("en")} could be asked about in time, those without a node first`
    : `${count(data.pods, "pod")} on ${count(data.nodes, "node")}`;
  return html`<p class="answer"><strong class="number">${changed.length.toLocaleString("en")}</strong> ${changed.length === 1 ? "pod" : "pods"}${" "}
      would get another answer${waiting > 0 && html`, ${waiting.toLocaleString("en")} of which ${waiting === 1 ? "waits" : "wait"}`}.${" "}<span class="quiet">(${asked})</span></p>
    ${changed.length > 0 && html`<p class="kinds">${kinds(changed).map(([text, number, kind]) =>
      html`<${Badge} kind=${kind}>${number.toLocaleString("en")} ${text}<//> `)}</p>
    <${Table} class="changes" label="Pods with another answer"
      head=${["Pod", ">Nodes that pass", "No longer", "In addition", "Best node"]}>${changed.slice(0, SHOWN).map((each) => html`<${Changed} key=${each.pod} one=${each} />`)}<//>
    ${changed.length > SHOWN && html`<p class="quiet">The first ${SHOWN} are shown.</p>`}`}
    <${Effects} effects=${data.effects} />`;
}

// What each policy of the draft, and each of its clauses, does in the cluster.
const Effects = ({ effects }) => effects.length > 0 && html`<h2>What it does</h2><ul class="lines">${effects.map((each) => html`
  <li>policy <strong>${each.policy}</strong> <span class=${each.isVoid ? "wrong" : ""}>${each.text}</span>
    ${each.clauses.length > 0 && html`<ul class="lines">${each.clauses.map((one) => html`
      <li>${one.clause}: <span class=${one.isVoid ? "wrong" : ""}>${one.text}</span></li>`)}</ul>`}</li>`)}</ul>`;

// What becomes of pods, each pod once.
function kinds(changed) {
  const found = [
    ["pass no node any more", (one) => one.before > 0 && one.after === 0, "bad"],
    ["pass a node at last", (one) => one.before === 0 && one.after > 0, "good"],
    ["pass fewer nodes", (one) => one.after < one.before, "part"],
    ["pass more nodes", (one) => one.after > one.before, "good"],
    ["pass other nodes", (one) => one.admits.length > 0, "plain"],
    ["have another best node", () => true, "plain"],
  ].map(([text, holds, kind]) => [text, 0, kind, holds]);
  for (const one of changed) found.find(([, , , holds]) => holds(one))[1] += 1;
  return found.filter(([, number]) => number > 0);
}

function Changed({ one }) {
  const [namespace] = one.pod.split("/");
  const link = (node) => podAddress(one.pod, node);
  const best = one.bestBefore === one.bestAfter ? one.bestAfter || "" : `${one.bestBefore || "any"} → ${one.bestAfter || "any"}`;
  return html`<tr><td class="pod">${namespace ? html`<a href=${podAddress(one.pod)}>${one.pod}</a>` : one.pod}${!one.on && html` <${Badge} kind="bad">waits<//>`}
      ${one.error && html`<div class="wrong">${one.error}</div>`}</td>
    <td class="right">${one.before} → ${one.after}</td>
    <td class="gone">${one.rejects.length > 0 && html`<${Names} names=${one.rejects} link=${link} first=${4} />`}</td>
    <td class="come">${one.admits.length > 0 && html`<${Names} names=${one.admits} link=${link} first=${4} />`}</td>
    <td>${best}</td></tr>`;
}
