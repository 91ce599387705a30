// The two heatmaps of a page of hits, as tables: words of the query by keys, and parts of the logit by documents.
// Every number is text in its cell. The colour repeats the number and adds nothing.

import { attempt, call, el, isolated } from "./page.js";
import { titleOf } from "./titles.js";

const MAX_KEY_CHARACTERS = 40; // characters of a key in the head of its column
const PARTS = {
  words: "words (BM25)",
  coverage: "query words in the document",
  proximity: "query words close together",
  phrase: "query words in order",
  corrected: "corrected words",
  completed: "completed words",
  memory: "past queries",
  trees: "combinations of the others",
  prior: "chosen on other queries",
}; // labels of the parts of a logit; the other parts are kinds of keys

export const partName = (part) => PARTS[part] ?? part;

// Returns a button that shows and hides the heatmaps, and their place. `list` is the page of the hit.
export function heatmaps(hit, list) {
  const place = el("div", { className: "heatmaps", hidden: true });
  const button = el("button", { type: "button", ariaExpanded: "false" }, "Heatmaps of this page");
  button.addEventListener("click", async () => {
    const open = button.ariaExpanded !== "true";
    if (open && !place.children.length) {
      const answer = await attempt(() => call("POST", "/search", requestOf(list)));
      if (!answer || place.children.length) return;
      place.append(...tables(answer, hit));
    }
    button.ariaExpanded = String(open);
    place.hidden = !open;
  });
  return [el("p", { className: "wide" }, button), place];
}

function requestOf({ request }) {
  return { ...request, explain: "matrix", fields: ["title", "text"], snippet: false, log: false };
}

function tables({ matrix, hits }, own) {
  const { words_by_keys: words, parts_by_documents: parts } = matrix;
  const byId = new Map(hits.map((hit) => [hit.id, hit]));
  const found = [];
  if (words?.words.length && words.keys.length) found.push(wordsTable(words, byId, own));
  if (parts.documents.length) found.push(partsTable(parts, byId, own));
  return found.length ? found : [el("p", {}, "The ranking has changed since this search. Search again to see heatmaps.")];
}

function wordsTable({ words, keys, cells, words_left_out: left }, byId, own) {
  const documents = [...new Set(keys.map(({ id }) => id))].map((id) => {
    const colSpan = keys.filter((key) => key.id === id).length;
    return Object.assign(documentHead(byId.get(id), own), { scope: "colgroup", colSpan });
  });
  const heads = keys.map((key) => el("th", { scope: "col" }, ...keyName(key, byId.get(key.id))));
  const top = el("thead", {}, el("tr", {}, el("th", { scope: "col", rowSpan: 2 }, "Word"), ...documents), el("tr", {}, ...heads));
  const rows = cells.map((row, at) => tableRow(words[at].word, row, most(cells)));
  const whole = plainRow("cosine of the whole query", keys.map((key) => key.cosine));
  const caption =
    "Words by keys: the cosine of the whole query and a key, minus the cosine without the word" +
    (left ? `. The first ${words.length} words are shown; ${left} more are left out` : "");
  return table(caption, top, rows, whole);
}

function partsTable({ parts, documents, cells }, byId, own) {
  const heads = documents.map(({ id }) => Object.assign(documentHead(byId.get(id), own), { scope: "col" }));
  const top = el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Part"), ...heads));
  const used = parts.flatMap((part, at) => (cells[at].some((cell) => cell !== 0) ? [[partName(part), cells[at]]] : []));
  const rows = used.map(([name, row]) => tableRow(name, row, most(cells)));
  const sums = plainRow("logit", documents.map(({ logit }) => logit));
  return table("Parts by documents: the parts that sum to each logit", top, rows, sums);
}

function table(caption, top, rows, last) {
  const grid = el("table", { className: "heat" }, el("caption", {}, caption), top, el("tbody", {}, ...rows), el("tfoot", {}, last));
  const region = el("div", { className: "scroll", tabIndex: 0 }, grid); // the arrow keys move a wide table
  region.setAttribute("role", "region");
  region.setAttribute("aria-label", caption.split(":")[0]);
  return region;
}

function documentHead(hit, own) {
  const mine = hit.id === own.id;
  const more = mine ? [el("span", { className: "visually-hidden" }, " (this document)")] : [];
  return el("th", { className: mine ? "own" : "" }, `${hit.position}. `, isolated(titleOf(hit)), ...more);
}

function keyName({ kind, start, end }, { text }) {
  if (kind === "title") return [kind];
  const part = Array.from(text).slice(start, Math.min(end, start + MAX_KEY_CHARACTERS)).join("");
  return [`${kind} “`, isolated(`${part}${end - start > MAX_KEY_CHARACTERS ? "…" : ""}`), "”"];
}

const most = (cells) => Math.max(...cells.flat().map(Math.abs)) || 1;

// The share of a cell in the largest cell decides how strong its colour is (style.css).
function tableRow(name, row, largest) {
  const cells = row.map((cell) => {
    const shown = el("td", { className: cell < 0 ? "fall" : "rise" }, signed(cell));
    shown.style.setProperty("--share", (Math.abs(cell) / largest).toFixed(3));
    return shown;
  });
  return el("tr", {}, el("th", { scope: "row" }, isolated(name)), ...cells);
}

function plainRow(name, numbers) {
  return el("tr", {}, el("th", { scope: "row" }, name), ...numbers.map((number) => el("td", {}, number.toFixed(2).replace("-", "−"))));
}

function signed(number) {
  const size = Math.abs(number).toFixed(2);
  return size === "0.00" ? size : `${number < 0 ? "−" : "+"}${size}`;
}
