// The hits of the search page: title, snippet, attention weight, whole text and explanation.

import { attempt, call, el, isolated, percent } from "./page.js";
import { connect } from "./feedback.js";
import { heatmaps, partName } from "./heatmaps.js";
import { showSimilar } from "./similar.js";
import { mark, titleElement } from "./titles.js";
import { wordsOf } from "./words.js";

const MAX_KEYS = 8; // keys in an explanation, past queries first
const MAX_KEY_CHARACTERS = 90; // characters of a key that are shown
const MAX_FACTS = 6; // metadata values of a hit that are shown

// Returns the element of a hit. `facts` are the metadata fields that are shown.
export function hitElement(hit, list, facts, again) {
  const element = document.getElementById("hit").content.firstElementChild.cloneNode(true);
  const find = (selector) => element.querySelector(selector);
  element.dataset.id = hit.id;
  const snippet = () => mark(hit.snippet.text, hit.snippet.highlights);
  const highlights = hit.highlights.filter((one) => one.field === "title");
  const title = titleElement(hit, highlights, find(".text"), snippet, markedWords(hit));
  connect(hit, list, element, title, again);
  find("h2").append(title);
  find("h2").id = `hit-${hit.position}`;
  for (const one of element.querySelectorAll(".thumb, summary")) one.setAttribute("aria-describedby", find("h2").id);
  if (hit.pinned) find("h2").append(" ", el("span", { className: "badge" }, "pinned"));
  find(".address").textContent = title.href ?? "";
  find(".address").hidden = !title.href;
  find(".text").append(...snippet());
  find(".facts").append(...factElements(hit.metadata ?? {}, facts));
  find("meter").value = hit.score;
  find("output").textContent = percent(hit.score);
  const opening = (name, show) => {
    let shown = false; // after a failure, the next opening tries again
    find(name).addEventListener("toggle", async () => {
      if (shown || !find(name).open) return;
      shown = true;
      shown = await show(find(name), hit, list);
    });
  };
  opening(".why", explain);
  opening(".similar", showSimilar);
  return element;
}

function markedWords({ snippet }) {
  const points = Array.from(snippet.text);
  return wordsOf(snippet.highlights.map(({ start, end }) => points.slice(start, end).join("")));
}

function factElements(metadata, facts) {
  const own = facts.filter((name) => Object.hasOwn(metadata, name));
  const known = own.filter((name) => [metadata[name]].flat().length).slice(0, MAX_FACTS); // an empty list says nothing
  return known.map((name) => {
    const value = metadata[name];
    const values = [value].flat().flatMap((part, at) => [at ? ", " : " ", isolated(String(part))]);
    return el("span", {}, el("b", {}, isolated(name)), ...values);
  });
}

// Searches again for this hit alone, with its explanation: most explanations are never opened. Returns whether it is shown.
async function explain(details, hit, list) {
  const body = { ...list.request, offset: hit.position - 1, limit: 1, explain: true, fields: ["text"], snippet: false };
  const answer = await attempt(() => call("POST", "/search", { ...body, log: false }));
  const found = answer?.hits.find((one) => one.id === hit.id);
  const changed = el("p", {}, "The ranking has changed since this search. Search again to see an explanation.");
  if (answer) details.querySelector(".explain").append(...(found ? [...explanation(found), ...heatmaps(hit, list)] : [changed]));
  return Boolean(answer);
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

const quoted = (text) => [" “", isolated(text), "”"];

function keyLine(key, text) {
  const figures = el("span", { className: "quiet" }, ` cosine ${key.cosine.toFixed(2)}, share ${percent(key.share)}`);
  if (key.kind === "query") {
    const effect = key.share < 0 ? "rejected it" : "confirmed it";
    const query = key.from === "anonymous" ? [] : quoted(key.query ?? "?");
    return [el("b", {}, "past query"), ...query, ` ${effect} (${key.from ?? "feedback"})`, figures];
  }
  const start = Array.from(text).slice(key.start, Math.min(key.end, key.start + MAX_KEY_CHARACTERS)).join("");
  const more = key.end - key.start > MAX_KEY_CHARACTERS ? "…" : "";
  const words = key.kind === "title" || !start ? [] : quoted(start + more);
  return [el("b", {}, key.kind), ...words, figures];
}
