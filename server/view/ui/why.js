// Why: one pod: what would be decided now and why, one node in full, and the last decision beside it.
import { html } from "./vendor/preact-htm.js";
import {
  API, Badge, Bar, Empty, Names, Problem, Waiting, clock, count, encodedPath, podAddress, policyAddress,
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
  return html`
    ${found.cause && found.cause.kind !== "placed" && html`<p class="cause"><strong>${sentence(found.cause.text)}</strong>
      ${found.cause.hint && html` ${sentence(found.cause.hint)}`}</p>`}
    ${found.problem && html`<p class="wrong">kube-scheduler gets an error and retries: ${sentence(found.problem)}</p>`}
    ${found.said && html`<p class="quiet">kube-scheduler said last: ${found.said}</p>`}
    <p class="answer">${answerInWords(found)}</p>
    <p class="quiet">${found.on ? html`The pod runs on <a href=${link(found.on)}>${found.on}</a>. ` : "The pod has no node. "}
      Asked at ${clock(found.at)} of replica ${found.replica}.</p>
    <${Concerned} found=${found} />
    <${Parts} parts=${found.parts} link=${link} />
    ${found.notInForce.length > 0 && html`<${NotInForce} policies=${found.notInForce} />`}
    ${chosen && html`<section class="node" aria-label=${`Node ${chosen}`}>
      <h2>Node ${chosen} <a class="close" href=${link()}>close</a></h2>
      ${one.error ? html`<${Problem} ...${one} />` : one.data && one.data.node
        ? html`<${OneNode} node=${one.data.node} />` : html`<${Waiting} />`}</section>`}
    ${found.nodes > 0 && html`<${Funnel} found=${found} />`}
    <section><h2>Nodes by reason</h2>
      ${found.nodes === 0 && html`<${Empty} title="This replica knows no node">
        <code>placet status</code> shows what it watches.<//>`}
      ${found.groups.map((group, index) => html`<${Group} key=${index} group=${group} nodes=${found.nodes} link=${link} />`)}
    </section>
    ${found.unfit.length > 0 && html`<section><h2>kube-scheduler's own reasons</h2>
      ${found.unfit.map((each) => html`<${Group} key=${each.text} nodes=${found.nodes} link=${link}
        group=${{ rejectedBy: [each], nodes: each.nodes, names: each.names }} />`)}</section>`}
    <${Parts} parts=${found.parts} after=${true} link=${link} />
    ${found.nearest.length > 0 && html`<section><h2>Nearest misses</h2>
      <p class="quiet">Few clauses reject these nodes.</p>
      <${Table} label="Nearest misses" head=${["Node", "Why"]}>${found.nearest.map((miss) => html`<tr key=${miss.node}><td><a href=${link(miss.node)}>${miss.node}</a></td>
        <td>${miss.rejectedBy.map((each) => html`<div>${each.text}<${Evidence} said=${each} /></div>`)}</td></tr>`)}<//></section>`}
    ${found.passing < found.nodes && html`<${Relaxations} groups=${found.groups} />`}
    ${found.clauses.length > 0 && html`<${Clauses} clauses=${found.clauses} nodes=${found.nodes} />`}
    ${found.scores && found.scores.length > 0 && html`<section><h2>Scores</h2>
      <ul class="scores">${found.scores.slice(0, 50).map(({ node, score }) => html`<li key=${node}>
        <a href=${link(node)}>${node}</a><${Bar} part=${score} whole=${10} />
        <span class="number">${score} of 10</span></li>`)}</ul>
      ${found.scores.length > 50 && html`<p class="quiet">${count(found.scores.length - 50, "node")} more, with lower scores.</p>`}
    </section>`}
    ${(found.then || found.on || found.said !== null) && html`<section><h2>Then and now</h2>
      ${found.then ? html`<${ThenAndNow} found=${found} />`
        : html`<p class="quiet">This replica keeps no decision about the pod.</p>`}</section>`}
    <p class="caveat">${found.caveat}.</p>`;
}

// From all nodes to those that are left: kube-scheduler's own reasons first, as it asks only about the rest.
function Funnel({ found }) {
  const left = new Set(found.groups.flatMap((group) => group.names));
  const steps = [["all nodes", left.size, 0, ""]];
  const without = (text, names, kind) => {
    const before = left.size;
    for (const name of names) left.delete(name);
    if (left.size < before) steps.push([text, left.size, before - left.size, kind]);
  };
  for (const each of found.unfit) without(`kube-scheduler: ${each.text}`, each.names, "part");
  for (const clause of found.clauses) {
    const rejects = (each) => each.policy === clause.policy && each.clause === clause.clause;
    without(`${clause.policy}: ${clause.clause}`, found.groups.filter((group) => group.rejectedBy.some(rejects)).flatMap((group) => group.names), "bad");
  }
  // What is not among the clauses, such as a gang, or a policy whose selector cannot be evaluated.
  without("other reasons", found.groups.filter((group) => group.rejectedBy.length).flatMap((group) => group.names), "bad");
  return html`<section aria-labelledby="funnel"><h2 id="funnel">From all nodes to those that are left</h2>
    <ol class="funnel">${steps.map(([text, number, gone, kind]) => html`<li key=${text}><span>${text}</span>
      <${Bar} part=${number} whole=${steps[0][1]} kind=${number ? "good" : "bad"} />
      <span class="number">${gone > 0 && html`<b class=${kind === "bad" ? "wrong" : "quiet"}>−${gone.toLocaleString("en")}</b> `}${number.toLocaleString("en")} left</span></li>`)}</ol></section>`;
}

// The sentence first: how many nodes pass, what rejects the others, and the best node.
function answerInWords({ nodes, passing, groups, scores }) {
  const rejected = groups.filter((group) => group.rejectedBy.length);
  const by = rejected.slice(0, 2).map((group) =>
    `${group.nodes.toLocaleString("en")} by ${group.rejectedBy.map((each) => `${each.policy}: ${each.clause}`).join(" and ")}`);
  const others = rejected.slice(2).reduce((sum, group) => sum + group.nodes, 0);
  if (others) by.push(`${others.toLocaleString("en")} for other reasons`);
  const best = scores && scores.length
    ? ` The best is ${scores[0].node} with ${count(scores[0].score, "point")} of 10.` : "";
  const rest = by.length ? ` Rejected: ${by.join(", ")}.` : "";
  return html`<strong>${passing.toLocaleString("en")} of ${count(nodes, "node")} ${passing === 1 ? "passes" : "pass"}.</strong>${rest}${best}`;
}

const APPLIES = { governs: "good", "as a guardrail": "good", "in audit": "part", "gives way": "plain", "rejects all": "bad", no: "plain" };

const Concerned = ({ found }) => html`<section><h2>Policies</h2>
  ${found.exempt && html`<p class="quiet">${sentence(found.exempt)} No policy applies to the pod.</p>`}
  ${!found.policies.length && html`<p class="quiet">No policy concerns this pod.</p>`}
  <ul class="lines">${found.policies.map(({ address, applies, because }) => html`<li key=${address}>
    <a href=${policyAddress(address)}>${address}</a>
    <${Badge} kind=${APPLIES[applies] || "plain"}>${applies === "no" ? "does not apply" : applies}<//>
    <span>${because}</span></li>`)}</ul></section>`;

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

const NotInForce = ({ policies }) => html`<section><h2>Not in force as written</h2>
  <ul class="lines">${policies.map((each) => html`<li key=${each.policy}><a href=${policyAddress(each.policy)}>${each.policy}</a>
    <span>${each.instead}: ${each.because}</span></li>`)}</ul></section>`;

// Without the clauses that reject a group, its nodes would pass.
function Relaxations({ groups }) {
  const rejected = groups.filter((group) => group.rejectedBy.length);
  const fewest = Math.min(...rejected.map((group) => group.rejectedBy.length));
  const closest = rejected.filter((group) => group.rejectedBy.length === fewest), more = closest.length - 3;
  return html`<section><h2>Smallest relaxations</h2>
    <ul class="lines">${closest.slice(0, 3).map((each) => html`<li>
      <span>${`Without ${each.rejectedBy.map((clause) => `${clause.policy}: ${clause.clause}`).join(" and ")}, `
        + `${count(each.nodes, "more node")} would pass.`}</span></li>`)}</ul>
    ${more > 0 && html`<p class="quiet">and ${more} more of ${count(fewest, "clause")}</p>`}</section>`;
}

function Group({ group, nodes, link }) {
  const passes = !group.rejectedBy.length;
  return html`<details class="group" open=${passes || group.nodes <= 3}>
    <summary><span class="number">${group.nodes.toLocaleString("en")}</span>
      <${Bar} part=${group.nodes} whole=${nodes} kind=${passes ? "good" : "bad"} />
      <span class="reasons">${passes ? group.heldBack || "pass" : group.rejectedBy.map((each) => html`<span>${each.text}</span>`)}</span></summary>
    <${Names} names=${group.names} link=${link} /></details>`;
}

const Clauses = ({ clauses, nodes }) => html`<section><h2>Clauses</h2>
  <${Table} label="Clauses" head=${["Clause", ">Rejects", ">Rejects alone", ">Errors"]}>${clauses.map((each) => html`<tr key=${`${each.policy} ${each.clause}`}>
    <td>${each.policy}: ${each.clause}<${Bar} part=${each.fails} whole=${nodes} kind="bad" /></td>
    <td class="right">${each.fails}</td><td class="right">${each.failsOnlyThis}</td>
    <td class="right">${each.errors || ""}</td></tr>`)}<//></section>`;

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
    ${each.error ? html`<span class="wrong">${each.error}</span>` : html`<code class="value">${each.value}</code>`}</li>`)}</ul>`;

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
  ${then.groups.map((group, index) => html`<${Group} key=${index} group=${group} nodes=${then.nodes} link=${(node) => podAddress(then.pod, node)} />`)}
  <${Preempted} found=${then.preemption} />
  <${Parts} parts=${then.parts} after=${true} />`;
