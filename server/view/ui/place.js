// Place: where the pods of manifests would go, also if nodes came, and why each goes there. Nothing is written.
import { html, useEffect, useState } from "./vendor/preact-htm.js";
import { Badge, FactList, Problem, Table, Waiting, address, count, patiently, sentence } from "./parts.js";
import { Now } from "./why.js";

const FIRST = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: default
spec:
  replicas: 3
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
        - name: web
          image: registry.example/web
          resources:
            requests: {cpu: 500m, memory: 1Gi}
`;
// What was pasted stays while the page is open, with its answers: of all pods, and of the one that is shown by its name.
const kept = { text: FIRST, template: "", number: 1, found: null, why: {} };
const SHOWN = 200;

export function Place({ filters: { pod, node } }) {
  const [found, setFound] = useState(kept.found || {});
  const [why, setWhy] = useState(kept.why);
  const [one, setOne] = useState({});
  const shown = found.data ? pod || found.data.pods[0].pod : "";
  const ask = (name) => patiently("place", { text: kept.text, pod: shown, ...(name ? { node: name } : {}) });
  const run = async () => {
    setFound({ running: true });
    kept.why = {};
    setWhy({});
    const addNodes = kept.template ? [{ template: kept.template, count: kept.number }] : [];
    kept.found = await patiently("simulate", { pods: kept.text, addNodes });
    setFound(kept.found);
    if (pod) location.hash = address(["place"]);
  };
  useEffect(() => {
    let ended = false;
    if (shown && kept.why.of !== shown) {
      setWhy({});
      ask().then((next) => { if (!ended) { kept.why = { ...next, of: shown }; setWhy(kept.why); } });
    }
    return () => { ended = true; };
  }, [shown, found]);
  useEffect(() => {
    let ended = false;
    setOne({});
    if (node && shown) ask(node).then((next) => { if (!ended) setOne(next); });
    return () => { ended = true; };
  }, [node, shown]);
  const keys = (event) => { if (event.key === "Enter" && event.ctrlKey) run(); };
  return html`<p>Paste manifests: pods, Deployments, StatefulSets, Jobs or other workloads, such as the output of <code>helm template</code>.
      Nothing is written to the cluster.</p>
    <label class="pasted">Manifests, in YAML or JSON
      <textarea rows="14" spellcheck="false" maxlength="262144" onKeyDown=${keys}
        onInput=${(event) => { kept.text = event.target.value; }}>${kept.text}</textarea></label>
    <form class="filters" onSubmit=${(event) => { event.preventDefault(); run(); }}>
      <label>Add nodes like <input value=${kept.template} placeholder="a node, NAME=VALUE, a type or a pool" maxlength="512"
        onInput=${(event) => { kept.template = event.target.value.trim(); }} /></label>
      <label>So many <input class="short" type="number" min="1" max="1000" value=${kept.number}
        onInput=${(event) => { kept.number = Number(event.target.value) || 1; }} /></label>
      <button type="submit" class="main" disabled=${found.running} title="Ctrl-Enter in the text">Would they fit</button></form>
    <div aria-live="polite">${found.running && html`<${Waiting} />`}
      ${found.error && html`<${Problem} ...${found} remedy="" />`}
      ${found.data && html`<${Placed} found=${found.data} shown=${shown} />`}</div>
    ${shown && html`<h2>Why ${shown}</h2>
      <p class="quiet">Asked about by itself, on the cluster as it is: without the other pods, and without nodes that are added.</p>
      ${why.error ? html`<${Problem} ...${why} />` : why.data ? html`<${Now} found=${why.data} chosen=${node} one=${one}
        link=${(name) => address(["place"], { pod: shown, node: name })} />` : html`<${Waiting} />`}`}`;
}

// Where each pod goes, one after the other.
function Placed({ found, shown }) {
  const used = new Set(found.pods.map((each) => each.node).filter((name) => found.added.includes(name)));
  const facts = [["Find a place", `${found.placed.toLocaleString("en")} of ${count(found.pods.length, "pod")}`],
    ["Nodes", found.nodes.toLocaleString("en")], ["New nodes in use", found.added.length ? `${used.size} of ${found.added.length}` : null],
    ...["cpu", "memory"].map((name) => [`Requested ${name}`, found.allocation[name] ? `${Math.round(100 * found.allocation[name].part)} %` : null])];
  return html`<section aria-labelledby="placed"><h2 id="placed">${sentence(found.summary)}</h2>
    <${FactList} of=${facts} />
    <${Table} label="Where each pod goes" head=${["Pod", "Goes to", "Policy", "Why not"]}>${found.pods.slice(0, SHOWN).map((each) => html`<tr key=${each.pod}>
      <td><a href=${address(["place"], { pod: each.pod })} aria-current=${each.pod === shown ? "true" : undefined}>${each.pod}</a></td>
      <td>${each.node ?? html`<${Badge} kind="bad">nowhere<//>`}${found.added.includes(each.node) && html` <${Badge} kind="plain">new<//>`}</td>
      <td>${each.policy}</td><td>${Object.entries(each.reasons || {}).map(([reason, nodes]) => html`<div>${reason} (${count(nodes, "node")})</div>`)}
        ${each.nearest && html`<div class="quiet">nearest: ${each.nearest.node}: ${each.nearest.reasons.join("; ")}</div>`}</td></tr>`)}<//>
    ${found.pods.length > SHOWN && html`<p class="quiet">The first ${SHOWN} are shown.</p>`}
    ${Object.keys(found.held).length > 0 && html`<p class="quiet">${count(Object.keys(found.held).length, "pod")} held for gangs, on the nodes where they will be.</p>`}
    ${found.notes.map((note) => html`<p class="quiet">${sentence(note)}</p>`)}</section>`;
}
