// Playground: a draft of policies, what is wrong with it, and which pods would get another answer. Nothing is written.
import { html, useEffect, useRef, useState } from "./vendor/preact-htm.js";
import { Editor } from "./editor.js";
import { API, Choice, Note, Problem, address, count, draftName, encodedPath, patiently, answer, useAnswer } from "./parts.js";
import { Outcome } from "./outcome.js";

const FIRST = `policy draft in namespace "default" {
  filter "architecture" {
    require node.labels["kubernetes.io/arch"] == "amd64"
  }
}
`;
// What was written stays while the page is open, whatever view it shows.
const kept = { name: "draft.policy", text: FIRST, from: null, cluster: "" };

export function Playground({ names }) {
  const [load, setLoad] = useState({ text: kept.text });
  const [problems, setProblems] = useState([]);
  const [failure, setFailure] = useState(null);
  const [trial, setTrial] = useState({});
  const [pasted, setPasted] = useState(Boolean(kept.cluster));
  const listing = useAnswer(`${API}/policies`);
  const wanted = names.join("/");

  useEffect(() => {
    if (!wanted || kept.from === wanted) return;
    answer(`${API}/policies/${encodedPath(names)}`).then((found) => {
      if (found.error) { setFailure(found); return; }
      const { text } = found.data;
      Object.assign(kept, { text, from: wanted, name: draftName(text) });
      setFailure(null);
      setLoad({ text });
    });
  }, [wanted]);

  const turn = useRef(Promise.resolve());
  // The replica takes one draft at a time, so the page has one question at a time, and waits for other pages.
  const ask = (path, body) => {
    turn.current = turn.current.then(() => patiently(path, body));
    return turn.current;
  };
  const check = async (text) => {
    const found = await ask("check", { text, name: kept.name });
    setFailure(found.error ? found : null);
    const diagnostics = found.data ? found.data.diagnostics : [];
    setProblems(diagnostics);
    return diagnostics;
  };
  const complete = async (text, offset) => ((await ask("complete", { text, name: kept.name, offset })).data || { candidates: [] }).candidates;
  const run = async () => {
    setTrial({ running: true });
    const cluster = pasted ? { cluster: kept.cluster } : {};
    const found = await ask("evaluate", { text: kept.text, name: kept.name, ...cluster });
    if (found.data) setProblems(found.data.diagnostics);
    setTrial(found);
  };
  const errors = problems.filter((each) => each.severity === "error").length;
  return html`<p>Write a draft, and see which pods would get another answer. Nothing is written to the cluster.</p>
    <form class="filters" onSubmit=${(event) => event.preventDefault()}>
      <${Choice} label="Begin with" value=${wanted} change=${(policy) => begin(policy, setLoad)}
        of=${[["", "a new policy"], ...((listing.data && listing.data.policies) || []).map((each) => [each.address, each.address])]} />
      <${Choice} label="Try it on" value=${pasted ? "pasted" : "live"} change=${(value) => setPasted(value === "pasted")}
        of=${[["live", "this cluster, as it is now"], ["pasted", "a cluster that you paste"]]} />
      <button type="button" class="main" disabled=${trial.running || errors > 0} onClick=${run}
        title="Ctrl-Enter in the text">Try it</button>
    </form>
    ${pasted && html`<label class="pasted">The output of <code>kubectl get nodes,pods,replicasets -A -o json</code>
      <textarea rows="5" spellcheck="false" onInput=${(event) => { kept.cluster = event.target.value; }}>${kept.cluster}</textarea></label>`}
    <${Editor} load=${load} change=${(text) => { kept.text = text; }} check=${check} run=${run}
      complete=${complete} />
    ${failure && html`<${Problem} ...${failure} />`}
    <${Problems} problems=${problems} />
    <section aria-live="polite"><h2>What would change</h2><${Outcome} trial=${trial} quiet=${html`Press <em>Try it</em>, or Ctrl-Enter in the text.`} /></section>`;
}

function begin(policy, setLoad) {
  if (!policy) {
    Object.assign(kept, { name: "draft.policy", text: FIRST, from: null });
    setLoad({ text: FIRST });
  }
  location.hash = address(["playground", ...policy.split("/").filter(Boolean)]);
}

const Problems = ({ problems }) => problems.length > 0 && html`<section><h2>${count(problems.length, "problem")}</h2>
  ${problems.map((each) => html`<${Note} of=${each} at=${`line ${each.line}: `} />`)}</section>`;
