// Why: one pod: what would be decided now and why, one node in full, and the last decision beside it.
import { html } from "./vendor/preact-htm.js";
import {
  API, Badge, Bar, Empty, First, Names, Problem, Waiting, clock, count, digits, encodedPath, podAddress, policyAddress,
  Rows, Table, sentence, titled, useAnswer,
} from "./parts.js";

export function Why({ namespace, name, node }) {
  const path = encodedPath([namespace, name]);
  // The node is asked for by itself, so that the rest stays while another node is chosen.
  const now = useAnswer(`${API}/explain/${path}`);
  const one = useAnswer(node ? `${API}/explain/${path}?node=${encodeURIComponent(node)}` : null);
  const then = useAnswer(now.error ? `${API}/decisions/${path}` : null);
  const pod = `${namespace}/${name}`;
  const head = html`<nav class="back" aria-label="Back"><a href="#/decisions">All decisions</a></nav>
    <h1>${pod}</h1>`;
  if (!now.data && !now.error) return html`${head}<${Waiting} />`;
  if (now.error && !then.data && !then.error) return html`${head}<${Waiting} />`;
  if (now.error && then.error) return html`${head}<${Empty} title=${sentence(now.error)}>
    ${sentence(then.error)} Check the name of the pod, or ask another replica with
    <code>kubectl placet ui --replica NAME</code>.<//>`;
  if (now.error) return html`${head}
    ${now.status === 404 ? html`<p class="quiet">${sentence(now.error)} So only its last decision is shown.</p>`
      : html`<${Problem} ...${now} />`}
    <${Then} then=${then.data} />`;
  return html`${head}<${Now} found=${now.data} chosen=${node} one=${one} link=${(name) => podAddress(pod, name)} />`;
}

// `link` gives the address of the same view with a node, or without one.
export function Now({ found, chosen, one, link }) {
  const left = found.scores || [];
  return html`<section aria-labelledby="cause"><h2 id="cause">Cause</h2>
    ${found.cause && found.cause.kind !== "placed" && html`<p class="cause"><strong>${sentence(found.cause.text)}</strong>
      ${found.cause.hint && html` ${sentence(found.cause.hint)}`}</p>`}
    ${found.problem && html`<p class="wrong">kube-scheduler gets an error and retries: ${sentence(found.problem)}</p>`}
    <p class="answer"><strong>${found.passing.toLocaleString("en")} of ${count(found.nodes, "node")} ${found.passing === 1 ? "passes" : "pass"}.</strong>
      ${left.length > 0 && ` The best is ${left[0].node} with ${count(left[0].score, "point")} of 10.`}</p>
    <p class="quiet">${found.said && `kube-scheduler said last: ${sentence(found.said)} `}
      ${found.on ? html`The pod runs on <a href=${link(found.on)}>${found.on}</a>. ` : "The pod has no node. "}
      Asked at ${clock(found.at)} of replica ${found.replica}.</p>
    <${Concerned} found=${found} /></section>
    <${Parts} parts=${found.parts} link=${link} />
    ${chosen && html`<section class="node" aria-label=${`Node ${chosen}`}>
      <h2>Node ${chosen} <a class="close" href=${link()}>close</a></h2>
      ${one.error ? html`<${Problem} ...${one} />` : one.data && one.data.node
        ? html`<${OneNode} node=${one.data.node} />` : html`<${Waiting} />`}</section>`}
    <section aria-labelledby="reasons"><h2 id="reasons">Nodes by reason</h2>
      ${found.nodes === 0 ? html`<${Empty} title="This replica knows no node">
        <code>placet status</code> shows what it watches.<//>`
        : html`<${Groups} groups=${byNodes([...found.groups, ...found.unfit.map(ofScheduler)])} nodes=${found.nodes} link=${link} />
          <${Funnel} found=${found} />`}
      ${left.length > 0 && html`<details><summary>Scores of the nodes that pass</summary>
        <ul class="scores">${[...Map.groupBy(left, (each) => each.score)].map(([score, nodes]) => html`<li key=${score}>
          <span class="number">${score} of 10</span><${Bar} part=${score} whole=${10} />
          <${Names} names=${nodes.map((each) => each.node)} link=${link} first=${6} /></li>`)}</ul></details>`}
      ${(found.then || found.on || found.said !== null) && html`<details><summary>Then and now</summary>
        ${found.then ? html`<${ThenAndNow} found=${found} />`
          : html`<p class="quiet">This replica keeps no decision about the pod.</p>`}</details>`}</section>
    <${Parts} parts=${found.parts} after=${true} link=${link} />
    ${found.passing < found.nodes && html`<${Help} found=${found} link=${link} />`}
    <p class="caveat">${found.caveat}.</p>`;
}

const clauseNames = (clauses) => clauses.map((each) => `${each.policy}: ${each.clause}`).join(" and ");

// A reason of kube-scheduler's own plugins, as a group of nodes.
const ofScheduler = ({ text, nodes, names }) => ({ rejectedBy: [{ text: `kube-scheduler: ${text}` }], nodes, names });

// Those that pass first, then the largest.
const byNodes = (groups) => groups.sort((a, b) => !b.rejectedBy.length - !a.rejectedBy.length || b.nodes - a.nodes);

// From all nodes to those that are left: kube-scheduler's own reasons first, as it asks only about the rest.
function Funnel({ found }) {
  const left = new Set(found.groups.flatMap((group) => group.names)), steps = [];
  const without = (text, names, more = {}) => {
    for (const name of names) left.delete(name);
    steps.push({ text, left: left.size, rejects: new Set(names).size, ...more });
  };
  const of = (clause) => found.groups.filter((group) => group.rejectedBy.some((each) => clauseNames([each]) === clauseNames([clause])));
  for (const each of found.unfit) without(ofScheduler(each).rejectedBy[0].text, each.names);
  const rejecting = found.clauses.filter((each) => each.fails || each.errors), idle = found.clauses.length - rejecting.length;
  for (const each of rejecting) without(clauseNames([each]), of(each).flatMap((group) => group.names), { alone: each.failsOnlyThis, errors: each.errors });
  // What is not among the clauses, such as a gang, or a policy whose selector cannot be evaluated.
  const others = found.groups.filter((group) => group.rejectedBy.length).flatMap((group) => group.names).filter((name) => left.has(name));
  if (others.length) without("other reasons", others);
  return html`<details><summary>From all ${count(found.nodes, "node")} to those that are left</summary>
    <${Table} label="From all nodes to those that are left" head=${["Reason", ">Rejects", ">Alone", ">Left"]}>${steps.map((each) => html`<tr key=${each.text}>
      <td>${each.text}${each.errors > 0 && html` <span class="wrong">${count(each.errors, "error")}</span>`}<${Bar} part=${each.left} whole=${found.nodes} kind="good" /></td>
      <td class="right">${each.rejects.toLocaleString("en")}</td><td class="right">${each.alone}</td><td class="right">${each.left.toLocaleString("en")}</td></tr>`)}<//>
    ${idle > 0 && html`<p class="quiet">${count(idle, "other clause rejects", "other clauses reject")} no node.</p>`}</details>`;
}

const APPLIES = { governs: "good", "as a guardrail": "good", "in audit": "part", "gives way": "plain", "rejects all": "bad", no: "plain" };

// The policies, those with the same reason in one row.
const Concerned = ({ found }) => html`
  ${found.exempt && html`<p class="quiet">${sentence(found.exempt)} No policy applies to the pod.</p>`}
  ${!found.policies.length && html`<p class="quiet">No policy concerns this pod.</p>`}
  <ul class="lines">${[...Map.groupBy(found.policies, (each) => `${each.applies} ${each.because}`).values()].map((alike) => html`<li key=${alike[0].address}>
    <${Badge} kind=${APPLIES[alike[0].applies] || "plain"}>${alike[0].applies === "no" ? "does not apply" : alike[0].applies}<//>
    ${alike.map(({ address }) => html`<a href=${policyAddress(address)}>${address}</a>`)}
    <span class="quiet">${alike[0].because}</span></li>`)}
  ${found.notInForce.map((each) => html`<li key=${each.policy}><${Badge} kind="bad">not in force as written<//> <a href=${policyAddress(each.policy)}>${each.policy}</a>
    <span>${each.instead}: ${each.because}</span></li>`)}</ul>`;

// What capabilities say, before what is said of nodes or after it; the first rows have links to what they name.
const MOST_ROWS = 50;
const Parts = ({ parts, after = false, link = () => null }) => parts.filter((part) => Boolean(part.afterNodes) === after).map((part) => {
  const { title, texts = [], rows = [], more = 0, names = {} } = part, left = more + Math.max(0, rows.length - MOST_ROWS);
  if (!title) return html`<section>${texts.map((text) => html`<p class="quiet">${text}</p>`)}</section>`;
  return html`<section key=${title}><h2>${titled(title)}</h2>${texts.map((text) => html`<p>${sentence(text)}</p>`)}
    ${rows.length > 0 && html`<${Rows} label=${title} rows=${rows.slice(0, MOST_ROWS)}
      link=${(column, name) => names[column] && (names[column] === "pod" ? podAddress : link)(name)} />`}
    ${left > 0 && html`<p class="quiet">and ${left} more</p>`}</section>`;
});

// Without the clauses that reject a group, its nodes would pass: the fewest first, with what they read of the nearest node.
function Help({ found, link }) {
  const rows = found.groups.filter((group) => group.rejectedBy.length)
    .sort((a, b) => a.rejectedBy.length - b.rejectedBy.length || b.nodes - a.nodes);
  const unfit = new Set(found.unfit.flatMap((each) => each.names));
  return html`<section aria-labelledby="help"><h2 id="help">What would help</h2><ul class="lines">
    <${First} rows=${rows} first=${4} row=${(group) => {
      const miss = found.nearest.find((each) => group.names.includes(each.node));
      const kept = group.names.filter((name) => unfit.has(name)).length;
      const text = `Without ${clauseNames(group.rejectedBy)}, ${count(group.nodes, "more node")} would pass${
        kept ? `; kube-scheduler's own plugins reject ${kept === group.nodes ? "them" : kept.toLocaleString("en")}, too` : ""}.`;
      return html`<li key=${text}>${miss ? html`<details class="clause"><summary><span>${text}</span></summary><p>On <a href=${link(miss.node)}>${miss.node}</a>:</p>
        ${miss.rejectedBy.map((each) => html`<p>${each.text}</p><${Evidence} said=${each} />`)}</details>` : text}</li>`; }} /></ul></section>`;
}

// Some rows of nodes with the same reasons.
const Groups = ({ groups, nodes, link }) => html`<ul class="groups"><${First} rows=${groups} first=${10} row=${(group, index) => {
  const passes = !group.rejectedBy.length;
  return html`<li class="group" key=${index}><span class="number">${group.nodes.toLocaleString("en")}</span>
    <${Bar} part=${group.nodes} whole=${nodes} kind=${passes ? "good" : "bad"} />
    <span class="reasons">${passes ? group.heldBack || "pass" : group.rejectedBy.map((each) => html`<span>${each.text}</span>`)}</span>
    <${Names} names=${group.names} link=${link} first=${3} /></li>`; }} /></ul>`;

// ---- one node

const OneNode = ({ node }) => html`
  <p class="answer"><${Badge} kind=${node.passes ? "good" : "bad"}>${node.passes ? "passes" : "rejected"}<//>
    ${node.score !== null && html` Score ${node.score} of 10`}</p>
  ${node.unfit.map((reason) => html`<p class="wrong">kube-scheduler's own plugins reject it: ${reason}</p>`)}
  ${node.clauses.map((each) => html`<details class="clause" open=${!each.holds}>
    <summary><${Badge} kind=${each.holds ? "good" : "bad"}>${each.holds ? "holds" : "rejects"}<//>
      <span>${each.policy}: ${each.clause}</span></summary>
    <${Evidence} said=${each} /></details>`)}
  ${node.terms.length > 0 && html`<${Terms} terms=${node.terms} />`}`;

// What a clause says of a node: its detail, what its expressions read, and what it counts.
const Evidence = ({ said }) => html`${said.detail && html`<p>${sentence(said.detail)}</p>`}
  ${(said.expressions || []).map((part) => html`<${Values} values=${part.values} />`)}
  ${said.counts && html`<${Counts} counts=${said.counts} />`}`;

const Values = ({ values }) => values && values.length > 0 && html`<ul class="values">${values.map((each) => html`
  <li style=${{ paddingLeft: `${Math.min(each.depth, 5)}rem` }}><code>${each.expression}</code>
    ${each.error ? html`<span class="wrong">${each.error}</span>` : html`<code class="value" title=${each.value}>${brief(each.value)}</code>`}</li>`)}</ul>`;

const Counts = ({ counts }) => html`<p>${sentence(counts.text)}</p>
  ${[["Counted here", counts.pods], ["Counted in the emptiest domain", counts.emptiestDomain || []]].map(([title, pods]) =>
    pods.length > 0 && html`<p class="quiet">${title}: ${pods.map((pod, index) => html`${index ? ", " : ""}<a
      href=${podAddress(pod.name)}>${pod.name}</a> (${pod.presence})`)}</p>`)}
  ${counts.more > 0 && html`<p class="quiet">and ${count(counts.more, "more pod")}</p>`}`;

// Each part of the bar is what one clause adds; together they are the score before it is rounded.
function Terms({ terms }) {
  let at = 0;
  const sum = terms.reduce((total, each) => total + each.adds, 0);
  const parts = terms.map((each) => {
    const part = { x: 10 * at, width: 10 * Math.max(0, each.adds) };
    at += Math.max(0, each.adds);
    return part;
  });
  return html`<h3>Score</h3>
    <svg class="bar terms" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
      <rect class="all" width="100" height="8" />
      ${parts.map(({ x, width }, index) => html`<rect class=${`term-${index % 4}`} x=${x} width=${width} height="8" />`)}</svg>
    <${Table} label="Score" head=${["Clause", ">Points", ">Weight", ">Adds"]}>${terms.map((each, index) => html`<tr><td><span class=${`key term-${index % 4}`}></span>${each.policy}: ${each.clause}
        ${each.value && html`<${Values} values=${each.value.values} />`}</td>
      <td class="right">${each.missing ? "no number" : short(each.points)}</td>
      <td class="right">${short(each.weight)}</td><td class="right">${short(each.adds)}</td></tr>`)}
      <tr class="sum"><td>Together</td><td></td><td></td><td class="right">${short(sum)}</td></tr><//>`;
}

const short = (number) => Number(number.toFixed(2)).toLocaleString("en");

// A value with three digits and without parts of a second; one with texts is shown as it is.
const brief = (text) => text.includes('"') ? text : text.replace(/(:\d\d)\.\d+Z/g, "$1Z")
  .replace(/(?<![\w.:])\d+\.\d{2,}/g, (number) => digits(Number(number)).replaceAll(",", ""));

// ---- then

const ThenAndNow = ({ found }) => html`<div class="sides">
  <div><h3>Then, at ${clock(found.then.at)}</h3><${InShort} found=${found.then} /></div>
  <div><h3>Now, at ${clock(found.at)}</h3>
    <${InShort} found=${found} /></div></div>
  ${found.changes.length ? html`<ul class="lines">${found.changes.map((each) => html`<li>
      <${Badge} kind="part">${each.what}<//> <span>${each.text}</span></li>`)}</ul>`
    : html`<p class="quiet">Nothing that the decision follows from has changed.</p>`}
  <${Preempted} found=${found.then.preemption} />`;

// What preempt kept.
const Preempted = ({ found }) => found && html`<h3>Preemption, at ${clock(found.at)}</h3>
  <p>Kept ${found.kept} of ${count(found.offered, "node")} where kube-scheduler may evict pods.</p>`;

const InShort = ({ found }) => found.problem ? html`<p class="wrong">${sentence(found.problem)}</p>`
  : html`<p>${found.passing} of ${count(found.nodes, "node")} ${found.passing === 1 ? "passes" : "pass"}${found.heldBack
    ? `; ${found.heldBack} held back for now` : ""}</p>`;

// The last decision alone, for a pod that cannot be asked about now.
const Then = ({ then }) => html`<h2>Then, at ${clock(then.at)}</h2>
  <${InShort} found=${then} />
  ${then.policies.map((each) => html`<p><a href=${policyAddress(each.address)}>${each.address}</a> ${each.applies}.</p>`)}
  <${Groups} groups=${then.groups} nodes=${then.nodes} link=${(node) => podAddress(then.pod, node)} />
  <${Preempted} found=${then.preemption} />
  <${Parts} parts=${then.parts} after=${true} />`;
