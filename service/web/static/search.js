// The search page: asks, shows hits, and sends what a reader does with them as UBI events.

import { $, Problem, attempt, call, collection, el, percent } from "./page.js";

const SNIPPET = 300; // characters
const BEFORE = 60; // of them, before the first marked word
const LIMIT = 10;
const MOST_KEYS = 8; // in an explanation, past queries first
const SHOWN = 90; // characters of a key
const PARTS = {
  words: "words (BM25)",
  coverage: "words covered",
  proximity: "words close together",
  phrase: "words in order",
  memory: "past queries",
}; // as people read them; kinds of keys have their own names
let newest = 0; // number of the newest search: an older one that answers late is dropped

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

// The button that was pressed goes with the old hits, so the focus goes to where the new ones begin.
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
  return [...parts, ...degraded.map((what) => `degraded: ${what}`)].join(" · ");
}

function showHint(answer) {
  const best = Math.max(0, ...(answer?.hits ?? []).map((hit) => hit.score));
  const none = answer && answer.attention.null_weight >= best;
  $("hint").hidden = !none;
  $("hint").textContent = !none
    ? ""
    : answer.hits.length
      ? "Probably nothing here answers this: “no answer” has more weight than any single document."
      : "Nothing here answers this.";
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

// Only http and https addresses become links; any other document opens where it stands.
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

// A piece of text as nodes, with the query's words marked. Offsets count code points, as the API's do.
function mark(text, highlights, field, from = 0, to = Infinity) {
  const points = Array.from(text);
  const cut = (start, end) => points.slice(start, end).join("");
  const nodes = [];
  let at = from;
  for (const { start, end } of highlights.filter((one) => one.field === field && one.start >= from && one.end <= to)) {
    nodes.push(cut(at, start), el("mark", {}, cut(start, end)));
    at = end;
  }
  return [...nodes, cut(at, Math.min(to, points.length))];
}

// The stretch of text with the most of the query's words; without any, the best passage's beginning.
function snippet({ text, highlights, explain }) {
  const points = Array.from(text);
  const marks = highlights.filter((one) => one.field === "text");
  const word = ({ start, end }) => points.slice(start, end).join("").toLowerCase();
  const inReach = (first) => marks.filter((one) => one.start >= first.start && one.end <= first.start + SNIPPET - BEFORE);
  const counts = marks.map((first) => new Set(inReach(first).map(word)).size);
  const best = marks[counts.indexOf(Math.max(...counts))];
  const passage = explain.keys.filter((key) => key.kind === "passage").sort((a, b) => b.share - a.share)[0];
  let from = best ? Math.max(0, best.start - BEFORE) : (passage?.start ?? 0);
  if (points.length <= SNIPPET) from = 0;
  while (from > 0 && from < best?.start && /\S/.test(points[from - 1])) from++; // begin with a whole word
  const to = Math.min(points.length, from + SNIPPET);
  return [from > 0 ? "… " : "", ...mark(text, highlights, "text", from, to), to < points.length ? " …" : ""];
}

function sender(hit, queryId, element) {
  const sent = new Set(); // a hit is opened once and judged once, as far as its search is concerned
  const told = element.querySelector(".told");
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
        const { rejected } = await call("POST", "/events", event, { keepalive: true }); // outlives a click that leaves
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
      const again = link(searchAgain, "search again");
      const back = link(() => takeBack(queryId), "take back all feedback on this search");
      told.replaceChildren("Remembered; ", again, " to see it, or ", back, ".");
    });
}

// The page is asked anew, so that it shows the ranking as it was before.
async function takeBack(queryId) {
  if (await attempt(() => call("POST", "/events/delete", { query_id: queryId }))) await searchAgain();
}

// Parts that say nothing of this hit are left out: they add nothing to the sum.
function explanation({ explain, logit, text }) {
  const table = el("table", {}, el("caption", {}, "The logit is the sum of its parts"));
  const parts = Object.entries(explain.parts).filter(([, value]) => value !== 0);
  for (const [name, value] of [...parts.map(([part, value]) => [PARTS[part] ?? part, value]), ["logit", logit]]) {
    table.append(el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, value.toFixed(3))));
  }
  const order = (key) => (key.kind === "query" ? 1 : 0) + Math.abs(key.share) / 2;
  const keys = [...explain.keys].sort((a, b) => order(b) - order(a));
  const list = el("ul", {}, ...keys.slice(0, MOST_KEYS).map((key) => el("li", {}, ...keyLine(key, text))));
  const left = keys.length - MOST_KEYS;
  return [table, el("div", {}, el("h3", {}, "Keys behind it"), list, left > 0 ? `and ${left} more` : "")];
}

function keyLine(key, text) {
  const figures = el("span", { className: "quiet" }, ` cosine ${key.cosine.toFixed(2)}, share ${percent(key.share)}`);
  if (key.kind === "query") {
    const what = key.share < 0 ? "spoke against it" : "confirmed it";
    return [el("b", {}, "past query"), ` “${key.query ?? "?"}” ${what} (${key.from ?? "feedback"})`, figures];
  }
  const start = Array.from(text).slice(key.start, Math.min(key.end, key.start + SHOWN)).join("");
  const words = key.kind === "title" || !start ? "" : ` “${start}${key.end - key.start > SHOWN ? "…" : ""}”`;
  return [el("b", {}, key.kind), words, figures];
}

$("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const asked = new URLSearchParams({ c: collection, q: $("q").value });
  if (asked.toString() !== location.search.slice(1)) history.pushState(null, "", `?${asked}`);
  search();
  window.scrollTo(0, 0);
});
window.addEventListener("popstate", () => {
  $("q").value = new URLSearchParams(location.search).get("q") ?? "";
  if ($("q").value) search();
  else location.reload();
});
if ($("q").value && $("error").hidden) search();
