// Find: pods, nodes, workloads, policies, clauses and reasons by some words; and a workload with its pods.
import { html, useEffect, useRef } from "./vendor/preact-htm.js";
import {
  API, Badge, Empty, Problem, Waiting, address, count, encodedPath, parseAddress, podAddress, policyAddress, sentence,
  useAnswer,
} from "./parts.js";

const KINDS = [["pod", "Pods"], ["workload", "Workloads"], ["node", "Nodes"], ["policy", "Policies"],
  ["clause", "Clauses"], ["reason", "Reasons of the last decisions"]];

function addressOf({ kind, name, about }) {
  if (kind === "pod") return podAddress(name);
  if (kind === "workload") return address(["workloads", ...name.split("/")]);
  if (kind === "node") return address(["home"], { node: name });
  if (kind === "policy") return policyAddress(name);
  return kind === "clause" ? policyAddress(about) : podAddress(about);
}

const ABOUT = {
  pod: (about) => about ? `on ${about}` : html`<${Badge} kind="bad">waits<//>`,
  reason: (about) => `the last time about ${about}`,
  workload: (about) => about,
};

export function Find() {
  const field = useRef(null);
  // The address has it at once; the event that it changed comes later, when more may be typed.
  const text = parseAddress(location.hash).filters.text || "";
  const { data, error, status } = useAnswer(text.trim() ? `${API}/find?${new URLSearchParams({ text })}` : null);
  useEffect(() => { field.current.focus(); }, []);
  return html`<div class="title"><h1>Find</h1></div>
    <form class="filters" onSubmit=${(event) => event.preventDefault()}>
      <label>A part of a name, or several <input ref=${field} type="search" value=${text} maxlength="200"
        onInput=${(event) => location.replace(address(["find"], { text: event.target.value }))} /></label></form>
    ${!text.trim() && html`<p class="quiet">Pods, workloads, nodes, policies, their clauses, and the reasons of the last decisions.</p>`}
    ${error && html`<${Problem} error=${error} status=${status} />`}
    ${text.trim() && !data && !error && html`<${Waiting} />`}
    <div aria-live="polite">${data && !data.found.length && html`<${Empty} title="Nothing has this in its name">
      Another replica knows the same cluster, and has made other decisions.<//>`}
    ${data && KINDS.map(([kind, title]) => {
      const found = data.found.filter((each) => each.kind === kind);
      return found.length > 0 && html`<section><h2>${title}</h2><ul class="lines">${found.map((each) => html`<li key=${each.name}>
        <a href=${addressOf(each)}>${each.name}</a>${ABOUT[kind] && html` <span class="quiet">${ABOUT[kind](each.about)}</span>`}</li>`)}</ul></section>`;
    })}
    ${data && data.more > 0 && html`<p class="quiet">${count(data.more, "other")} are left out: add a word.</p>`}</div>`;
}

export function Workload({ names }) {
  const [namespace, kind, name] = names;
  const { data, error, status } = useAnswer(`${API}/workloads/${encodedPath(names)}`, { seconds: 10 });
  const head = html`<h1>${kind} ${namespace}/${name}</h1>`;
  if (status === 404) return html`${head}<${Empty} title=${sentence(error)}>It may have no pod yet, or no more.<//>`;
  if (error) return html`${head}<${Problem} error=${error} status=${status} />`;
  if (!data) return html`${head}<${Waiting} />`;
  const waiting = data.listed.find((each) => !each.node);
  return html`${head}
    <p class="answer"><strong>${count(data.pods, "pod")}${data.replicas === null ? "" : ` of ${data.replicas} wanted`}</strong>,${" "}
      ${data.waiting ? html`<span class="wrong">${data.waiting} without a node</span>` : "all with a node"}.</p>
    ${waiting && html`<${Cause} pod=${waiting.pod} />`}
    <section><h2>Pods</h2><div class="scroll" tabindex="0" role="region" aria-label="Pods"><table><thead><tr><th scope="col">Pod</th>
      <th scope="col">Node</th><th scope="col">Phase</th></tr></thead>
    <tbody>${data.listed.map((each) => html`<tr key=${each.pod}><td><a href=${podAddress(each.pod)}>${each.pod}</a></td>
      <td>${each.node ? html`<a href=${address(["home"], { node: each.node })}>${each.node}</a>` : html`<${Badge} kind="bad">waits<//>`}</td>
      <td>${each.phase}</td></tr>`)}</tbody></table></div>
    ${data.pods > data.listed.length && html`<p class="quiet">${count(data.pods - data.listed.length, "more pod")}.</p>`}</section>`;
}

// Why the first pod that waits does so: its explanation says the same of it.
function Cause({ pod }) {
  const { data, error, status } = useAnswer(`${API}/explain/${encodedPath(pod.split("/"))}`);
  if (error) return html`<${Problem} error=${error} status=${status} />`;
  if (!data) return html`<${Waiting} />`;
  return data.cause && html`<p class="cause"><a href=${podAddress(pod)}>${pod}</a>: <strong>${sentence(data.cause.text)}</strong>
    ${data.cause.hint && html` ${sentence(data.cause.hint)}`}</p>`;
}
