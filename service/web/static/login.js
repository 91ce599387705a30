// The API key of the page: typed into a form when the service asks for a key, and kept in sessionStorage until the tab is
// closed. No cookie and no address has it.

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
    const response = await fetch(address, { ...options, headers: { ...headers, ...authorisation } });
    if (response.status !== 401) return response;
    if (key() === sent) await ask(sent !== null);
  }
}

const isSendable = (text) => /^[\x21-\x7e]+$/.test(text); // a key with other characters is wrong, and fits no header
const isEdited = (field) => field?.matches("input") && field.value !== field.defaultValue;

// Shows the form; resolves when a key was typed. Requests that wait at the same time share a form.
function ask(refused) {
  asking ??= new Promise((typed) => {
    part("login").hidden = false;
    part("refused").hidden = !refused;
    part("logout").hidden = true;
    if (!isEdited(document.activeElement)) part("key").focus(); // a query that is being typed is no key
    part("login").onsubmit = (event) => {
      event.preventDefault();
      remember(part("key").value.trim());
      part("key").value = "";
      part("login").hidden = true;
      part("logout").hidden = false;
      asking = null;
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
