// Decisions: the live list. It keeps the last 1,000 calls, and says how many it has not seen.
import { html, useLayoutEffect, useState } from "./vendor/preact-htm.js";
import {
  API, Badge, Bar, Choice, Empty, Problem, Table, Waiting, ago, answer, clock, count, duration, podAddress,
  policyAddress, texts, useFilters,
} from "./parts.js";

const KEPT = 1000, SHOWN = 50;
const OUTCOMES = {
  none: ["none pass", "bad"], some: ["some pass", "part"], all: ["all pass", "good"],
  error: ["error", "bad"], free: ["no policy", "plain"],
};

export function outcome(one) {
  if (one.problem) return "error";
  if (!one.governing && one.passing === one.nodes) return "free";
  if (one.passing === 0) return "none";
  return one.passing === one.nodes ? "all" : "some";
}

// The newest first, each call once.
function merged(more, list) {
  const found = new Map();
  for (const one of [...more, ...list]) found.set(one.number, one);
  return [...found.values()].sort((a, b) => b.number - a.number).slice(0, KEPT);
}

// The first calls at once, then each second those since; those that the replica no longer has are counted.
function useDecisions() {
  const [state, setState] = useState({ list: null, error: null, live: false, dropped: 0 });
  // Before the first painting, so that nobody waits for it.
  useLayoutEffect(() => {
    let last = null, ended = false, timer = 0;
    const ask = async () => {
      const since = last === null ? `limit=${SHOWN}` : `limit=${KEPT}&after=${last}`;
      const found = await answer(`${API}/decisions?${since}`);
      if (ended) return;
      if (found.error) setState((old) => ({ ...old, live: false, error: found }));
      else {
        const { decisions, number } = found.data, began = last !== null && number < last;
        const missed = last ? Math.max(0, number - last - decisions.length) : 0;
        setState((old) => ({ live: true, error: null, dropped: old.dropped + missed,
          list: merged(decisions, (!began && old.list) || []) }));
        // The first ones are shown already; the next question is for all of them.
        last = last === null ? 0 : number;
      }
      timer = setTimeout(ask, 1000);
    };
    ask();
    return () => { ended = true; clearTimeout(timer); };
  }, []);
  return state;
}

export function Decisions({ status: { data: known } }) {
  const [filters, filter] = useFilters("decisions");
  const { list, error, live, dropped } = useDecisions();
  const [paused, setPaused] = useState(null);
  const [shown, setShown] = useState(SHOWN);
  const all = paused || list;
  const wanted = (filters.text || "").toLowerCase();
  const found = (all || []).filter((one) =>
    `${one.pod} ${one.governing || ""}`.toLowerCase().includes(wanted)
    && (!filters.outcome || outcome(one) === filters.outcome));
  const waiting = paused ? list.filter((one) => !paused[0] || one.number > paused[0].number).length : 0;
  return html`
    <div class="title"><h1>Decisions</h1>
      <p role="status" class="live">${live
        ? html`<${Badge} kind=${paused ? "plain" : "good"}>${paused ? "paused" : "live"}<//>`
        : html`<${Badge} kind="part">${error ? "reconnecting" : "connecting"}<//>`}
        ${waiting > 0 && html`<span>${waiting} new</span>`}
        ${dropped > 0 && html`<span title="the replica no longer had them at the next question">${dropped} not seen</span>`}
      </p></div>
    ${error && html`<${Problem} ...${error} />`}
    <form class="filters" onSubmit=${(event) => event.preventDefault()}>
      <label>Pod or policy <input type="search" value=${filters.text || ""} onInput=${(event) => filter("text")(event.target.value)} /></label>
      <${Choice} label="Outcome" of=${[["", "any"], ...texts(OUTCOMES)]} value=${filters.outcome} change=${filter("outcome")} />
      <button type="button" disabled=${!list} aria-pressed=${paused ? "true" : "false"}
        onClick=${() => setPaused(paused ? null : list)}>${paused ? "Continue" : "Pause"}</button>
    </form>
    ${!all && !error && html`<${Waiting} />`}
    ${all && !all.length && html`<${Empty} title="No decision yet">
      kube-scheduler has not asked this replica since it started${known ? `, ${ago(known.started)}` : ""}. Another replica may be the one that is
      asked: <code>kubectl placet decisions</code> shows all of them.<//>`}
    ${all && all.length > 0 && !found.length && html`<${Empty} title="No decision matches">
      ${count(all.length, "decision")} are kept. <a href="#/decisions">Show all</a>.<//>`}
    ${found.length > 0 && html`<${List} found=${found.slice(0, shown)} />`}
    ${found.length > shown && html`<p><button onClick=${() => setShown(shown + SHOWN)}>
      Show ${Math.min(SHOWN, found.length - shown)} more</button></p>`}`;
}

const List = ({ found }) => html`
  <${Table} label="Decisions" head=${["Time", "Pod", "Governed by", "Nodes that pass", "Took", "Outcome"]}>${found.map((one) =>
    html`<${Row} key=${one.number} one=${one} />`)}<//>`;

function Row({ one }) {
  const [text, kind] = OUTCOMES[outcome(one)];
  return html`<tr>
    <td class="time"><time datetime=${one.at} title=${one.at}>${clock(one.at)}</time></td>
    <td class="pod"><a href=${podAddress(one.pod)}>${one.pod}</a></td>
    <td>${one.governing
      ? html`<a href=${policyAddress(one.governing)}>${one.governing}</a>` : html`<span class="quiet">none</span>`}</td>
    <td class="nodes"><span class="number">${one.passing} of ${one.nodes}</span>
      <${Bar} part=${one.passing} whole=${one.nodes} kind=${kind} /></td>
    <td class="took">${one.seconds !== null && html`<span class="number">filter ${duration(one.seconds)}</span>`}
      ${one.scoredSeconds !== null && html` <span class="number">prioritize ${duration(one.scoredSeconds)}</span>`}</td>
    <td><${Badge} kind=${kind}>${text}<//></td></tr>`;
}
