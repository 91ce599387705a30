// The sentence that is closest to the query, above the hits. The page asks for it when the query has rested for a while.

import { $, call, el, percent } from "./page.js";

const RESTING_MS = 1000; // pause after which the sentence is asked for
const LEAST_WORDS = 3; // shorter queries name a thing and ask nothing
let waiting;
let newest = 0; // number of the newest query: a late response to an older query is dropped

// Hides the sentence, and shows the sentence of this search after a pause. `hits` are the hits that are shown.
export function closestSoon(request, hits) {
  clearTimeout(waiting);
  const mine = ++newest;
  $("closest").hidden = true;
  if (!hits.length || request.q.trim().split(/\s+/).length < LEAST_WORDS) return;
  waiting = setTimeout(async () => {
    const wanted = { ...request, facets: undefined, limit: 1, offset: 0, fields: [], snippet: false, answer: true, log: false };
    const found = await call("POST", "/search", wanted).catch(() => null); // the hits have shown the error
    if (mine === newest && found?.answer) show(found.answer, hits);
  }, RESTING_MS);
}

function show({ id, text, weight }, hits) {
  const title = hits.find((hit) => hit.id === id)?.title ?? id;
  const source = el("span", { className: "quiet" }, `${title} · ${percent(weight)} of the attention`);
  $("closest").replaceChildren(el("q", {}, text.trim()), " ", source);
  $("closest").hidden = false;
}
