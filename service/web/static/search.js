// The search page: sends searches, shows hits, and sends clicks and judgments as UBI events.

import { $, Problem, attempt, call, collection, el, percent } from "./page.js";

const SNIPPET = 300; // characters of a snippet
const BEFORE = 60; // characters of a snippet before the first marked word
const LIMIT = 10;
const MAX_KEYS = 8; // keys in an explanation, past queries first
const MAX_KEY_CHARACTERS = 90; // characters of a key that are shown
const PARTS = {
  words: "words (BM25)",
  coverage: "query words in the document",
  proximity: "query words close together",
  phrase: "query words in order",
  memory: "past queries",
}; // labels of the parts of a logit; the other parts are kinds of keys
let newest = 0; // number of the newest search: late responses to older searches are dropped

async function search(offset = 0) {
  const q = $("q").value.trim();
  const mine = ++newest;
  if (!q) return;
  $("welcome")?.remove();
  document.title = `${q} – Softseek`;
  $("hits").setAttribute("aria-busy", "true");
  const answer = await attempt(() => call("POST", "/search", { q, offset, limit: LIMIT, explain: true }));
  if (mine !== newest) return;
  $("hits").removeAttribute("aria-busy");
  if (offset && !answer) return;
  if (!offset) $("hits").replaceChildren();
  $("more").hidden = !answer?.page.has_more;
  $("more").onclick = () => search(offset + LIMIT);
  $("summary").textContent = answer ? summary(answer) : "";
  if (!offset) showHint(answer);
  $("hits").append(...(answer?.hits ?? []).map((hit) => hitElement(hit, answer.query_id)));
  if (offset) $("hits").children[offset]?.querySelector("h2 > *").focus();
}

// The pressed button is removed with the old hits, so the focus moves to the summary above the new hits.
async function searchAgain() {
  await search();
  $("summary").focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

function summary({ hits, attention, took_ms, model, degraded }) {
  const last = hits.at(-1)?.position ?? 0;
  const parts = [
    `${last} of ${attention.candidates} candidates`,
    `no answer ${percent(attention.null_weight)}`,
    `${took_ms.toFixed(took_ms < 10 ? 1 : 0)} ms`,
    `model ${model.version}${model.alias ? `, ${model.alias}` : ""}`,
  ];
  return [...parts, ...degraded.map((reason) => `degraded: ${reason}`)].join(" · ");
}

function showHint(answer) {
  const best = Math.max(0, ...(answer?.hits ?? []).map((hit) => hit.score));
  const none = answer && answer.attention.null_weight >= best;
  $("hint").hidden = !none;
  $("hint").textContent = !none
    ? ""
    : answer.hits.length
      ? "Probably no document answers this query: “no answer” has more weight than any single document."
      : "No document matches this query.";
}

function hitElement(hit, queryId) {
  const element = $("hit").content.firstElementChild.cloneNode(true);
  const find = (selector) => element.querySelector(selector);
  const feedback = sender(hit, queryId, element);
  const title = titleElement(hit, find(".text"));
  title.addEventListener("click", () => feedback("click"));
  title.addEventListener("auxclick", (event) => event.button === 1 && feedback("click"));
  find("h2").append(title);
  find(".address").textContent = title.href ?? "";
  find(".text").append(...snippet(hit));
  find("meter").value = hit.score;
  find("output").textContent = percent(hit.score);
  for (const thumb of element.querySelectorAll(".thumb")) thumb.onclick = () => feedback(thumb.dataset.action);
  find(".explain").append(...explanation(hit));
  return element;
}

// Documents with an http or https address get a link. Other documents open in the list.
function titleElement(hit, text) {
  const marked = hit.title ? mark(hit.title, hit.highlights, "title") : [hit.id];
  const url = hit.url && URL.canParse(hit.url) ? new URL(hit.url) : null;
  if (url && /^https?:$/.test(url.protocol)) return el("a", { href: url.href, rel: "noopener" }, ...marked);
  const button = el("button", { className: "plain", type: "button", ariaExpanded: "false" }, ...marked);
  button.addEventListener("click", () => {
    const open = button.ariaExpanded !== "true";
    button.ariaExpanded = String(open);
    text.classList.toggle("whole", open);
    text.replaceChildren(...(open ? mark(hit.text, hit.highlights, "text") : snippet(hit)));
  });
  return button;
}

// Returns a part of a text as nodes, with marked query words. Offsets count code points, as in the API.
function mark(text, highlights, field, from = 0, to = Infinity) {
  const points = Array.from(text);
  const cut = (start, end) => points.slice(start, end).join("");
  const nodes = [];
  let at = from;
  const inside = (one) => one.field === field && one.start >= from && one.end <= to;
  for (const { start, end } of highlights.filter(inside)) {
    nodes.push(cut(at, start), el("mark", {}, cut(start, end)));
    at = end;
  }
  return [...nodes, cut(at, Math.min(to, points.length))];
}

// Returns the part of the text with the most query words, or the start of the best passage if it has none.
function snippet({ text, highlights, explain }) {
  const points = Array.from(text);
  const marks = highlights.filter((one) => one.field === "text");
  const word = ({ start, end }) => points.slice(start, end).join("").toLowerCase();
  const shown = (from, to) => marks.filter(({ start, end }) => start >= from && end <= to);
  const counts = marks.map(({ start }) => new Set(shown(start, start + SNIPPET - BEFORE).map(word)).size);
  const best = marks[counts.indexOf(Math.max(...counts))];
  const passage = explain.keys.filter((key) => key.kind === "passage").sort((a, b) => b.share - a.share)[0];
  let from = best ? Math.max(0, best.start - BEFORE) : (passage?.start ?? 0);
  if (points.length <= SNIPPET) from = 0;
  while (from > 0 && from < best?.start && /\S/.test(points[from - 1])) from++; // start with a whole word
  const to = Math.min(points.length, from + SNIPPET);
  return [from > 0 ? "… " : "", ...mark(text, highlights, "text", from, to), to < points.length ? " …" : ""];
}

function sender(hit, queryId, element) {
  const sent = new Set(); // each search sends at most one click and one judgment of a hit
  const done = element.querySelector(".done");
  return (action) =>
    attempt(async () => {
      const kind = action === "click" ? "click" : "thumb";
      if (sent.has(kind)) return;
      sent.add(kind);
      const event = {
        action_name: action,
        query_id: queryId,
        timestamp: new Date().toISOString(),
        event_attributes: {
          object: { object_id: hit.id, object_id_field: "id" },
          position: { ordinal: hit.position },
        },
      };
      try {
        const { rejected } = await call("POST", "/events", event, { keepalive: true }); // sent also when the page closes
        if (rejected.length) throw new Problem(rejected[0]);
      } catch (error) {
        sent.delete(kind);
        throw error;
      }
      for (const thumb of kind === "thumb" ? element.querySelectorAll(".thumb") : []) {
        thumb.ariaPressed = String(thumb.dataset.action === action);
        thumb.ariaDisabled = "true";
      }
      const link = (onclick, text) => el("button", { className: "plain", type: "button", onclick }, text);
      const again = link(searchAgain, "Search again");
      const undo = link(() => deleteFeedback(queryId), "delete all feedback on this search");
      done.replaceChildren("Stored. ", again, " to see the effect, or ", undo, ".");
    });
}

// Deletes the feedback, and searches again to show the ranking without it.
async function deleteFeedback(queryId) {
  if (await attempt(() => call("POST", "/events/delete", { query_id: queryId }))) await searchAgain();
}

// Parts that are 0 are left out.
function explanation({ explain, logit, text }) {
  const table = el("table", {}, el("caption", {}, "Logit: the sum of its parts"));
  const parts = Object.entries(explain.parts).filter(([, value]) => value !== 0);
  for (const [name, value] of [...parts.map(([part, value]) => [PARTS[part] ?? part, value]), ["logit", logit]]) {
    table.append(el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, value.toFixed(3))));
  }
  const order = (key) => (key.kind === "query" ? 1 : 0) + Math.abs(key.share) / 2;
  const keys = [...explain.keys].sort((a, b) => order(b) - order(a));
  const list = el("ul", {}, ...keys.slice(0, MAX_KEYS).map((key) => el("li", {}, ...keyLine(key, text))));
  const left = keys.length - MAX_KEYS;
  return [table, el("div", {}, el("h3", {}, "Matched keys"), list, left > 0 ? `and ${left} more` : "")];
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

$("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const address = new URLSearchParams({ c: collection, q: $("q").value });
  if (address.toString() !== location.search.slice(1)) history.pushState(null, "", `?${address}`);
  search();
  window.scrollTo(0, 0);
});
window.addEventListener("popstate", () => {
  $("q").value = new URLSearchParams(location.search).get("q") ?? "";
  if ($("q").value) search();
  else location.reload();
});
if ($("q").value && $("error").hidden) search();
