// Health: what the replica knows of itself, and the trends: pods that wait, rejections, fills and latencies over a week.
import { html, useEffect, useRef } from "./vendor/preact-htm.js";
import uPlot from "./vendor/uplot.js";
import { API, Choice, Empty, FactList, Failing, address, ago, digits, missing, moment, useAnswer, useScheme } from "./parts.js";

const SPANS = [["1", "hour"], ["24", "day"], ["168", "week"]];
const CHARTS = [
  ["Pods that wait", (name) => name === "waiting pods", (number) => number.toLocaleString("en")],
  ["Nodes rejected in a minute", (name, policy) => name.startsWith(policy ? "rejected " : "rejected nodes"), (number) => number.toLocaleString("en")],
  ["How full bounds are", (name) => name.startsWith("full "), (number) => `${digits(number)} %`],
  ["99 of 100 calls took at most", (name) => name.startsWith("p99 "), (number) => `${digits(number * 1000)} ms`],
];
// The colours of the lines, in light and in the dark.
const LINES = ["load-3", "load-4", "passes", "rejected", "unfit", "load-2"];

function State({ status: { data } }) {
  if (!data) return null;
  const lease = data.cluster && data.cluster.lease;
  const facts = [["Replica", data.replica], ["Version", data.version], ["Started", ago(data.started)], ["Policies in force", data.policies.length],
    ["Leader", lease && (lease.held ? "this replica" : lease.holder || "none")], ["Pods on their way", data.podsInFlight]];
  const away = Object.entries((data.cluster && data.cluster.failing) || {});
  return html`<${FactList} of=${facts} />
    ${away.map(([work, why]) => html`<p class="wrong">It cannot ${work}: ${why}</p>`)}`;
}

export function Trends({ filters, status }) {
  const { hours = "24", policy } = filters;
  const found = useAnswer(`${API}/history?${new URLSearchParams({ hours, ...(policy && { policy }) })}`, { seconds: 30 }), { data } = found;
  return html`<div class="title"><h1>${policy ? `Trends of ${policy}` : "Health"}</h1></div>
    <${Failing} status=${status} />
    ${!policy && html`<${State} status=${status} /><h2>Trends</h2>`}
    <form class="filters" onSubmit=${(event) => event.preventDefault()}><${Choice}
      label="The last" of=${SPANS} value=${hours} change=${(value) => location.replace(address(["trends"], { policy, hours: value }))} /></form>
    ${missing(found)}
    ${data && html`<p class="quiet">${data.kept ? "The numbers survive a restart of the replica, for a week."
      : html`The numbers begin with the replica. <code>--history FILE</code> has them survive a restart.`} There is one each minute${
        data.times.length > 0 && `; the first one here is of ${moment(new Date(data.times[0] * 1000).toISOString())}`}.</p>
      ${data.times.length < 2 ? html`<${Empty} title="Nothing to show yet">The second sample comes within two minutes.<//>`
        : (policy ? CHARTS.slice(1, 3) : CHARTS).map(([title, belongs, write]) => html`<${Chart} key=${title} title=${title} write=${write} times=${data.times}
            series=${Object.entries(data.series).map(([name, numbers]) => ({ name, numbers })).filter((each) => belongs(each.name, policy) && each.numbers.some((number) => number !== null))} />`)}`}`;
}

// Hours of a day, days of a week.
function moments(times) {
  const days = times[times.length - 1] - times[0] > 2 * 86_400;
  const form = days ? { weekday: "short", day: "numeric" } : { hour: "2-digit", minute: "2-digit" };
  return (seconds) => new Date(seconds * 1000).toLocaleString("en-GB", form);
}

const named = (name) => name.replace(/^(full|p99|rejected) /, "");

function Chart({ title, write, times, series }) {
  const element = useRef(null), dark = useScheme();
  useEffect(() => {
    if (!series.length) return undefined;
    const inside = element.current, probe = document.createElement("i");
    inside.append(probe);
    const colour = (name) => { probe.className = `cell ${name}`; return getComputedStyle(probe).backgroundColor; };
    const strokes = LINES.map(colour), quiet = getComputedStyle(inside).color;
    probe.remove();
    const axis = { stroke: quiet, grid: { stroke: quiet, width: 0.15 }, ticks: { show: false }, font: "12px system-ui" };
    const plot = new uPlot({
      width: inside.clientWidth, height: 180, legend: { show: false }, cursor: { drag: { x: false, y: false } },
      scales: { y: { range: (_, low, high) => [0, Math.max(high || 0, 1e-9) * 1.1] } },
      axes: [{ ...axis, values: (_, ticks) => ticks.map(moments(times)) }, { ...axis, size: 70, values: (_, ticks) => ticks.map(write) }],
      series: [{}, ...series.map((each, index) => ({ label: named(each.name), stroke: strokes[index % strokes.length], width: 2, spanGaps: true }))],
    }, [times, ...series.map((each) => each.numbers)], inside);
    const observer = new ResizeObserver(() => plot.setSize({ width: inside.clientWidth, height: 180 }));
    observer.observe(inside);
    return () => { observer.disconnect(); plot.destroy(); };
  }, [times, series.map((each) => `${each.name} ${each.numbers.join()}`).join(), dark]);
  if (!series.length) return html`<section><h2>${title}</h2><p class="quiet">There is no number in this time.</p></section>`;
  const most = (each) => Math.max(...each.numbers.filter((number) => number !== null));
  const last = (each) => each.numbers.filter((number) => number !== null).pop();
  return html`<section aria-label=${title}><h2>${title}</h2>
    <div class="chart" ref=${element} role="img" aria-label=${`${title}: ${series.map((each) => `${named(each.name)} now ${write(last(each))}, at most ${write(most(each))}`).join("; ")}`}></div>
    <p class="legend">${series.map((each, index) => html`<span><i class=${`cell ${LINES[index % LINES.length]}`}></i>${named(each.name)}: now
      ${" "}${write(last(each))}, at most ${write(most(each))}</span>`)}</p></section>`;
}
