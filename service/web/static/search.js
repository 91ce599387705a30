// The search page: searches while the user types, and shows hits, filters, and how the query was read.
// A search is logged when the user has come to rest: by Enter, by a click on a hit, or after a pause.

import { $, call, collection, languageCode, percent, showError, unlessForbidden } from "./page.js";
import { List, connectSwitch, deleteFeedback, mayDelete, mayLearn, stayHere } from "./feedback.js";
import { showFacets } from "./facets.js";
import { hitElement } from "./hits.js";
import { showReading } from "./reading.js";
import { showWhenRested } from "./rested.js";
import { LIMIT, MOST_CHARACTERS, addressOf, countOf, emptyWish, filteredFields, searchOf, wishFrom, withoutCounts } from "./wish.js";

const TYPING_MS = 120; // pause after which a query is searched
const RESTING_MS = 1000; // pause after which a search is logged
const SLOW_MS = 700; // pause after which the page says that it searches
const RETRY_MS = 3000; // pause after which a search without an answer is sent again
const wide = window.matchMedia("(min-width: 60rem)");
const wish = wishFrom(location.search); // changed in place: what is on the page keeps it
let filterable = []; // fields of the collection that filters may use
let newest = 0; // number of the newest search: late responses to older searches are dropped
let running = Promise.resolve();
let asked = ""; // the request of the newest search for a first page, without its impression, until its response
let list = null; // the first page of hits that is shown, with its request
let unanswered = null; // the query of a search that is sent again
let returned = false; // whether the search is a return to one that was logged
let typing, resting, retrying;
let newestIntent = 0; // number of the newest change or Enter: an Enter that waits is dropped when there is a newer one

// Searches for the wish; with an offset, appends the next page.
function search(offset = 0, log = false) {
  running = perform(offset, log && mayLearn());
  return running;
}

async function perform(offset, log) {
  const mine = ++newest;
  clearTimeout(retrying);
  unanswered = null;
  if (!wish.q.trim()) return clear();
  if (Array.from(wish.q).length > MOST_CHARACTERS) {
    clear();
    return showError(`A query has at most ${MOST_CHARACTERS.toLocaleString("en")} characters.`);
  }
  const request = { ...searchOf(wish, filterable, offset), log };
  asked = offset ? "" : unlogged(request);
  $("hits").setAttribute("aria-busy", "true");
  let answer = null;
  let facets = {};
  let problem = null;
  const before = $("summary").textContent;
  const slow = setTimeout(() => mine === newest && ($("summary").textContent = "Searching…"), SLOW_MS);
  try {
    const others = request.facets ? counts().catch(() => ({})) : {}; // a search is not repeated for a count
    [answer, facets] = await Promise.all([call("POST", "/search", request), others]);
  } catch (error) {
    problem = error;
  }
  clearTimeout(slow);
  if (mine !== newest) return;
  asked = "";
  showError(problem?.message ?? "");
  if (problem?.isPassing && !offset) {
    // the hits of before stay, dimmed, until there is an answer
    unanswered = wish.q;
    $("more").hidden = true; // further hits would be those of another query
    $("summary").textContent = "The search is sent again.";
    retrying = setTimeout(() => search().then(() => returned || rest()), Math.max(RETRY_MS, problem.retryMs));
    return;
  }
  $("hits").removeAttribute("aria-busy");
  if (offset && !answer) {
    $("summary").textContent = before;
    return;
  }
  show(answer, request, { ...answer?.facets, ...facets });
}

// Returns the facets of the filtered fields, each counted without its own filter.
async function counts() {
  const fields = filteredFields(wish).filter((field) => filterable.includes(field));
  const answers = await Promise.all(fields.map((field) => call("POST", "/search", countOf(wish, field))));
  return Object.fromEntries(answers.flatMap((answer) => Object.entries(answer.facets)));
}

const unlogged = (request) => JSON.stringify({ ...withoutCounts(request), log: false });

function show(answer, request, facets) {
  const shown = answer && new List(request, answer, request.offset ? list : null);
  const focused = request.offset ? null : document.activeElement?.closest("#hits > li");
  if (!request.offset) {
    if (shown && list?.request.q === request.q) shown.pages.unshift(...list.pages.filter((page) => page.hasFeedback));
    list = shown;
    showUndo();
    $("welcome")?.remove();
    if (answer?.hits.length) $("empty")?.remove();
    $("hits").replaceChildren();
    showHint(answer);
    showReading(answer, wish, reread);
    if (answer) showFacets(facets, wish, changed);
    showWhenRested(request, answer?.hits ?? [], filterable);
    showFilters();
    document.title = `${wish.q} – Softseek`;
  }
  $("summary").textContent = answer ? summary(answer, list.answer.matching) : "";
  if (answer?.model.alias) showAlias(answer.model);
  $("more").hidden = !answer?.page.has_more;
  $("more").onclick = () => more(request.offset + LIMIT);
  $("hits").append(...(answer?.hits ?? []).map((hit) => hitElement(hit, shown, filterable, again)));
  if (focused) focusLike(focused);
}

// Focuses the title of the document that had the focus before the hits were replaced, or else of the first one.
function focusLike(before) {
  const hits = [...$("hits").children];
  const hit = hits.find((one) => one.dataset.id === before.dataset.id) ?? hits[0];
  (hit?.querySelector("h2 > *") ?? $("summary")).focus({ preventScroll: true });
}

// Feedback on the query that is shown can be deleted, also after another search for it.
function showUndo() {
  $("undo").hidden = !list?.pages.some((page) => page.hasFeedback) || !mayDelete();
}

// On narrow screens the filters are folded: their number is not.
function showFilters() {
  const count = wish.q.trim() ? filteredFields(wish).length : 0;
  $("reset").hidden = !count;
  $("filtered").textContent = count ? ` (${count} filter${count === 1 ? "" : "s"})` : "";
}

// The version behind an alias changes when another page promotes a model.
function showAlias({ alias, version }) {
  const option = [...$("model").options].find(({ value }) => value === alias);
  if (option) option.textContent = `${alias} (${version})`;
}

function clear() {
  list = null;
  asked = "";
  for (const id of ["hits", "facets"]) $(id).replaceChildren();
  for (const id of ["hint", "reading", "more", "undo"]) $(id).hidden = true;
  showFilters();
  showWhenRested({ q: "" }, [], []);
  $("hits").removeAttribute("aria-busy");
  $("summary").textContent = "";
  document.title = "Softseek";
  showError("");
}

async function more(offset) {
  const of = list;
  $("more").onclick = null; // a second click would log the page again
  rest();
  await search(offset, true);
  if (list !== of) return; // the user has gone on
  $("hits").children[offset]?.querySelector("h2 > *").focus();
  $("more").onclick ??= () => more(offset);
  keepPlace();
}

// Searches again to show the effect of feedback, or of its deletion. The pressed button is removed with the old hits, so
// the focus moves to the summary above the new hits.
async function again(note = "") {
  await search();
  $("summary").prepend(note);
  await rest();
  $("summary").focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

// The browser keeps with the address how many hits are shown, and where.
function keepPlace() {
  history.replaceState({ hits: $("hits").children.length, top: window.scrollY }, "");
}

// Shows as many hits as before the user left the page, at the same place.
async function restore(place) {
  const first = newest + 1;
  returned = true;
  await search();
  if (newest !== first || unanswered !== null) return; // the user searches for something else, or there is no answer
  for (let offset = LIMIT; offset < (place?.hits ?? 0) && !$("more").hidden; offset += LIMIT) {
    const mine = newest;
    await search(offset);
    if (newest !== mine + 1) return; // the user searches for something else
  }
  if (place) window.scrollTo(0, place.top);
}

// The user has come to rest: the address of the page gets the wish, and the search is logged once.
async function rest() {
  clearTimeout(resting);
  await running;
  if (unanswered === wish.q) remember(); // a reload searches for it
  if ((list?.request.q ?? "") !== wish.q) return; // the user has gone on typing
  remember();
  if (list?.mayBeLogged) await list.queryId().catch((error) => showError(error.message));
}

// A click on a hit may end the page: the back button leads from a document to its hits.
function leave() {
  remember();
  keepPlace();
}

function remember() {
  const address = addressOf(wish);
  if (address !== location.search) history.pushState(null, "", address);
}

// Drops what waits for a pause or, after Enter, for a response. Returns the number of the new intent.
function intend() {
  stayHere();
  clearTimeout(retrying);
  clearTimeout(typing);
  clearTimeout(resting);
  returned = false;
  return ++newestIntent;
}

// The wish has changed: it is searched soon, and logged when the user has come to rest.
function soon(wait) {
  intend();
  typing = setTimeout(search, wait);
  resting = setTimeout(rest, wait + RESTING_MS);
}

function changed() {
  soon(0);
}

// The user wants the query to be read in another way: `change` has the new fields of the wish.
function reread(change) {
  Object.assign(wish, change);
  $("q").focus();
  changed();
}

// `matching`: the documents that the first page has counted, if it has.
function summary({ hits, attention, took_ms, model, degraded, everything }, matching) {
  const last = hits.at(-1)?.position ?? 0;
  const documents = `${matching?.toLocaleString("en")} document${matching === 1 ? "" : "s"}`;
  const parts = [
    `${last} of ${attention.candidates} candidates`,
    ...(matching === undefined ? [] : [everything ? documents : `${documents} with a word of the query`]),
    `no answer ${percent(attention.null_weight)}`,
    `${took_ms.toFixed(took_ms < 10 ? 1 : 0)} ms`,
    `model ${model.version}${model.alias ? `, ${model.alias}` : ""}`,
  ];
  return [...parts, ...degraded.map((reason) => `degraded: ${reason}`)].join(" · ");
}

function showHint(answer) {
  const empty = answer && !answer.hits.length;
  const doubtful = answer?.answered === false;
  $("hint").hidden = !empty && !doubtful;
  const filtered = filteredFields(wish).length ? " and passes the filters" : "";
  $("hint").textContent = empty
    ? `No document matches this query${filtered}.`
    : doubtful
      ? "Probably no document answers this query: “no answer” has at least half of the weight."
      : "";
}

function typed() {
  const q = $("q").value;
  if (q === wish.q) return;
  Object.assign(wish, { q, literal: false, typos: true });
  soon(TYPING_MS);
}

// Enter. A search that is already shown is only logged. The response to another search is not waited for.
async function submit(event) {
  event.preventDefault();
  const mine = intend();
  wish.q = $("q").value;
  const wanted = unlogged(searchOf(wish, filterable));
  if (asked === wanted) await running;
  if (mine !== newestIntent) return;
  if (asked || !list || unlogged(list.request) !== wanted) await search(0, true);
  await rest();
  window.scrollTo(0, 0);
}

function showWish() {
  $("q").value = wish.q;
  showSelects();
}

function showSelects() {
  for (const name of ["sort", "mode", "model"]) {
    const select = $(name);
    if (![...select.options].some((option) => option.value === wish[name])) select.add(new Option(wish[name]));
    select.value = wish[name];
  }
}

async function loadFields() {
  const state = await call("GET", "");
  for (const id of ["hits", "closest"]) $(id).lang = languageCode(state.settings.language);
  filterable = state.settings.filterable;
  const orders = filterable.flatMap((field) => [
    new Option(`${field}, ascending`, `${field}:asc`),
    new Option(`${field}, descending`, `${field}:desc`),
  ]);
  $("sort").replaceChildren(new Option("relevance", ""), ...orders);
}

// The filters and orders come as soon as the service answers. A key with a filter has none.
function fieldsLater(error) {
  unlessForbidden(error);
  if (!error.isPassing) return;
  const load = () => loadFields().then(showSelects).then(showFacetsLater);
  setTimeout(() => load().catch(fieldsLater), Math.max(RETRY_MS, error.retryMs));
}

// Shows the filters beside hits that are shown already.
async function showFacetsLater() {
  const of = list;
  if (!of) return;
  const [{ facets }, others] = await Promise.all([call("POST", "/search", { ...searchOf(wish, filterable), limit: 1 }), counts()]);
  if (list === of) showFacets({ ...facets, ...others }, wish, changed);
}

async function loadModels() {
  const { models, aliases } = await call("GET", "/models");
  const named = Object.entries(aliases).sort().map(([name, version]) => new Option(`${name} (${version})`, name));
  const versions = models.map(({ version }) => new Option(version ? `version ${version}` : "untrained (0)", version));
  $("model").replaceChildren(...named, ...versions.reverse());
  showSelects();
}

for (const name of ["sort", "mode", "model"]) {
  $(name).addEventListener("change", () => {
    wish[name] = $(name).value;
    changed();
  });
}
$("undo").addEventListener("click", () => list && deleteFeedback(list, again));
$("reset").addEventListener("click", () => {
  const { q, sort, mode, model } = wish;
  Object.assign(wish, emptyWish(q), { sort, mode, model });
  changed();
  $("summary").focus({ preventScroll: true }); // the button is hidden now
});
$("q").addEventListener("input", (event) => event.isComposing || typed());
$("q").addEventListener("compositionend", typed);
$("search").addEventListener("submit", submit);
window.addEventListener("popstate", ({ state }) => {
  intend();
  Object.assign(wish, wishFrom(location.search));
  if ($("facets").contains(document.activeElement)) document.activeElement.blur(); // a focused number is not replaced
  showWish();
  restore(state);
});
$("hits").addEventListener("click", leave, true);
document.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const stops = [$("q"), ...$("hits").querySelectorAll("h2 > :is(a, button)")];
  const at = stops.indexOf(document.activeElement);
  const isChanged = event.shiftKey || event.ctrlKey || event.altKey || event.metaKey; // selects text, or opens a list
  if (!step || at < 0 || isChanged || event.isComposing || !stops[at + step]) return;
  event.preventDefault();
  stops[at + step].focus();
});
wide.addEventListener("change", () => ($("options").open = wide.matches));
$("options").open = wide.matches;
connectSwitch();
if ($("q").value !== $("q").defaultValue) typed(); // text that was typed before this script was loaded
showWish();
if (collection && !$("error").textContent.trim()) {
  loadModels().catch(unlessForbidden);
  await loadFields().catch(fieldsLater);
  showSelects();
  const [arrival] = performance.getEntriesByType("navigation");
  if (wish.q && arrival.type === "navigate") changed();
  else if (wish.q) restore(history.state); // a return to this page, or a reload: the search was logged before
}
