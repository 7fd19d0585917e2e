// Policies: the state of each, its text with what is wrong in it, and the pods of its share.
import { html } from "./vendor/preact-htm.js";
import {
  API, Badge, Choice, Empty, FactList, Note, Table, address, ago, count, encodedPath, missing, moment, podAddress,
  policyAddress, sentence, texts, useAnswer, useFilters,
} from "./parts.js";
import { Bounds, Drift, Facts, Selected } from "./policy.js";

const STATES = { "in force": "good", "last valid version in force": "part", "not in force": "bad" };
const SHOWN = {
  force: ["in force", (each) => each.inForce], audit: ["in audit", (each) => each.inForce && each.inForce.mode === "audit"],
  wrong: ["with problems", (each) => each.errors + each.warnings > 0 || each.state !== "in force"],
};
// By what they are sorted: the one with most first.
const ORDERS = { waiting: ["pods that wait", (each) => each.waiting], pods: ["pods", (each) => each.selected],
  rejects: ["rejected nodes", (each) => each.rejects], changed: ["last change", (each) => each.edit && Date.parse(each.edit.at)] };

export function Policies({ status: { data: known } }) {
  const found = useAnswer(`${API}/policies`, { seconds: 15 }), { data } = found;
  const [filters, filter] = useFilters("policies"), wanted = (filters.text || "").toLowerCase();
  const head = html`<div class="title"><h1>Policies</h1></div>`;
  if (!data) return html`${head}${missing(found)}`;
  if (!data.policies.length) return html`${head}<${Empty} title="There is no policy">
    Every pod may go to every node. Apply a PlacementPolicy, or start placet serve with --policies PATH.<//>`;
  const rejections = Map.groupBy(known ? known.rejections : [], (each) => each.policy);
  const sum = (of) => (rejections.get(of) || []).reduce((total, each) => total + each.nodes, 0);
  const matching = data.policies.map((each) => ({ ...each, rejects: sum(each.address) }))
    .filter((each) => `${each.address} ${each.description}`.toLowerCase().includes(wanted) && (SHOWN[filters.state]?.[1] ?? (() => true))(each));
  const by = ORDERS[filters.by]?.[1];
  if (by) matching.sort((a, b) => (by(b) ?? -1) - (by(a) ?? -1));
  const isForUse = (each) => each.state === "in force" && !each.inForce;
  const own = matching.filter((each) => !isForUse(each)), forUse = matching.filter(isForUse);
  return html`${head}
    <form class="filters" onSubmit=${(event) => event.preventDefault()}>
      <label>Name or description <input type="search" value=${filters.text || ""} onInput=${(event) => filter("text")(event.target.value)} /></label>
      <${Choice} label="Show" of=${[["", "all"], ...texts(SHOWN)]} value=${filters.state} change=${filter("state")} />
      <${Choice} label="Sorted by" of=${[["", "name"], ...texts(ORDERS)]} value=${filters.by} change=${filter("by")} /></form>
    ${!matching.length && html`<${Empty} title="No policy matches"><a href="#/policies">Show all</a>.<//>`}
    ${own.length > 0 && html`<${Table} label="Policies" head=${["Policy", "State", ">Pods", ">Rejected nodes", "Changed"]}>${own.map((each) => html`<tr key=${each.address}>
      <td class="pod"><a href=${policyAddress(each.address)}>${each.address}</a><div class="quiet">${each.description}</div></td>
      <td class="state"><${Badge} kind=${STATES[each.state]}>${each.state}<//>
        ${each.inForce && each.inForce.mode !== "enforce" && html` <${Badge} kind="part">${each.inForce.mode}<//>`}
        ${each.inForce && each.inForce.expensive && html` <${Badge} kind="bad">expensive<//>`}
        ${each.errors > 0 && html` <span class="wrong">${count(each.errors, "error")}</span>`}
        ${each.warnings > 0 && html` <span class="quiet">${count(each.warnings, "warning")}</span>`}</td>
      <td class="right">${each.selected?.toLocaleString("en")}${each.waiting > 0 && html`<div class="wrong">${each.waiting.toLocaleString("en")} ${each.waiting === 1 ? "waits" : "wait"}</div>`}
        ${each.pods.targetPods !== null && html`<div class="quiet">${each.pods.placedPods || 0} of ${each.pods.targetPods} placed</div>`}</td>
      <td class="right">${each.rejects > 0 && each.rejects.toLocaleString("en")}</td>
      <td>${each.edit && html`<time datetime=${each.edit.at} title=${each.edit.at}>${ago(each.edit.at)}</time>${each.edit.by && html`<div class="quiet">by ${each.edit.by}</div>`}`}</td></tr>`)}<//>
      <p class="quiet">Nodes are those that its clauses have rejected${known ? ` since this replica started, ${ago(known.started)}` : ""}, without those held back for other pods.</p>`}
    ${forUse.length > 0 && html`<details open=${Boolean(wanted)}><summary>${count(forUse.length, "policy that others use", "policies that others use")}</summary>
      <${Table} label="Policies that others use" head=${["Policy", "Description"]}>${forUse.map((each) => html`<tr key=${each.address}>
        <td><a href=${policyAddress(each.address)}>${each.address}</a></td><td>${each.description}</td></tr>`)}<//></details>`}`;
}

export function Policy({ names, status: { data: known } }) {
  const found = useAnswer(`${API}/policies/${encodedPath(names)}`, { seconds: 15 }), { data } = found;
  const head = html`<nav class="back" aria-label="Back"><a href="#/policies">All policies</a></nav>
    <h1>${names.join("/")}</h1>`;
  if (found.status === 404) return html`${head}<${Empty} title="There is no such policy here">
    It may be deleted since, or belong to another replica.<//>`;
  if (!data) return html`${head}${missing(found)}`;
  const now = data.inForce;
  const { placedPods, targetPods, violations } = data.pods;
  // The weight of a policy whose author gives none is 101.
  const facts = [["Mode", now && now.mode], ["Weight", now && now.weight !== 101 ? now.weight : null], ["From", data.origin],
    ["Changed", data.edit && `${ago(data.edit.at)}${data.edit.by && ` by ${data.edit.by}`}`],
    ["Placed", targetPods === null ? null : `${placedPods || 0} of ${targetPods}`], ["Beyond the bounds", violations]];
  return html`${head}
    ${data.description && html`<p>${sentence(data.description)}</p>`}
    <p><${Badge} kind=${STATES[data.state]}>${data.state}<//>
      ${now && now.expensive && html` <${Badge} kind="bad">expensive<//> it had no time for a call of the last minute`}</p>
    <${FactList} of=${facts} />
    ${data.overruledBy.length > 0 && html`<section><h2>Conflicts</h2>
      <p>These govern pods that this policy selects too:</p><ul class="lines">${data.overruledBy.map((each) => html`
        <li><a href=${policyAddress(each)}>${each}</a></li>`)}</ul></section>`}
    <p><a href=${address(["decisions"], { text: names.join("/") })}>The last pods that it governed</a>,
      and <a href=${address(["trends"], { policy: data.address })}>how full its bounds were and what its clauses rejected</a></p>
    <${Selected} policy=${data} />
    <${Bounds} policy=${data.address} />
    ${known && html`<${Facts} facts=${known.facts} policy=${data.address} />`}
    <${Drift} policy=${data.address} />
    ${data.audit && html`<${Audit} audit=${data.audit} />`}
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

function Text({ text, diagnostics }) {
  return html`<div class="scroll text" tabindex="0" role="region" aria-label="Text of the policy"><ol>
    ${text.replace(/\n$/, "").split("\n").map((line, index) => html`
      <li class=${diagnostics.some((each) => each.line === index + 1) ? "marked" : ""}><code>${line || " "}</code>
      ${diagnostics.filter((each) => each.line === index + 1).map((each) => html`<${Note} of=${each} />`)}</li>`)}</ol></div>`;
}
