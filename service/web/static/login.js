// The API key of the page: typed into a form when the service asks for a key, and kept in sessionStorage until the tab is
// closed. No cookie and no address has it.

const LIMIT_MS = 60_000; // how long a page waits for an answer
const STORED = "softseek-key"; // key in sessionStorage
let known = null; // the key where the browser denies storage
let asking = null; // the promise of the form that is shown
const part = (id) => document.getElementById(id);

function key() {
  try {
    return sessionStorage.getItem(STORED) ?? known;
  } catch {
    return known;
  }
}

function remember(text) {
  known = text;
  try {
    if (text === null) sessionStorage.removeItem(STORED);
    else sessionStorage.setItem(STORED, text);
  } catch {
    // the key holds for no longer than the page
  }
}

// Fetches with the key. Where the service asks for a key, the form is shown, and the request is sent again with the key.
export async function fetchWithKey(address, { headers = {}, ...options } = {}) {
  for (;;) {
    const sent = key();
    if (sent !== null && !isSendable(sent)) {
      await ask(true);
      continue;
    }
    const authorisation = sent === null ? {} : { Authorization: `Bearer ${sent}` };
    const signal = AbortSignal.timeout(LIMIT_MS);
    const response = await fetch(address, { signal, ...options, headers: { ...headers, ...authorisation } });
    if (response.status !== 401) return response;
    if (key() === sent) await ask(sent !== null);
  }
}

const isSendable = (text) => /^[\x21-\x7e]+$/.test(text); // a key with other characters is wrong, and fits no header
const isEdited = (field) => field?.matches("input") && field.value !== field.defaultValue;

// Shows the form; resolves when a key was typed. Requests that wait at the same time share a form.
function ask(refused) {
  asking ??= new Promise((typed) => {
    const before = document.activeElement;
    const stays = isEdited(before); // a query that is being typed is no key
    part("login").hidden = false;
    part("refused").textContent = refused ? "The key is wrong, or it has expired." : stays ? "The service needs an API key." : "";
    part("refused").hidden = !part("refused").textContent;
    part("logout").hidden = true;
    if (!stays) part("key").focus();
    part("login").onsubmit = (event) => {
      event.preventDefault();
      remember(part("key").value.trim());
      part("key").value = "";
      part("login").hidden = true;
      part("logout").hidden = false;
      asking = null;
      window.dispatchEvent(new Event("key"));
      const stop = [before, part("q"), part("main")].find((one) => one && one !== document.body && one.checkVisibility());
      stop?.focus({ preventScroll: true }); // the form with the focus is hidden
      typed();
    };
  });
  return asking;
}

function logOut() {
  remember(null);
  location.reload();
}

if (part("logout")) {
  part("logout").hidden = key() === null;
  part("logout").onclick = logOut;
}
