// Feedback of the search page: logs a search at most once, and sends clicks and thumbs as UBI events.
// With "do not learn from me" nothing is sent.

import { $, Problem, attempt, call, el } from "./page.js";

const PRIVATE = "softseek-do-not-learn"; // key in localStorage; login.js has the key of the service in sessionStorage

export function mayLearn() {
  try {
    return localStorage.getItem(PRIVATE) !== "yes";
  } catch {
    return true; // the browser denies storage
  }
}

export function setLearning(allowed) {
  try {
    if (allowed) localStorage.removeItem(PRIVATE);
    else localStorage.setItem(PRIVATE, "yes");
  } catch {
    // the choice holds for no longer than the page
  }
  for (const thumb of document.querySelectorAll(".thumb")) enable(thumb, allowed);
}

function enable(thumb, allowed) {
  thumb.disabled = !allowed;
  thumb.title = allowed ? thumb.ariaLabel : "“Do not learn from me” is on";
}

// A list of hits as it is shown. The search is logged when feedback needs it, or when the user has come to rest.
export class List {
  #logged;

  constructor(request, answer) {
    this.request = request;
    this.answer = answer;
    this.#logged = request.log ? Promise.resolve(answer.query_id) : null;
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
    const { facets, ...request } = this.request;
    const logged = await call("POST", "/search", { ...request, fields: [], snippet: false, log: true });
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
    enable(thumb, mayLearn());
  }
}

// A link in this tab ends the page, and its requests with it: the link is followed after the click is sent.
async function opened(event, title, list, send) {
  const leaves = title.href && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
  if (!leaves || !mayLearn()) {
    send("click");
    return;
  }
  event.preventDefault();
  await Promise.race([send("click"), new Promise((done) => setTimeout(done, 1000))]);
  location.assign(title.href);
}

function sender(hit, list, element, again) {
  const sent = new Set(); // each search sends at most one click and one judgment of a hit
  return (action) =>
    attempt(async () => {
      const kind = action === "click" ? "click" : "thumb";
      if (!mayLearn() || sent.has(kind)) return;
      sent.add(kind);
      try {
        const queryId = await list.queryId();
        const { rejected } = await call("POST", "/events", event(action, queryId, hit), { keepalive: true });
        if (rejected.length) throw new Problem(rejected[0]);
        showStored(element, action, queryId, again);
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

function showStored(element, action, queryId, again) {
  for (const thumb of action === "click" ? [] : element.querySelectorAll(".thumb")) {
    thumb.ariaPressed = String(thumb.dataset.action === action);
    thumb.ariaDisabled = "true";
  }
  const link = (onclick, text) => el("button", { className: "plain", type: "button", onclick }, text);
  const repeat = link(again, "Search again");
  const undo = link(() => deleteFeedback(queryId, again), "delete all feedback on this search");
  element.querySelector(".done").replaceChildren("Stored. ", repeat, " to see the effect, or ", undo, ".");
}

// Deletes the feedback, and searches again to show the ranking without it.
async function deleteFeedback(queryId, again) {
  if (await attempt(() => call("POST", "/events/delete", { query_id: queryId }))) await again();
}

export function connectSwitch() {
  $("private").checked = !mayLearn();
  $("private").addEventListener("change", () => setLearning(!$("private").checked));
}
