// "More like this": recommendations for a hit. They are not logged, so opening one sends no event.

import { attempt, call, el, isolated, percent } from "./page.js";
import { titleElement } from "./titles.js";

const MOST = 5; // recommended documents of a hit

// Shows the documents like a hit in its open details; returns whether they are shown. They pass the filter of the search.
export async function showSimilar(details, hit, list) {
  const request = { like: [hit.id], limit: MOST, fields: ["title", "url"] };
  if (list.request.filter) request.filter = list.request.filter;
  const answer = await attempt(() => call("POST", "/recommend", request));
  if (!answer) return false;
  const items = answer.hits.map(lineOf);
  details.append(items.length ? el("ol", {}, ...items) : el("p", {}, "No other document is near this document."));
  return true;
}

function lineOf(found) {
  const text = el("p", { className: "text", dir: "auto" });
  const title = titleElement(found, [], text, () => [], new Set());
  return el("li", {}, isolated(title), el("span", { className: "quiet" }, ` weight ${percent(found.score)}`), text);
}
