// Feedback of the search page: logs a search at most once, and sends clicks and thumbs as UBI events.
// With "do not learn from me" nothing is sent.

import { $, Problem, attempt, call, el } from "./page.js";
import { withoutCounts } from "./wish.js";

const PRIVATE = "softseek-do-not-learn"; // key in localStorage; login.js has the key of the service in sessionStorage
const LEAVING_MS = 3000; // how long a link waits at most until its click is sent
let leavingTo = null; // the address of the link that waits
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
  thumb.disabled = Boolean(withoutWords) || !mayLearn();
  const reason = withoutWords ? "The search has no words to learn from" : "“Do not learn from me” is on";
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
  const waits = leavingTo !== null; // a double click, or a click on another title
  leavingTo = title.href;
  const sent = send("click");
  if (waits) return;
  try {
    await Promise.race([sent, new Promise((done) => setTimeout(done, LEAVING_MS))]);
  } finally {
    location.assign(leavingTo);
    leavingTo = null;
  }
}

function sender(hit, list, element, again) {
  const sent = new Set(); // each search sends at most one click and one judgment of a hit
  return (action) =>
    attempt(async () => {
      const kind = action === "click" ? "click" : "thumb";
      if (!list.mayBeLogged || sent.has(kind)) return;
      sent.add(kind);
      try {
        const queryId = await list.queryId();
        const { rejected } = await call("POST", "/events", event(action, queryId, hit), { keepalive: true });
        if (rejected.length) throw new Problem(rejected[0]);
        showStored(element, action, list, again);
      } catch (error) {
        sent.delete(kind);
        throw error;
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

function showStored(element, action, list, again) {
  for (const thumb of action === "click" ? [] : element.querySelectorAll(".thumb")) {
    thumb.ariaPressed = String(thumb.dataset.action === action);
    thumb.ariaDisabled = "true";
  }
  const link = (onclick, text) => el("button", { className: "plain", type: "button", onclick }, text);
  const repeat = link(again, "Search again");
  const undo = link(() => deleteFeedback(list, again), "delete all feedback on this search");
  element.querySelector(".done").replaceChildren("Stored. ", repeat, " to see the effect, or ", undo, ".");
}

// Deletes the feedback on all pages of the search, and searches again to show the ranking without it.
async function deleteFeedback({ pages }, again) {
  const logged = pages.filter((page) => page.isLogged);
  const remove = async (page) => call("POST", "/events/delete", { query_id: await page.queryId() });
  if (await attempt(() => Promise.all(logged.map(remove)))) await again();
}

export function connectSwitch() {
  $("private").addEventListener("change", () => setLearning(!$("private").checked));
  window.addEventListener("storage", showLearning); // another tab has the same choice
  window.addEventListener("pageshow", showLearning);
  showLearning();
}
