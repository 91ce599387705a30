// Feedback of the search page: logs a search at most once, and sends clicks and thumbs as UBI events.
// With "do not learn from me" nothing is sent.

import { $, Problem, attempt, call, el } from "./page.js";
import { withoutCounts } from "./wish.js";

const PRIVATE = "softseek-do-not-learn"; // key in localStorage; login.js has the key of the service in sessionStorage
const LEAVING_MS = 3000; // how long a link waits at most until its click is sent
let leaving = null; // the link that waits, with its address
const scopes = { events: true, write: true }; // what the key may do, as far as it is known
let allowed = true; // the choice where the browser denies storage

export function mayLearn() {
  try {
    return localStorage.getItem(PRIVATE) !== "yes";
  } catch {
    return allowed;
  }
}

export function setLearning(on) {
  allowed = on;
  try {
    if (on) localStorage.removeItem(PRIVATE);
    else localStorage.setItem(PRIVATE, "yes");
  } catch {
    // `allowed` holds for no longer than the page
  }
  showLearning();
}

function showLearning() {
  $("private").checked = !mayLearn();
  for (const thumb of document.querySelectorAll(".thumb")) enable(thumb);
}

function enable(thumb) {
  const { withoutWords } = thumb.dataset;
  thumb.disabled = Boolean(withoutWords) || !mayLearn() || !scopes.events;
  const isOff = scopes.events ? "“Do not learn from me” is on" : "This API key sends no feedback: it has no scope “events”";
  const reason = withoutWords ? "The search has no words to learn from" : isOff;
  thumb.title = thumb.disabled ? reason : thumb.ariaLabel;
}

// A page of hits as it is shown. The search is logged when feedback needs it, or when the user has come to rest.
// `pages` are all pages of the search, the first one first.
export class List {
  #logged;

  constructor(request, answer, first = null) {
    this.request = withoutCounts(request);
    this.answer = answer;
    this.pages = first?.pages ?? [];
    this.pages.push(this);
    this.#logged = request.log ? Promise.resolve(answer.query_id) : null;
    this.hasFeedback = false;
  }

  get isLogged() {
    return this.#logged !== null;
  }

  // Whether the search may be logged. The service logs no search without words.
  get mayBeLogged() {
    return mayLearn() && !this.answer.everything;
  }

  // Returns the query_id of the logged search. The first call repeats the search with its impression, for the hits shown.
  async queryId() {
    this.#logged ??= this.#log();
    try {
      return await this.#logged;
    } catch (error) {
      this.#logged = null;
      throw error;
    }
  }

  async #log() {
    const logged = await call("POST", "/search", { ...this.request, fields: [], snippet: false, log: true });
    return logged.query_id;
  }
}

// Connects the title and the thumbs of a hit. `again` searches again and shows the effect of feedback.
export function connect(hit, list, element, title, again) {
  const send = sender(hit, list, element, again);
  title.addEventListener("click", (event) => opened(event, title, list, send));
  title.addEventListener("auxclick", (event) => event.button === 1 && send("click"));
  for (const thumb of element.querySelectorAll(".thumb")) {
    thumb.onclick = () => send(thumb.dataset.action);
    if (list.answer.everything) thumb.dataset.withoutWords = "yes";
    enable(thumb);
  }
}

// A link in this tab ends the page, and its requests with it: the link is followed after the click is sent.
async function opened(event, title, list, send) {
  const leaves = title.href && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
  if (!leaves || !list.mayBeLogged) {
    send("click");
    return;
  }
  event.preventDefault();
  const waits = leaving !== null; // a double click, or a click on another title
  const mine = (leaving ??= {});
  mine.to = title.href;
  document.body.ariaBusy = "true";
  const sent = send("click");
  if (waits) return;
  try {
    await Promise.race([sent, new Promise((done) => setTimeout(done, LEAVING_MS))]);
  } finally {
    if (leaving === mine) {
      location.assign(mine.to);
      stayHere();
    }
  }
}

// The link that waits is not followed: the user has begun another search.
export function stayHere() {
  leaving = null;
  document.body.ariaBusy = null;
}

function sender(hit, list, element, again) {
  const sent = new Set(); // each search sends at most one click and one judgment of a hit
  return (action) =>
    attempt(async () => {
      const kind = action === "click" ? "click" : "thumb";
      if (!list.mayBeLogged || sent.has(kind) || (kind === "click" && !scopes.events)) return;
      sent.add(kind);
      if (kind === "thumb") showPressed(element, action);
      try {
        const queryId = await list.queryId();
        const { rejected } = await call("POST", "/events", event(action, queryId, hit), { keepalive: true });
        if (rejected.length) throw new Problem(rejected[0]);
        list.hasFeedback = true;
        showStored(element, action, list, again);
      } catch (error) {
        sent.delete(kind);
        if (kind === "thumb") showPressed(element, null);
        if (error.status !== 403) throw error;
        scopes.events = false;
        showLearning();
        if (kind === "thumb") throw error; // who opens a document has asked for nothing else
      }
    });
}

function event(action, queryId, hit) {
  return {
    action_name: action,
    query_id: queryId,
    timestamp: new Date().toISOString(),
    event_attributes: { object: { object_id: hit.id, object_id_field: "id" }, position: { ordinal: hit.position } },
  };
}

// Shows which thumb of a hit is pressed; null: none.
function showPressed(element, action) {
  for (const thumb of element.querySelectorAll(".thumb")) {
    thumb.ariaPressed = String(thumb.dataset.action === action);
    thumb.ariaDisabled = action === null ? null : "true";
  }
}

function showStored(element, action, list, again) {
  const link = (onclick, text) => el("button", { className: "plain", type: "button", onclick }, text);
  const repeat = link(() => again(), "Search again");
  const undo = link(() => deleteFeedback(list, again), "delete all feedback on this search");
  const more = scopes.write ? [" to see the effect, or ", undo, "."] : [" to see the effect."];
  element.querySelector(".done").replaceChildren("Stored. ", repeat, ...more);
}

// Deletes the feedback on all pages of the search, and searches again to show the ranking without it.
export async function deleteFeedback({ pages }, again) {
  const logged = pages.filter((page) => page.isLogged && page.hasFeedback);
  const remove = async (page) => {
    await call("POST", "/events/delete", { query_id: await page.queryId() }).catch(refused);
    page.hasFeedback = false;
  };
  if (await attempt(() => Promise.all(logged.map(remove)))) await again("The feedback on this search is deleted. ");
}

export const mayDelete = () => scopes.write;

// A key without the scope is not offered the deletion again.
function refused(error) {
  if (error.status === 403) scopes.write = false;
  throw error;
}

export function connectSwitch() {
  $("private").addEventListener("change", () => setLearning(!$("private").checked));
  window.addEventListener("key", () => {
    scopes.events = scopes.write = true; // another key was typed
    showLearning();
  });
  window.addEventListener("storage", showLearning); // another tab has the same choice
  window.addEventListener("pageshow", showLearning);
  showLearning();
}
