// How a query was read: corrected words and operators, each with a button to read the query as it is written.

import { $, el, isolated } from "./page.js";

// `reread` gets the fields of the wish that a button changes.
export function showReading(answer, wish, reread) {
  const button = (text, change) =>
    el("button", { className: "plain", type: "button", onclick: () => reread(change) }, ...[text].flat());
  const parts = [spelling(answer?.corrections ?? [], wish, button), operators(answer?.operators ?? {}, wish, button)];
  $("reading").replaceChildren(...parts.filter((part) => part.length).map((part) => el("span", {}, ...part)));
  $("reading").hidden = !$("reading").children.length;
}

function spelling(corrections, wish, button) {
  if (!corrections.length) return wish.typos ? [] : ["Spelling is not corrected; ", button("correct it", { typos: true })];
  const words = corrections.flatMap(({ to }, at) => [at ? ", " : "", el("b", {}, isolated(to))]);
  const typed = corrections.flatMap(({ from }, at) => [at ? ", " : "", isolated(from)]);
  return ["Results for ", ...words, "; ", button(["search only for ", ...typed], { typos: false })];
}

function operators({ phrases = [], excluded = [], conditions = [] }, wish, button) {
  const read = [
    ...phrases.map((phrase) => ["with “", isolated(phrase), "”"]),
    ...excluded.map((word) => ["without “", isolated(word), "”"]),
    ...conditions.map(({ field, value }) => ["whose ", isolated(field), " is “", isolated(value), "”"]),
  ];
  if (read.length) {
    const parts = read.flatMap((part, at) => [at ? ", " : "Only documents ", ...part]);
    return [...parts, "; ", button("search for these words literally", { literal: true })];
  }
  return wish.literal ? ["Operators are read as words; ", button("use them as operators", { literal: false })] : [];
}
