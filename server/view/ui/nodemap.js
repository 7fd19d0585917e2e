// Node map: nodes as squares on canvases, one for each group, in the colours of what is asked about them.
import { html, useLayoutEffect, useRef, useState } from "./vendor/preact-htm.js";
import { count, useScheme } from "./parts.js";

// The parts of a colour scale: below so many percent.
export const STEPS = [25, 50, 75, 90, Infinity];
const step = (percent) => STEPS.findIndex((below) => percent < below);
// By how many nodes there are, the side of a square with its gap.
const SIZES = [[40, 44], [100, 28], [300, 18], [1500, 12], [Infinity, 8]];
const SHOWN_GROUPS = 60;

// The name of the colour of each node, by its place: `cpu`, `memory`, `cards` or `pod`.
export function colours(nodes, by, verdicts) {
  if (by === "pod") return nodes.names.map((name) => (verdicts && verdicts.get(name)) || "unknown");
  const percents = nodes[by];
  if (!percents) return nodes.names.map(() => "unknown");
  return percents.map((percent) => (percent < 0 ? "unknown" : `load-${step(percent)}`));
}

// The places of the nodes of each group, the largest group first; those without the label come last.
export function grouped(nodes) {
  const found = new Map();
  nodes.group.forEach((group, place) => {
    if (!found.has(group)) found.set(group, []);
    found.get(group).push(place);
  });
  const ordered = [...found].sort(([a, first], [b, second]) =>
    (a < 0) - (b < 0) || second.length - first.length || (nodes.groups[a] < nodes.groups[b] ? -1 : 1));
  return ordered.map(([group, places]) => [group < 0 ? "without it" : nodes.groups[group], places]);
}

function useWidth() {
  const element = useRef(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const measure = () => setWidth(element.current.clientWidth);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return [element, width];
}

export function NodeMap({ nodes, by, verdicts, chosen, choose }) {
  const [element, width] = useWidth();
  const dark = useScheme();
  const [all, setAll] = useState(false);
  const groups = grouped(nodes);
  const shown = all ? groups : groups.slice(0, SHOWN_GROUPS);
  const names = colours(nodes, by, verdicts);
  const [, size] = SIZES.find(([most]) => nodes.names.length <= most);
  return html`<div class="map" ref=${element}>
    ${width > 0 && shown.map(([name, places]) => html`<${Squares} key=${name} name=${name} places=${places} nodes=${nodes}
      colours=${names} size=${size} width=${width >= 640 && groups.length > 1 ? (width - 24) / 2 : width} dark=${dark} chosen=${chosen} choose=${choose} />`)}
    ${groups.length > shown.length && html`<p><button onClick=${() => setAll(true)}>
      Show ${groups.length - shown.length} more groups</button></p>`}</div>`;
}

function Squares({ name, places, nodes, colours: names, size, width, dark, chosen, choose }) {
  const canvas = useRef(null);
  const [over, setOver] = useState(null);
  const most = Math.max(1, Math.floor(width / size));
  const columns = Math.min(most, Math.max(4, Math.ceil(Math.sqrt(places.length) * 1.7)), Math.max(4, places.length));
  const lines = Math.ceil(places.length / columns);
  useLayoutEffect(() => {
    draw(canvas.current, { columns, lines, size }, places, nodes, names, chosen);
  }, [columns, lines, size, places.join(), names.join(), dark, chosen, nodes]);
  const at = (event) => {
    const box = canvas.current.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / size), line = Math.floor((event.clientY - box.top) / size);
    const place = column < columns ? places[line * columns + column] : undefined;
    return place === undefined ? null : nodes.names[place];
  };
  return html`<figure class="squares"><figcaption><strong>${name}</strong>${" "}
      <span class="quiet">${count(places.length, "node")}${load(nodes, places)}</span></figcaption>
    <canvas ref=${canvas} role="img" aria-label=${`${name}: ${count(places.length, "node")}`} title=${over || ""}
      onMouseMove=${(event) => setOver(at(event))} onMouseLeave=${() => setOver(null)}
      onClick=${(event) => { const found = at(event); if (found) choose(found); }}></canvas></figure>`;
}

function load(nodes, places) {
  const known = places.map((place) => nodes.cpu[place]).filter((percent) => percent >= 0);
  return known.length ? `, cpu ${Math.round(known.reduce((sum, each) => sum + each, 0) / known.length)} %` : "";
}

function draw(canvas, { columns, lines, size }, places, nodes, names, chosen) {
  const scale = devicePixelRatio || 1, gap = size > 10 ? 2 : 1;
  canvas.width = columns * size * scale;
  canvas.height = lines * size * scale;
  canvas.style.width = `${columns * size}px`;
  canvas.style.height = `${lines * size}px`;
  const known = {}, text = getComputedStyle(canvas).color;
  const colour = (name) => known[name] || (known[name] = colourOf(name, canvas.parentNode));
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  places.forEach((place, index) => {
    const x = (index % columns) * size, y = Math.floor(index / columns) * size, side = size - gap;
    pen.fillStyle = colour(names[place]);
    pen.fillRect(x, y, side, side);
    if (nodes.state[place]) mark(pen, x, y, side, nodes.state[place], text);
    if (nodes.names[place] === chosen) {
      pen.strokeStyle = text;
      pen.lineWidth = 2;
      pen.strokeRect(x + 1, y + 1, side - 2, side - 2);
    }
  });
}

// The colour that the style sheet gives cells of a name, in light or dark.
function colourOf(name, parent) {
  const probe = document.createElement("i");
  probe.className = `cell ${name}`;
  parent.append(probe);
  const found = getComputedStyle(probe).backgroundColor;
  probe.remove();
  return found;
}

// A line through a node that takes no pods, a cross through one that is not ready.
function mark(pen, x, y, side, state, colour) {
  pen.strokeStyle = colour;
  pen.lineWidth = side > 12 ? 1.5 : 1;
  pen.beginPath();
  pen.moveTo(x, y + side);
  pen.lineTo(x + side, y);
  if (state === 2) {
    pen.moveTo(x, y);
    pen.lineTo(x + side, y + side);
  }
  pen.stroke();
}
