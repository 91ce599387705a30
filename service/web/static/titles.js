// Titles of documents: a link to the address of the document, or a button that opens its whole text.

import { attempt, call, el } from "./page.js";
import { spansOf } from "./words.js";

const RESOLVED = [".", ".."]; // ids that browsers resolve in an address, however they are written

// Returns the title of a document, or its id where no character of the title can be seen.
export const titleOf = ({ id, title }) => (/[\p{L}\p{M}\p{N}\p{P}\p{S}]/u.test(title ?? "") ? title : id);

// Documents with an http or https address get a link. The whole text of other documents opens in the element `text`,
// with `words` marked, which are those of `wordsOf`; `folded` returns its content while it is closed.
export function titleElement(document, highlights, text, folded, words) {
  const title = titleOf(document);
  const marked = title === document.title ? mark(title, highlights) : [title];
  const url = document.url && URL.canParse(document.url) ? new URL(document.url) : null;
  if (url && /^https?:$/.test(url.protocol)) return el("a", { href: url.href, rel: "noopener" }, ...marked);
  const button = el("button", { className: "plain", type: "button", ariaExpanded: "false" }, ...marked);
  button.addEventListener("click", async () => {
    const open = button.ariaExpanded !== "true";
    button.ariaExpanded = String(open);
    const nodes = open ? await wholeText(document.id, words) : folded();
    if (String(open) !== button.ariaExpanded) return;
    if (!nodes) {
      button.ariaExpanded = "false"; // the next press tries again
      return;
    }
    text.classList.toggle("whole", open);
    text.replaceChildren(...nodes);
  });
  return button;
}

async function wholeText(id, words) {
  if (RESOLVED.includes(id)) return [`A browser cannot request a document with the id “${id}”.`];
  const found = await attempt(() => call("GET", `/documents/${encodeURIComponent(id)}`));
  return found && markWords(found.text, words);
}

const markWords = (text, words) => nodesOf((start, end) => text.slice(start, end), spansOf(text, words));

// Returns a text as nodes, with marked query words. Offsets count code points, as in the API.
export function mark(text, highlights) {
  const points = Array.from(text);
  const cut = (start, end) => points.slice(start, end).join("");
  return nodesOf(cut, highlights.map(({ start, end }) => [start, end]));
}

// Returns the parts of a text as nodes. `cut` returns a part, to the end of the text without a second number.
function nodesOf(cut, spans) {
  const nodes = [];
  let at = 0;
  for (const [start, end] of spans) {
    nodes.push(cut(at, start), el("mark", {}, cut(start, end)));
    at = end;
  }
  return [...nodes, cut(at)];
}
