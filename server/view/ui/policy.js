// Policy: the pods that it selects, how full its bounds are, what capabilities know of it, and its drift.
import { html } from "./vendor/preact-htm.js";
import { API, Badge, Rows, Table, ago, count, podAddress, titled, useAnswer } from "./parts.js";
import { Fill, boundKey } from "./home.js";

export function Selected({ policy: { selected, waiting, exactly, listed } }) {
  if (selected === null) return html`<section><h2>Pods that it selects</h2><p class="quiet">It is not in force, or made for <code>use</code> alone; or the cluster is not known yet.</p></section>`;
  return html`<section aria-labelledby="selected"><h2 id="selected">Pods that it selects</h2>
    <p><strong>${count(selected, "pod")} of the cluster</strong>${waiting > 0 && html`, <span class="wrong">${waiting.toLocaleString("en")} without a node</span>`}.
      ${!exactly && html` <span class="quiet">Its selector reads more of a pod than is kept of those that are there, so some may be too many.</span>`}</p>
    ${listed.length > 0 && html`<ul class="names">${listed.map((each) => html`<li key=${each.pod}>
      <a href=${podAddress(each.pod)}>${each.pod}</a>${!each.node && html` <${Badge} kind="bad">waits<//>`}</li>`)}
      ${selected > listed.length && html`<li class="quiet">and ${(selected - listed.length).toLocaleString("en")} more</li>`}</ul>`}</section>`;
}

export function Bounds({ policy }) {
  const { data } = useAnswer(`${API}/fills`, { seconds: 15 });
  const own = data ? data.bounds.filter((each) => each.policy === policy) : [];
  if (!own.length) return null;
  return html`<section aria-labelledby="bounds"><h2 id="bounds">How full its bounds are</h2>
    <ul class="cards">${own.map((each) => html`<li key=${boundKey(each)}><${Fill} bound=${each} all=${true} />
      ${each.more > 0 && html`<p class="quiet">${count(each.more, "group")} with less are left out.</p>`}</li>`)}</ul></section>`;
}

// What capabilities know of a policy: a table for each that has rows about it.
export function Facts({ facts, policy }) {
  const about = (row) => row.policy === policy || (row.policies || []).includes(policy);
  const tables = Object.entries(facts).map(([name, every]) => [name, every.filter(about)]);
  return tables.filter(([, rows]) => rows.length).map(([name, rows]) => {
    const others = rows.map(({ policy: _, policies: __, ...row }) => row);
    return html`<section key=${name}><h2>${titled(name)}</h2><${Rows} label=${name} rows=${others} /></section>`;
  });
}

// What breaks its clauses where it is, and where a repair would move it.
export function Drift({ policy }) {
  const { data } = useAnswer(`${API}/drift`, { seconds: 15 });
  if (!data || data.problem) return null;
  const own = data.pods.filter((pod) => pod.clauses.some((each) => each.policy === policy));
  if (!own.length) return null;
  const place = (pod) => pod.kept ? `stays: ${pod.kept}` : pod.places[0] || `nowhere: ${pod.reason}`;
  return html`<section aria-labelledby="drift"><h2 id="drift">Drifted pods</h2>
    <p><strong>${count(own.length, "pod")}</strong> on a node that its clauses would not allow now.</p>
    <${Table} label="Drifted pods" head=${["Pod", "Is on", "Breaks", "Since", "Would go to"]}>${own.slice(0, 20).map((pod) => html`<tr key=${pod.uid}>
        <td><a href=${podAddress(pod.pod)}>${pod.pod}</a></td><td>${pod.node}</td>
        <td>${pod.clauses.filter((each) => each.policy === policy).map((each) => each.clause).join(", ")}</td>
        <td><time datetime=${pod.clauses[0].since} title=${pod.clauses[0].since}>${ago(pod.clauses[0].since)}</time></td>
        <td>${place(pod)}</td></tr>`)}<//>
    ${own.length > 20 && html`<p class="quiet">and ${own.length - 20} more</p>`}</section>`;
}
