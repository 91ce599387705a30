// The hits of the search page: title, snippet, attention weight, whole text and explanation.

import { attempt, call, el, percent } from "./page.js";
import { connect } from "./feedback.js";
import { heatmaps, partName } from "./heatmaps.js";

const MAX_KEYS = 8; // keys in an explanation, past queries first
const MAX_KEY_CHARACTERS = 90; // characters of a key that are shown
const MAX_FACTS = 6; // metadata values of a hit that are shown

// Returns the element of a hit. `facts` are the metadata fields that are shown.
export function hitElement(hit, list, facts, again) {
  const element = document.getElementById("hit").content.firstElementChild.cloneNode(true);
  const find = (selector) => element.querySelector(selector);
  const title = titleElement(hit, find(".text"));
  connect(hit, list, element, title, again);
  find("h2").append(title);
  if (hit.pinned) find("h2").append(" ", el("span", { className: "badge" }, "pinned"));
  find(".address").textContent = title.href ?? "";
  find(".address").hidden = !title.href;
  find(".text").append(...mark(hit.snippet.text, hit.snippet.highlights));
  find(".facts").append(...factElements(hit.metadata ?? {}, facts));
  find("meter").value = hit.score;
  find("output").textContent = percent(hit.score);
  find("details").addEventListener("toggle", () => explain(find("details"), hit, list), { once: true });
  return element;
}

// Documents with an http or https address get a link. The whole text of other documents opens in the list.
function titleElement(hit, text) {
  const highlights = hit.highlights.filter((one) => one.field === "title");
  const marked = hit.title ? mark(hit.title, highlights) : [hit.id];
  const url = hit.url && URL.canParse(hit.url) ? new URL(hit.url) : null;
  if (url && /^https?:$/.test(url.protocol)) return el("a", { href: url.href, rel: "noopener" }, ...marked);
  const button = el("button", { className: "plain", type: "button", ariaExpanded: "false" }, ...marked);
  button.addEventListener("click", async () => {
    const open = button.ariaExpanded !== "true";
    button.ariaExpanded = String(open);
    const nodes = open ? await wholeText(hit) : mark(hit.snippet.text, hit.snippet.highlights);
    if (!nodes || String(open) !== button.ariaExpanded) return;
    text.classList.toggle("whole", open);
    text.replaceChildren(...nodes);
  });
  return button;
}

async function wholeText(hit) {
  const path = `/documents/${hit.id.split("/").map(encodeURIComponent).join("/")}`;
  const found = await attempt(() => call("GET", path));
  return found && markWords(found.text, markedWords(hit));
}

function markedWords({ snippet }) {
  const points = Array.from(snippet.text);
  return new Set(snippet.highlights.map(({ start, end }) => points.slice(start, end).join("").toLowerCase()));
}

function markWords(text, words) {
  return text.split(/([\p{L}\p{N}]+)/u).map((part) => (words.has(part.toLowerCase()) ? el("mark", {}, part) : part));
}

// Returns a text as nodes, with marked query words. Offsets count code points, as in the API.
function mark(text, highlights) {
  const points = Array.from(text);
  const cut = (start, end) => points.slice(start, end).join("");
  const nodes = [];
  let at = 0;
  for (const { start, end } of highlights) {
    nodes.push(cut(at, start), el("mark", {}, cut(start, end)));
    at = end;
  }
  return [...nodes, cut(at, points.length)];
}

function factElements(metadata, facts) {
  const known = facts.filter((name) => metadata[name] !== undefined).slice(0, MAX_FACTS);
  return known.map((name) => {
    const value = metadata[name];
    return el("span", {}, el("b", {}, name), ` ${Array.isArray(value) ? value.join(", ") : value}`);
  });
}

// Searches again for this hit alone, with its explanation: most explanations are never opened.
async function explain(details, hit, list) {
  const { facets, ...request } = list.request;
  const body = { ...request, offset: hit.position - 1, limit: 1, explain: true, fields: ["text"], snippet: false };
  const answer = await attempt(() => call("POST", "/search", { ...body, log: false }));
  const found = answer?.hits.find((one) => one.id === hit.id);
  const changed = el("p", {}, "The ranking has changed since this search. Search again to see an explanation.");
  const shown = found ? [...explanation(found), ...heatmaps(hit, list)] : answer ? [changed] : [];
  details.querySelector(".explain").append(...shown);
}

// Parts that are 0 are left out.
function explanation({ explain, logit, text }) {
  const table = el("table", {}, el("caption", {}, "Logit: the sum of its parts"));
  const parts = Object.entries(explain.parts).filter(([, value]) => value !== 0);
  for (const [name, value] of [...parts.map(([part, value]) => [partName(part), value]), ["logit", logit]]) {
    table.append(el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, value.toFixed(3))));
  }
  const order = (key) => (key.kind === "query" ? 1 : 0) + Math.abs(key.share) / 2;
  const keys = [...explain.keys].sort((a, b) => order(b) - order(a));
  const list = el("ul", {}, ...keys.slice(0, MAX_KEYS).map((key) => el("li", {}, ...keyLine(key, text))));
  const left = keys.length - MAX_KEYS;
  const pinned = explain.rule ? [el("p", {}, "Pinned by the rule ", el("b", {}, explain.rule), ".")] : [];
  return [table, el("div", {}, ...pinned, el("h3", {}, "Matched keys"), list, left > 0 ? `and ${left} more` : "")];
}

function keyLine(key, text) {
  const figures = el("span", { className: "quiet" }, ` cosine ${key.cosine.toFixed(2)}, share ${percent(key.share)}`);
  if (key.kind === "query") {
    const effect = key.share < 0 ? "rejected it" : "confirmed it";
    return [el("b", {}, "past query"), ` “${key.query ?? "?"}” ${effect} (${key.from ?? "feedback"})`, figures];
  }
  const start = Array.from(text).slice(key.start, Math.min(key.end, key.start + MAX_KEY_CHARACTERS)).join("");
  const more = key.end - key.start > MAX_KEY_CHARACTERS ? "…" : "";
  const words = key.kind === "title" || !start ? "" : ` “${start}${more}”`;
  return [el("b", {}, key.kind), words, figures];
}
