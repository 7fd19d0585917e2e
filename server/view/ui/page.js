// Page: the frame with the menu and the replica's name, and the view that the address names.
import { html, render, useEffect, useState } from "./vendor/preact-htm.js";
import { API, Badge, Empty, Problem, Waiting, parseAddress, useAnswer } from "./parts.js";
import { Decisions } from "./decisions.js";
import { Home } from "./home.js";
import { Place } from "./place.js";
import { Policies, Policy } from "./policies.js";
import { Why } from "./why.js";

// The entries of the menu, with the views that belong to each.
const MENU = [["home", "Home"], ["decisions", "Decisions", "pods"], ["policies", "Policies"], ["place", "Try", "playground"], ["trends", "Health"]];
const TRIES = [["place", "Pods"], ["playground", "Policies"]];

// Links to views, of which one is shown.
const Links = ({ label, of, chosen }) => html`<nav aria-label=${label}>${of.map(([name, text]) => html`<a href=${`#/${name}`}
  aria-current=${chosen === name ? "page" : undefined}>${text}</a>`)}</nav>`;

function useHash() {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = () => setHash(location.hash);
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return hash;
}

// The editor and the charts are larger than all the rest, so they come when somebody opens their views.
const LATER = {
  playground: () => import("./playground.js").then(({ Playground }) => Playground),
  trends: () => import("./trends.js").then(({ Trends }) => Trends),
};

function Lazy({ view, ...given }) {
  const [found, setFound] = useState({});
  useEffect(() => {
    LATER[view]().then((Part) => setFound({ Part }), () => setFound({ error: "the replica does not answer", status: 0 }));
  }, []);
  if (found.error) return html`<${Problem} ...${found} />`;
  return found.Part ? html`<${found.Part} ...${given} />` : html`<${Waiting} />`;
}

function View({ names, filters, status }) {
  const [first = "home", ...rest] = names;
  if (first === "home") return html`<${Home} filters=${filters} status=${status} />`;
  if (first === "decisions") return html`<${Decisions} status=${status} />`;
  if (first === "pods" && rest.length >= 2) {
    return html`<${Why} key=${`${rest[0]}/${rest[1]}`} namespace=${rest[0]} name=${rest[1]} node=${rest[2]} />`;
  }
  if (first === "policies" && rest.length) return html`<${Policy} names=${rest} status=${status} />`;
  if (first === "policies") return html`<${Policies} status=${status} />`;
  const later = first in LATER && html`<${Lazy} key=${first} view=${first} names=${rest} filters=${filters} status=${status} />`;
  if (TRIES.some(([name]) => name === first)) return html`<div class="title"><h1>Try</h1><${Links} label="What to try" of=${TRIES} chosen=${first} /></div>
    ${later || html`<${Place} filters=${filters} />`}`;
  if (later) return later;
  return html`<h1>${names.join("/")}</h1><${Empty} title="There is no such view">
    Go <a href="#/home">home</a>.<//>`;
}

function Frame() {
  const { names, filters } = parseAddress(useHash());
  const status = useAnswer(`${API}/status`, { seconds: 5 });
  const first = names[0] || "home", [chosen, text] = MENU.find(([name, , other]) => name === first || other === first) || [];
  const title = first === "pods" ? names.slice(1, 3).join("/") : text;
  useEffect(() => { document.title = title ? `${title} · Placet` : "Placet"; }, [title]);
  return html`
    <a class="skip" href="#main" onClick=${toMain}>Skip to the content</a>
    <header>
      <a class="brand" href="#/home">Placet</a>
      <${Links} label="Views" of=${MENU} chosen=${chosen} />
      <${Whose} ...${status} />
    </header>
    <main id="main" tabindex="-1"><${View} names=${names} filters=${filters} status=${status} /></main>`;
}

// The address of the page must stay, so that the link moves the focus only.
function toMain(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

// The replicas to which `placet ui` leads, as [name, port].
const REPLICAS = (new URLSearchParams(location.search).get("replicas") || "").split(",")
  .map((each) => each.split(":")).filter(([name, port]) => name && /^\d{1,5}$/.test(port || ""));

function choose(event) {
  const port = event.target.value;
  location.assign(`${location.protocol}//${location.hostname}:${port}${location.pathname}${location.search}${location.hash}`);
}

function Whose({ data, error }) {
  const name = REPLICAS.length > 1
    ? html`<select aria-label="Replica" value=${location.port} onChange=${choose}>
        ${REPLICAS.map(([each, port]) => html`<option value=${port}>${each}</option>`)}</select>`
    : data && html`<span title="the replica whose view this is">${data.replica}</span>`;
  if (error) return html`<p class="whose">${name}<${Badge} kind="bad">no answer<//></p>`;
  if (!data) return html`<p class="whose">${name}</p>`;
  return html`<p class="whose">${name}<${Badge} kind=${data.ready ? "good" : "bad"}>${data.ready ? "ready" : "not ready"}<//></p>`;
}

render(html`<${Frame} />`, document.body);
