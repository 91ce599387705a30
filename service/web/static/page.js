// Functions of all pages: calls to the /v1 API, and elements made from data.
// Text enters a page only as text nodes. No code here reads HTML from a response.

import { fetchWithKey } from "./login.js";

export const collection = document.body.dataset.collection;
export const $ = (id) => document.getElementById(id);

// A failed request. The message is one line; `code` is the stable code of the API.
export class Problem extends Error {
  constructor({ detail, title, errors = [], code, status, retryMs = 0 } = {}) {
    const told = detail || title || "The response of the service has no content.";
    const others = errors.filter((error) => !told.includes(error.detail));
    const more = others.map((error) => [error.pointer, error.detail].filter(Boolean).join(": "));
    super([told, ...more].join(" · "));
    this.code = code;
    this.status = status;
    this.retryMs = retryMs; // pause that the service asks for
  }

  // Whether the same request may be answered soon: there was no answer, or the service is busy.
  get isPassing() {
    return this.status === undefined || [429, 502, 503, 504].includes(this.status);
  }
}

export function call(method, path, body, options = {}) {
  return callService(method, `/v1/collections/${encodeURIComponent(collection)}${path}`, body, options);
}

async function callService(method, address, body, options = {}) {
  let response;
  try {
    response = await fetchWithKey(address, {
      method,
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      ...options,
    });
  } catch (error) {
    const isLate = error.name === "TimeoutError";
    throw new Problem({ detail: isLate ? "The service does not answer." : "The service cannot be reached." });
  }
  const answer = await response.json().catch(() => null);
  if (!response.ok) {
    const { status, headers } = response;
    const retryMs = Math.min(60, Number(headers.get("Retry-After")) || 0) * 1000;
    throw new Problem({ detail: `The service responded with status ${status}.`, ...answer, status, retryMs });
  }
  if (answer === null) throw new Problem({ detail: "The service does not answer." });
  return answer;
}

// Runs a function. An error is shown in the error line of the page, until the next call.
export async function attempt(work) {
  showError("");
  try {
    return await work();
  } catch (error) {
    showError(error.message);
    if (!(error instanceof Problem)) throw error;
  }
}

// Runs a function with buttons disabled until it has ended: a second click does not repeat the first one. A disabled button
// loses the focus, and gets it back.
export async function once(buttons, work) {
  const focused = document.activeElement;
  for (const button of buttons) button.disabled = true;
  try {
    return await work();
  } finally {
    for (const button of buttons) button.disabled = false;
    if (document.activeElement === document.body && focused.isConnected) focused.focus();
  }
}

// Shows an error, except the refusal of something that the key may not do: the page then works without it.
export function unlessForbidden(error) {
  if (error.status !== 403) showError(error.message);
}

export function showError(text) {
  if ($("error").textContent !== text) $("error").textContent = text; // the same error is announced once
  $("error").hidden = !text;
}

// el("a", { href, className }, "text", child, …): makes an element with DOM properties and children (nodes or text).
export function el(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

// svg("rect", { x, y, … }): makes an element of a drawing.
export function svg(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

// Text of documents and users inside a sentence of the page: it runs in its own direction, and the sentence in its own.
export const isolated = (...text) => el("bdi", {}, ...text);

const LANGUAGES = {
  arabic: "ar",
  chinese: "zh",
  danish: "da",
  dutch: "nl",
  english: "en",
  finnish: "fi",
  french: "fr",
  german: "de",
  greek: "el",
  hungarian: "hu",
  italian: "it",
  japanese: "ja",
  korean: "ko",
  norwegian: "no",
  portuguese: "pt",
  romanian: "ro",
  russian: "ru",
  spanish: "es",
  swedish: "sv",
  tamil: "ta",
  thai: "th",
  turkish: "tr",
}; // language of a collection -> its code, by which screen readers choose a voice

// Returns the code of the language of a collection, "" where it is not known.
export const languageCode = (language) => LANGUAGES[language] ?? "";

export function percent(share) {
  const size = Math.abs(share);
  if (size > 0 && size < 0.0005) return "< 0.1 %";
  return `${share < 0 ? "−" : ""}${(100 * size).toFixed(size < 0.0995 ? 1 : 0)} %`;
}

// A page of a service with keys has no data: the collections are asked for with the key.
if (document.body.dataset.locked) {
  callService("GET", "/v1/collections")
    .then(({ collections }) => {
      const names = collections.map(({ name }) => name);
      const address = new URLSearchParams(location.search);
      if (names.length && !names.includes(collection) && !address.has("c")) {
        address.set("c", names[0]);
        location.replace(`?${address}`);
      }
      $("collection").append(...names.filter((name) => name !== collection).map((name) => new Option(name)));
    })
    .catch(unlessForbidden);
}

// The collection of a page never changes: a browser that returns to the page restores the choice that led away from it.
window.addEventListener("pageshow", () => {
  if (!$("collection")) return;
  $("collection").value = collection;
  $("choose").hidden = true;
});

// A choice of another collection loads a new page. Arrow keys choose one option after the other, so the page then waits for
// Enter or the button.
if ($("collection")) {
  let byKey = false;
  $("collection").addEventListener("pointerdown", () => (byKey = false));
  $("collection").addEventListener("keydown", ({ key, target }) => {
    if (key === "Enter" && target.value !== collection) target.form.submit();
    byKey = true;
  });
  $("collection").addEventListener("change", ({ target }) => {
    $("choose").hidden = target.value === collection;
    if (!byKey) target.form.submit();
  });
  $("choose").addEventListener("click", () => $("collection").form.submit());
}
