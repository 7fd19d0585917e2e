// Policies: the state of each, its text with what is wrong in it, and the pods of its share.
import { html } from "./vendor/preact-htm.js";
import {
  API, Badge, Bar, Empty, Table, address, count, encodedPath, missing, moment, podAddress, policyAddress, useAnswer,
} from "./parts.js";
import { Bounds, Drift, Facts, Selected } from "./policy.js";

const STATES = { "in force": "good", "last valid version in force": "part", "not in force": "bad" };

export function Policies() {
  const found = useAnswer(`${API}/policies`, { seconds: 10 }), { data } = found;
  const head = html`<div class="title"><h1>Policies</h1></div>`;
  if (!data) return html`${head}${missing(found)}`;
  if (!data.policies.length) return html`${head}<${Empty} title="There is no policy">
    Every pod may go to every node. Apply a PlacementPolicy, or start placet serve with --policies PATH.<//>`;
  return html`${head}<${Table} label="Policies" head=${["Policy", "State", "Mode", ">Weight", "Pods"]}>${data.policies.map((each) => html`<tr key=${each.address}>
      <td class="pod"><a href=${policyAddress(each.address)}>${each.address}</a></td>
      <td class="state"><${Badge} kind=${STATES[each.state]}>${each.state}<//>
        ${each.inForce && each.inForce.expensive && html` <${Badge} kind="bad">expensive<//>`}
        ${each.errors > 0 && html` <span class="wrong">${count(each.errors, "error")}</span>`}
        ${each.warnings > 0 && html` <span class="quiet">${count(each.warnings, "warning")}</span>`}</td>
      <td class="mode">${each.inForce ? each.inForce.mode : (each.state === "in force" && html`<span class="quiet">only for use</span>`)}</td><td class="weight right">${each.inForce && each.inForce.weight}</td>
      <td class="pods"><${Pods} pods=${each.pods} /></td></tr>`)}<//>`;
}

function Pods({ pods }) {
  if (pods.matchedPods === null && pods.placedPods === null) return html`<span class="quiet">not counted</span>`;
  if (pods.targetPods === null) return html`<span class="number">${count(pods.matchedPods || 0, "pod")}</span>`;
  return html`<span class="number">${pods.placedPods || 0} of ${pods.targetPods}</span>
    <${Bar} part=${pods.placedPods || 0} whole=${Math.max(pods.targetPods, pods.placedPods || 0)} kind="good" />`;
}

export function Policy({ names, status: { data: known } }) {
  const found = useAnswer(`${API}/policies/${encodedPath(names)}`, { seconds: 10 }), { data } = found;
  const head = html`<nav class="back" aria-label="Back"><a href="#/policies">All policies</a></nav>
    <h1>${names.join("/")}</h1>`;
  if (found.status === 404) return html`${head}<${Empty} title="There is no such policy here">
    It may be deleted since, or belong to another replica.<//>`;
  if (!data) return html`${head}${missing(found)}`;
  const now = data.inForce;
  const facts = [...(now ? [["Mode", now.mode], ["Weight", now.weight], ["Digest", now.digest]] : []), ["From", data.origin]];
  return html`${head}
    <p><${Badge} kind=${STATES[data.state]}>${data.state}<//>
      ${now && now.expensive && html` <${Badge} kind="bad">expensive<//> it had no time for a call of the last minute`}</p>
    <dl class="facts">${facts.map(([key, value]) => value !== null && html`<div><dt>${key}</dt><dd>${value}</dd></div>`)}</dl>
    ${data.overruledBy.length > 0 && html`<section><h2>Conflicts</h2>
      <p>These govern pods that this policy selects too:</p><ul class="lines">${data.overruledBy.map((each) => html`
        <li><a href=${policyAddress(each)}>${each}</a></li>`)}</ul></section>`}
    <p><a href=${address(["decisions"], { text: names.join("/") })}>The last pods that it governed</a>,
      and <a href=${address(["trends"], { policy: data.address })}>how full its bounds were and what its clauses rejected</a></p>
    <${Selected} policy=${data.address} />
    <${Bounds} policy=${data.address} />
    ${known && html`<${Facts} facts=${known.facts} policy=${data.address} />`}
    <${Drift} policy=${data.address} />
    ${data.audit && html`<${Audit} audit=${data.audit} />`}
    ${data.pods.matchedPods !== null && html`<${Share} pods=${data.pods} />`}
    <section><h2>Text</h2>
      <p class="quiet">${data.diagnostics.length ? count(data.diagnostics.length, "problem") : "Nothing is wrong with it."}${" "}
        <a href=${address(["playground", ...names])}>Edit it in the playground</a>, where nothing is written.</p>
      <${Text} text=${data.text} diagnostics=${data.diagnostics} /></section>`;
}

// What a policy in audit mode would have done.
function Audit({ audit }) {
  const since = html`since <time datetime=${audit.since}>${moment(audit.since)}</time>`;
  if (!audit.pods.length && !audit.waiting && !audit.elsewhere) return html`<section class="audit"><h2>Audit</h2>
    <p>It would have rejected no pod ${since}.</p></section>`;
  return html`<section class="audit"><h2>Audit</h2>
    <p>It would have kept ${count(audit.waiting, "pod")} of ${count(audit.workloads, "workload")} pending ${since},
      and sent ${count(audit.elsewhere, "pod")} to another node.</p>
    <${Table} label="Pods that it would have rejected" head=${["Pod", "Would have", "Clause", ">Nodes", "Since", "Is on"]}>${audit.pods.slice(0, 20).map((each) => html`<tr key=${each.uid}>
      <td class="pod"><a href=${podAddress(each.pod)}>${each.pod}</a> <span class="quiet">${each.workload}</span></td>
      <td>${each.wouldWait ? "waited" : "gone elsewhere"}</td>
      <td>${each.clauses.map((clause) => clause.clause).join(", ")}</td>
      <td class="right number">${each.rejected} of ${each.offered}</td>
      <td><time datetime=${each.since}>${moment(each.since)}</time></td><td>${each.node}</td></tr>`)}<//></section>`;
}

function Share({ pods }) {
  const facts = [["Matched", pods.matchedPods], ["Placed", pods.placedPods], ["Target", pods.targetPods],
    ["Beyond the bounds", pods.violations]];
  if (pods.targetPods !== null && pods.placedPods !== null) facts.push(["Drift", pods.placedPods - pods.targetPods]);
  return html`<section><h2>Pods</h2>
    ${pods.targetPods !== null && html`<${Bar} part=${pods.placedPods || 0} whole=${Math.max(pods.targetPods, pods.placedPods || 0)} kind="good" />`}
    <dl class="facts">${facts.map(([key, value]) => value !== null && html`<div><dt>${key}</dt>
      <dd class="number">${value}</dd></div>`)}</dl>
</section>`;
}

function Text({ text, diagnostics }) {
  return html`<div class="scroll text" tabindex="0" role="region" aria-label="Text of the policy"><ol>
    ${text.replace(/\n$/, "").split("\n").map((line, index) => html`
      <li class=${diagnostics.some((each) => each.line === index + 1) ? "marked" : ""}><code>${line || " "}</code>
      ${diagnostics.filter((each) => each.line === index + 1).map((each) => html`<div class=${`note ${each.severity}`}>
        <strong>${each.severity} ${each.code}</strong> ${each.message}
        ${each.notes.map((note) => html`<div>${note}</div>`)}
        ${each.hint && html`<div>hint: ${each.hint}</div>`}</div>`)}</li>`)}</ol></div>`;
}
