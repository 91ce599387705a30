// What the page shows when a query has rested for a while, by a second search: the closest sentence above the hits, and
// estimates of the fields from the attention. The sentence has its place from the first: hits that move are missed.

import { $, call, el, isolated, percent } from "./page.js";
import { titleOf } from "./titles.js";
import { withoutCounts } from "./wish.js";

const RESTING_MS = 1000; // pause after which the second search is sent
const LEAST_WORDS = 3; // shorter queries name a thing and ask nothing
const MAX_FIELDS = 16; // fields that a search may estimate
const MAX_VALUES = 3; // values of an estimate that are named
const words = new Intl.Segmenter(undefined, { granularity: "word" }); // finds words in scripts without spaces, too
let waiting;
let newest = 0; // number of the newest query: a late response to an older query is dropped

// Hides the sentence and the estimates, and shows those of this search after a pause. `hits` are the hits that are shown,
// `fields` the filterable fields.
export function showWhenRested(request, hits, fields) {
  clearTimeout(waiting);
  const mine = ++newest;
  $("estimates").hidden = true;
  const answer = hits.length > 0 && countOf(request.q) >= LEAST_WORDS;
  $("closest").hidden = !answer;
  $("closest").replaceChildren(el("span", { className: "quiet" }, "…"));
  if (!hits.length) return;
  waiting = setTimeout(async () => {
    const predict = fields.length ? fields.slice(0, MAX_FIELDS) : undefined;
    if (!answer && !predict) return;
    const wanted = { ...withoutCounts(request), limit: 1, offset: 0, fields: [], snippet: false, log: false };
    const found = await call("POST", "/search", { ...wanted, answer, predict }).catch(() => null); // the hits have shown the error
    if (mine !== newest) return;
    if (found?.answer) showSentence(found.answer, hits);
    else if (answer) $("closest").replaceChildren(found ? el("span", { className: "quiet" }, "No sentence is close to this query.") : "");
    if (!found) return;
    showEstimates(Object.entries(found.predictions ?? {}).filter(([, one]) => one.documents));
  }, RESTING_MS);
}

const countOf = (query) => Array.from(words.segment(query)).filter(({ isWordLike }) => isWordLike).length;

function showSentence({ id, text, weight }, hits) {
  const title = titleOf(hits.find((hit) => hit.id === id) ?? { id });
  const source = el("span", { className: "quiet", dir: "ltr" }, isolated(title), ` · ${percent(weight)} of the attention`);
  $("closest").replaceChildren(el("q", {}, text.trim()), " ", source);
  $("closest").tabIndex = $("closest").scrollHeight > $("closest").clientHeight ? 0 : -1; // a long sentence is scrolled
}

function showEstimates(predictions) {
  const rows = predictions.flatMap(([field, one]) => [
    el("dt", {}, isolated(field)),
    el("dd", {}, ...sentence(one), el("br"), basis(one)),
  ]);
  $("estimates").querySelector("dl").replaceChildren(...rows);
  $("estimates").hidden = !rows.length;
}

function sentence(one) {
  if (one.type === "number") {
    const [low, high] = [one.quantiles["0.1"], one.quantiles["0.9"]].map(rounded);
    return [low === high ? `about ${low}` : `about ${rounded(one.mean)}, four times in five from ${low} to ${high}`];
  }
  const named = one.distribution.slice(0, MAX_VALUES);
  const others = 1 - named.reduce((sum, { weight }) => sum + weight, 0);
  const parts = named.flatMap(({ value, weight }, at) => [at ? ", " : "", isolated(value), ` ${percent(weight)}`]);
  return [...parts, ...(others > 0.0005 ? [`, others ${percent(others)}`] : [])];
}

// Says how much the estimate rests on: the effective number of documents is the number of equal documents with the same variance.
function basis({ documents, effective_sample_size: size, coverage }) {
  const equal = size < 1.5 ? "nearly a single one" : `about ${size.toFixed(size < 9.5 ? 1 : 0)} equal ones`;
  const from = documents === 1 ? "from 1 document" : `from ${documents} documents that count as ${equal}`;
  const known = coverage > 0.995 ? "" : `; ${percent(1 - coverage)} of the attention has no value`;
  return el("span", { className: "quiet" }, from + known);
}

const rounded = (number) => Number(number.toPrecision(4)).toString();
