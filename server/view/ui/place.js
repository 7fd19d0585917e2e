// Place: where the pod of a manifest would go, or a pod of its workload. Nothing is written.
import { html, useEffect, useState } from "./vendor/preact-htm.js";
import { Problem, Waiting, address, posted } from "./parts.js";
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
// What was pasted stays while the page is open, with its answer.
const kept = { text: FIRST, found: null };

export function Place({ node }) {
  const [found, setFound] = useState(kept.found || {});
  const [one, setOne] = useState({});
  const ask = (name) => posted("place", { text: kept.text, ...(name ? { node: name } : {}) });
  const run = async () => {
    setFound({ running: true });
    kept.found = await ask();
    setFound(kept.found);
    if (node) location.hash = address(["place"]);
  };
  useEffect(() => {
    let ended = false;
    setOne({});
    if (node && kept.found) ask(node).then((next) => { if (!ended) setOne(next); });
    return () => { ended = true; };
  }, [node]);
  const keys = (event) => { if (event.key === "Enter" && event.ctrlKey) run(); };
  return html`<div class="title"><h1>Where would it go</h1></div>
    <p>Paste the manifest of a pod, or of a Deployment, StatefulSet, Job or another workload: one of its pods is asked about.
      Nothing is written to the cluster.</p>
    <label class="pasted">Manifest, in YAML or JSON
      <textarea rows="14" spellcheck="false" maxlength="262144" onKeyDown=${keys}
        onInput=${(event) => { kept.text = event.target.value; }}>${kept.text}</textarea></label>
    <p><button type="button" class="main" disabled=${found.running} onClick=${run} title="Ctrl-Enter in the text">Where would it go</button></p>
    <div aria-live="polite">${found.running && html`<${Waiting} />`}
      ${found.error && html`<${Problem} ...${found} />`}
      ${found.data && html`<h2>${found.data.pod}</h2><${Now} found=${found.data} chosen=${node} one=${one} ask=${ask}
        link=${(name) => address(["place", ...(name ? [name] : [])])} />`}</div>`;
}
