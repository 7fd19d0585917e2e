// Home: the cluster at a glance: its nodes, the pods that wait and why, what fills up, what rejects, what changed.
import { html, useEffect, useState } from "./vendor/preact-htm.js";
import { NodeMap, STEPS } from "./nodemap.js";
import {
  API, Badge, Bar, Choice, FactList, Failing, Problem, Waiting, address, ago, count, encodedPath, missing, podAddress,
  policyAddress, sentence, useAnswer,
} from "./parts.js";

const BY = [["cpu", "requested cpu"], ["memory", "requested memory"], ["cards", "cards in use"],
  ["pod", "the verdict for a pod"]];
export const boundKey = (bound) => `${bound.policy} ${bound.clause} ${bound.of}`;

// It asks again at once while the replica works out causes.
const WAITING_SECONDS = ({ data }) => data && !data.complete ? 0.2 : 10;

export function Home({ filters, status }) {
  const { label = "", by = "cpu", pod, node } = filters;
  const overview = useAnswer(`${API}/overview?${new URLSearchParams(label ? { label } : {})}`, { seconds: 5 });
  const waiting = useAnswer(`${API}/waiting`, { seconds: WAITING_SECONDS });
  const fills = useAnswer(`${API}/fills`, { seconds: 15 });
  const drift = useAnswer(`${API}/drift`, { seconds: 15 });
  const verdict = useAnswer(by === "pod" && pod ? `${API}/explain/${encodedPath(pod.split("/"))}` : null);
  const [last, setLast] = useState(null);
  useEffect(() => { if (overview.data) setLast(overview.data); }, [overview.data]);
  const data = overview.data || last;
  const go = (more) => location.replace(address(["home"], { label, by, pod, node, ...more }));
  if (!data) return html`<h1>Home</h1>${missing(overview)}<${Failing} status=${status} />`;
  return html`<h1 class="numbers">
      <span><b>${data.nodes.names.length.toLocaleString("en")}</b> ${data.nodes.names.length === 1 ? "node" : "nodes"}</span>${" "}
      <span><b>${data.pods.toLocaleString("en")}</b> ${data.pods === 1 ? "pod" : "pods"} placed</span>${" "}
      <span class=${data.waiting ? "wrong" : ""}><b>${data.waiting.toLocaleString("en")}</b> ${data.waiting === 1 ? "waits" : "wait"}</span></h1>
    ${overview.error && html`<${Problem} ...${overview} />`}
    <${Failing} status=${status} />
    <div class="home"><div>
      <${Nodes} nodes=${data.nodes} label=${label} by=${by} pod=${pod} node=${node}
        verdict=${verdict} waiting=${waiting.data} go=${go} />
        <${Fills} found=${fills} />
        <${Rejecting} status=${status} /></div>
      <div>
        <${WaitingPods} found=${waiting} go=${go} />
        <${Edits} edits=${data.edits} drift=${drift.data} started=${status.data && status.data.started} />
      </div></div>`;
}

// ---- nodes

// By node, why the explained pod may not go there.
function verdictsOf(explained) {
  const found = new Map();
  for (const group of explained.groups) for (const name of group.names) found.set(name, group.rejectedBy.length ? "rejected" : "passes");
  for (const each of explained.unfit) for (const name of each.names) if (found.get(name) === "passes") found.set(name, "unfit");
  return found;
}

function Nodes({ nodes, label, by, pod, node, verdict, waiting, go }) {
  const verdicts = verdict.data ? verdictsOf(verdict.data) : null;
  const known = BY.filter(([name]) => name !== "cards" || nodes.cards);
  return html`<section class="nodes-section" aria-labelledby="nodes"><h2 id="nodes">Nodes</h2>
    <form class="filters" onSubmit=${(event) => event.preventDefault()}>
      <${Choice} label="Grouped by" of=${[...new Set([nodes.label, ...nodes.labels])].map((each) => [each, each || "nothing"])} value=${nodes.label} change=${(value) => go({ label: value })} />
      <${Choice} label="Coloured by" of=${known} value=${by} change=${(value) => go({ by: value })} />
      ${by === "pod" && html`<${PodField} pod=${pod} waiting=${waiting} go=${go} />`}
    </form>
    <${Legend} by=${by} nodes=${nodes} verdicts=${verdicts} verdict=${verdict} pod=${pod} />
    <${NodeMap} nodes=${nodes} by=${by} verdicts=${verdicts} chosen=${node} choose=${(name) => go({ node: name })} />
    ${node && nodes.names.includes(node) && html`<${OneNode} nodes=${nodes} name=${node} pod=${by === "pod" ? pod : ""} close=${() => go({ node: "" })} />`}
    <${Fullest} nodes=${nodes} by=${by} go=${go} /></section>`;
}

function PodField({ pod, waiting, go }) {
  return html`<label>Pod <input type="search" list="waiting-pods" placeholder="namespace/name" value=${pod || ""}
    onChange=${(event) => go({ pod: event.target.value.trim() })} />
    <datalist id="waiting-pods">${((waiting && waiting.waiting) || []).map((each) => html`<option value=${each.pod} />`)}</datalist></label>`;
}

const VERDICTS = [["passes", "pass"], ["unfit", "rejected by kube-scheduler's own plugins"], ["rejected", "rejected by policies"]];

function Legend({ by, nodes, verdicts, verdict, pod }) {
  if (by === "pod" && !pod) return html`<p class="quiet">Name a pod to see which nodes would take it.</p>`;
  if (by === "pod" && verdict.error) return html`<${Problem} ...${verdict} />`;
  if (by === "pod" && !verdicts) return html`<${Waiting} />`;
  if (by === "pod") {
    const number = (kind) => nodes.names.filter((name) => verdicts.get(name) === kind).length;
    return html`<p class="legend">${VERDICTS.map(([kind, text]) => html`<span><i class=${`cell ${kind}`}></i>${number(kind)} ${text}</span>`)}
      <a href=${podAddress(pod)}>Why</a></p>`;
  }
  return html`<p class="legend">${STEPS.map((below, index) => html`<span><i class=${`cell load-${index}`}></i>${
    below === Infinity ? `${STEPS[index - 1]} % and more` : `below ${below} %`}</span>`)}
    <span><i class="cell unknown"></i>not known</span></p>`;
}

const STATES = ["ready", "takes no pods", "not ready"];

function OneNode({ nodes, name, pod, close }) {
  const place = nodes.names.indexOf(name);
  const percent = (of) => (nodes[of] && nodes[of][place] >= 0 ? `${nodes[of][place]} %` : null);
  const facts = [["State", STATES[nodes.state[place]]], ["Pods", nodes.pods[place]], ["Requested cpu", percent("cpu")],
    ["Requested memory", percent("memory")], ["Cards in use", percent("cards")]];
  return html`<section class="node" aria-label=${`Node ${name}`}><h3>${name} <button class="close" onClick=${close}>close</button></h3>
    <${FactList} of=${facts} />
    ${pod && html`<p><a href=${podAddress(pod, name)}>What each clause says of ${pod} here</a></p>`}</section>`;
}

// The same without colours, for whoever does not see them or has no pointer.
function Fullest({ nodes, by, go }) {
  const percents = nodes[by] || nodes.cpu, name = nodes[by] ? by : "cpu";
  const ordered = nodes.names.map((_, place) => place).sort((a, b) => percents[b] - percents[a]);
  return html`<details><summary>Nodes as a list, those with most ${name} first</summary>
    <ul class="names">${ordered.slice(0, 100).map((place) => html`<li key=${nodes.names[place]}>
      <button onClick=${() => go({ node: nodes.names[place] })}>${nodes.names[place]} ${percents[place] < 0 ? "" : `${percents[place]} %`}</button></li>`)}</ul>
    ${ordered.length > 100 && html`<p class="quiet">${count(ordered.length - 100, "node")} more have less.</p>`}</details>`;
}

// ---- beside them

function WaitingPods({ found, go }) {
  const { data } = found;
  return html`<section class="first" aria-labelledby="waiting"><h2 id="waiting">Pods that wait</h2>${missing(found)}
    ${data && !data.waiting.length && html`<p class="quiet">No pod waits for a node.</p>`}
    ${data && html`<ul class="cards">${data.waiting.map((each) => html`<li key=${each.pod}>
      <p><a href=${podAddress(each.pod)}>${each.pod}</a>${each.pods > 1 && html` <${Badge} kind="plain">and ${each.pods - 1} like it<//>`}
        ${each.since && html` <span class="quiet">${ago(each.since)}</span>`}
        ${!each.asked && html` <${Badge} kind="part">never asked about<//>`}</p>
      ${each.cause ? html`<p class="why">${sentence(each.cause.text)}${each.cause.hint && html` <span class="quiet">${sentence(each.cause.hint)}</span>`}</p>`
        : html`<p class="quiet">${each.problem ? sentence(each.problem) : "Working out why …"}</p>`}
      <p><button onClick=${() => go({ by: "pod", pod: each.pod })}>Show on the nodes</button></p></li>`)}</ul>
      ${data.more > 0 && html`<p class="quiet">${count(data.more, "pod")} more of other workloads.</p>`}`}</section>`;
}

function Fills({ found }) {
  const { data } = found;
  return html`<section aria-labelledby="fills"><h2 id="fills">What fills up</h2>${missing(found)}
    ${data && !data.bounds.length && html`<p class="quiet">No strict limit, share or spread has a bound that pods fill.</p>`}
    ${data && html`<ul class="cards">${data.bounds.slice(0, 5).map((each) => html`<li key=${boundKey(each)}>
      <${Fill} bound=${each} /></li>`)}</ul>`}</section>`;
}

export function Fill({ bound, all = false }) {
  const shown = all ? bound.groups : bound.groups.slice(0, 1);
  return html`<p><a href=${policyAddress(bound.policy)}>${bound.policy}</a>: ${bound.clause}${bound.of && html` <span class="quiet">of ${bound.of}</span>`}${
    bound.kind === "spread" && html` <span class="quiet">as many more than in the emptiest place</span>`}</p>
    ${shown.map((group) => html`<div class="fill"><span>${group.name}</span>
      <${Bar} part=${group.used} whole=${group.most} kind=${kindOf(group)} />
      <span class="number">${group.most < 1e6 ? `${group.used.toLocaleString("en")} of ${group.most.toLocaleString("en")}`
        : `${Math.round(100 * group.used / group.most)} %`}</span></div>`)}`;
}

const kindOf = ({ used, most }) => used >= most ? "bad" : used >= 0.9 * most ? "part" : "good";

function Rejecting({ status: { data } }) {
  const rejections = data ? data.rejections.slice(0, 5) : [];
  return html`<section aria-labelledby="rejecting"><h2 id="rejecting">What rejects most</h2>
    ${data && html`<p class="quiet">${rejections.length ? "Since this replica started, " : "No clause has rejected a node since this replica started, "}${ago(data.started)}.</p>`}
    ${rejections.map((each) => html`<div class="fill"><span><a href=${policyAddress(each.policy)}>${each.policy}</a>: ${each.clause}</span>
      <${Bar} part=${each.nodes} whole=${rejections[0].nodes} /><span class="number">${count(each.nodes, "node")}</span></div>`)}</section>`;
}

// The pods that were evicted for the policy as it is now.
const Evicted = ({ repair }) => repair && repair.evicted > 0 && html`<p>${count(repair.evicted, "pod")} evicted since${
  repair.moving.length > 0 && html`; without a node yet: ${repair.moving.join(", ")}`}.</p>`;

function Edits({ edits, drift, started }) {
  const repairs = (drift && drift.repairs) || [];
  return html`<section aria-labelledby="edits"><h2 id="edits">What changed</h2>
    ${!edits.length && html`<p class="quiet">No policy has changed since this replica started${started ? `, ${ago(started)}` : ""}.</p>`}
    <ul class="cards">${edits.slice(0, 5).map((each) => html`<li key=${each.address}>
      <p>${each.action === "deleted" ? each.address : html`<a href=${policyAddress(each.address)}>${each.address}</a>`}${" "}
        ${each.action} <time datetime=${each.at} title=${each.at}>${ago(each.at)}</time>${each.by && html` by ${each.by}`}</p>
      <${Evicted} repair=${repairs.find((one) => one.policy === each.address)} /></li>`)}</ul></section>`;
}
