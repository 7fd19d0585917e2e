// Health: whether this replica can decide: its checks, what it watches, who leads, and how fast it is.
import { html } from "./vendor/preact-htm.js";
import { Badge, Bar, Problem, Waiting, duration, podAddress, policyAddress, sentence, useAnswer } from "./parts.js";

export function Health({ status: { data, error, status } }) {
  const configuration = useAnswer("../configz");
  const head = html`<div class="title"><h1>Health</h1></div>`;
  if (error) return html`${head}<${Problem} error=${error} status=${status} />`;
  if (!data) return html`${head}<${Waiting} />`;
  return html`${head}
    <p class="answer"><${Badge} kind=${data.ready ? "good" : "bad"}>${data.ready ? "ready" : "not ready"}<//>${" "}
      Replica ${data.replica}, version ${data.version}, since <time datetime=${data.started}>${data.started}</time></p>
    ${data.failing.map((each) => html`<div class="problem" role="alert">
      <strong>${each.name}:</strong> ${sentence(each.failure)}${each.warning && " This is a warning."}</div>`)}
    <dl class="facts">
      <div><dt>Leader</dt><dd>${leader(data.cluster)}</dd></div>
      <div><dt>Decisions</dt><dd class="number">${data.decisions.toLocaleString("en")}</dd></div>
      <div><dt>Policies in force</dt><dd class="number">${data.policies.length}</dd></div>
      <div><dt>Pods in flight</dt><dd class="number">${data.podsInFlight}</dd></div></dl>
    ${data.notInForce.length > 0 && html`<div class="problem" role="alert"><strong>Not in force:</strong> ${data.notInForce.join(", ")}.
      Their pods wait. <a href="#/policies">See what is wrong.</a></div>`}
    <${Latency} latency=${data.latency} timeout=${timeout(configuration.data)} />
    <${Rejections} rejections=${data.rejections} />
    <${Informers} cluster=${data.cluster} />
    <${Gangs} gangs=${data.gangs} some=${data.someGangs} />
    <${Data} sources=${data.data} />
    ${data.inFlight.length > 0 && html`<section><h2>In flight</h2><ul class="lines">${data.inFlight.map((each) => html`
      <li>${each.pod.includes("/") ? html`<a href=${podAddress(each.pod)}>${each.pod}</a>` : each.pod}
        <span class="quiet">for ${Math.round(each.seconds)} s</span></li>`)}</ul></section>`}`;
}

function leader(cluster) {
  if (!cluster) return "no cluster is watched";
  const { lease } = cluster;
  if (!lease || !Object.keys(lease).length) return "decides by counts without a Lease";
  return lease.held ? "this replica" : lease.holder || "nobody";
}

// The seconds that kube-scheduler waits for an answer, as the replica was told: `5s`, `500ms`, `1m30s`.
export function timeout(configuration) {
  const text = configuration && Object.values(configuration)[0]?.httpTimeout;
  const units = { h: 3600, m: 60, s: 1, ms: 0.001 };
  const parts = [...String(text ?? "").matchAll(/([0-9.]+)(ms|h|m|s)/g)];
  return parts.length ? parts.reduce((sum, [, number, unit]) => sum + number * units[unit], 0) : null;
}

function Latency({ latency, timeout: limit }) {
  const called = latency.filter((each) => each.calls > 0);
  if (!called.length) return html`<section><h2>Latency</h2><p class="quiet">kube-scheduler has not called yet.</p></section>`;
  return html`<section><h2>Latency</h2>
    ${limit !== null && html`<p class="quiet">The bars are parts of <code>httpTimeout</code>, ${limit} s: beyond it,
      kube-scheduler stops waiting.</p>`}
    <div class="scroll" tabindex="0" role="region" aria-label="Latency"><table><thead><tr><th scope="col">Verb</th><th scope="col" class="right">Calls</th>
      <th scope="col" class="right">p50</th><th scope="col" class="right">p90</th><th scope="col">p99</th></tr></thead>
    <tbody>${called.map((each) => html`<tr key=${each.verb}><td>${each.verb}</td>
      <td class="right">${each.calls.toLocaleString("en")}</td>
      <td class="right">${time(each.p50)}</td><td class="right">${time(each.p90)}</td>
      <td class="nodes"><span class="number">${time(each.p99)}</span>
        ${limit !== null && html`<${Bar} part=${each.p99 ?? limit} whole=${limit}
          kind=${(each.p99 ?? limit) > limit / 2 ? "bad" : "good"} />`}</td></tr>`)}</tbody></table></div></section>`;
}

function Rejections({ rejections }) {
  if (!rejections.length) return html`<section><h2>Rejections</h2><p class="quiet">No clause has rejected a node yet.</p></section>`;
  const most = rejections[0].nodes;
  return html`<section><h2>Rejections</h2><p class="quiet">Nodes that each clause rejected, in all calls since the replica started.</p>
    <div class="scroll" tabindex="0" role="region" aria-label="Rejections"><table><thead><tr><th scope="col">Policy</th>
      <th scope="col">Clause</th><th scope="col">Nodes</th></tr></thead>
    <tbody>${rejections.map((each) => html`<tr key=${`${each.policy} ${each.clause}`}>
      <td><a href=${policyAddress(each.policy)}>${each.policy}</a></td><td>${each.clause}</td>
      <td class="nodes"><span class="number">${each.nodes.toLocaleString("en")}</span>
        <${Bar} part=${each.nodes} whole=${most} /></td></tr>`)}</tbody></table></div></section>`;
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

function Data({ sources }) {
  if (!sources.length) return null;
  const state = (each) => each.stale ? "bad" : each.error ? "plain" : "good";
  const word = (each) => each.stale ? "stale" : each.error ? "fails" : "ok";
  return html`<section><h2>Data</h2><p class="quiet">Tables that policies read beside pods and nodes.</p>
    <div class="scroll" tabindex="0" role="region" aria-label="Data"><table><thead><tr><th scope="col">Table</th>
      <th scope="col">Source</th><th scope="col">Policies</th><th scope="col">State</th><th scope="col" class="right">Rows</th>
      <th scope="col" class="right">Age</th><th scope="col">Failure</th></tr></thead>
    <tbody>${sources.map((each) => html`<tr key=${`${each.name} ${each.kind} ${each.policies.join()}`}><td>${each.name}</td>
      <td>${each.kind}</td><td>${each.policies.slice(0, 5).map((policy, index) => html`${index ? ", " : ""}<a href=${policyAddress(policy)}>${policy}</a>`)}
        ${each.policies.length > 5 ? ` and ${each.policies.length - 5} more` : ""}</td>
      <td><${Badge} kind=${state(each)}>${word(each)}<//></td><td class="right">${each.rows.toLocaleString("en")}</td>
      <td class="right">${each.age === null ? "" : `${Math.round(each.age)} s`}</td>
      <td class="wrong">${each.error || (each.leftOut ? `${each.leftOut} left out: ${each.cause}` : "")}</td></tr>`)}</tbody></table></div></section>`;
}

const time = (seconds) => seconds === null ? "beyond 16 s" : duration(seconds);

function Informers({ cluster }) {
  const resources = Object.entries((cluster && cluster.resources) || {}).sort();
  if (!resources.length) return html`<section><h2>Informers</h2>
    <p class="quiet">This server watches no cluster: it was started with --demo, --cluster or --no-cluster.</p></section>`;
  return html`<section><h2>Informers</h2><div class="scroll" tabindex="0" role="region" aria-label="Informers"><table><thead><tr><th scope="col">Resource</th>
    <th scope="col" class="right">Objects</th><th scope="col">State</th><th scope="col" class="right">Last event</th>
    <th scope="col">Failure</th></tr></thead><tbody>${resources.map(([name, each]) => html`<tr key=${name}>
      <td>${name}</td><td class="right">${(each.objects ?? 0).toLocaleString("en")}</td>
      <td><${Badge} kind=${each.synced ? "good" : "bad"}>${each.synced ? "synced" : "not synced"}<//></td>
      <td class="right">${typeof each.secondsSinceLastEvent === "number" ? `${Math.round(each.secondsSinceLastEvent)} s ago` : ""}</td>
      <td class="wrong">${each.failure || ""}</td></tr>`)}</tbody></table></div></section>`;
}
