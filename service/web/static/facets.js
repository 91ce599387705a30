// The filters at the side: values with their counts, and least and largest numbers. Every change calls `changed`.

import { $, el, isolated } from "./page.js";

const FIRST = 8; // values of a field before "more" is pressed
const TYPING_MS = 400; // pause after which a typed number counts
const expanded = new Set(); // fields whose values are all shown
const sections = new Map(); // field -> its fieldset, which stays, so that a number that is typed keeps the focus
let later;

export function showFacets(facets, wish, changed) {
  const focused = document.activeElement?.dataset?.key;
  const fields = Object.keys(facets).filter((field) => isRange(facets[field]) || hasValues(facets[field], wish, field));
  for (const field of fields) {
    const section = sections.get(field) ?? sectionOf(field);
    sections.set(field, section);
    const body = section.querySelector("div");
    if (isRange(facets[field])) showRange(body, field, facets[field], wish, changed);
    else showValues(body, field, facets, wish, changed);
  }
  const wanted = fields.map((field) => sections.get(field));
  if (wanted.some((section, at) => $("facets").children[at] !== section) || wanted.length !== $("facets").children.length) {
    $("facets").replaceChildren(...wanted);
  }
  if (focused && document.activeElement?.dataset?.key !== focused) {
    const same = [...$("facets").querySelectorAll("input")].find((input) => input.dataset.key === focused);
    (same ?? $("summary")).focus({ preventScroll: true });
  }
}

const isRange = (facet) => facet.min !== undefined;
const hasValues = (facet, wish, field) => Object.keys(facet.values).length || wish.values[field]?.length;

function sectionOf(field) {
  return el("fieldset", { className: "facet" }, el("legend", {}, isolated(field)), el("div"));
}

function showValues(body, field, facets, wish, changed) {
  const chosen = wish.values[field] ?? [];
  const counted = Object.entries(facets[field].values).sort(([, one], [, other]) => other - one); // values like numbers are first
  const gone = chosen.filter((value) => !Object.hasOwn(facets[field].values, value)).map((value) => [value, null]); // not counted
  const all = [...gone, ...counted];
  const shown = all.filter(([value], at) => expanded.has(field) || at < FIRST || chosen.includes(value));
  const choose = (value, on) => {
    const others = (wish.values[field] ?? []).filter((one) => one !== value); // as of now: clicks can be faster than responses
    wish.values[field] = on ? [...others, value] : others;
    changed();
  };
  const rows = shown.map(([value, count]) => valueRow(field, value, count, chosen.includes(value), choose));
  if (all.length > shown.length) {
    const onclick = () => {
      expanded.add(field);
      showFacets(facets, wish, changed);
      body.querySelectorAll("input")[shown.length].focus();
    };
    rows.push(el("button", { className: "plain", type: "button", onclick }, `${all.length - shown.length} more`));
  }
  body.replaceChildren(...rows);
}

function valueRow(field, value, count, checked, choose) {
  const box = el("input", { type: "checkbox", checked });
  box.dataset.key = `${field}=${value}`;
  box.addEventListener("change", () => choose(value, box.checked));
  const counted = el("span", { className: "count" }, count?.toLocaleString() ?? "");
  return el("label", { className: "value" }, box, isolated(value || "(empty)"), counted);
}

function showRange(body, field, facet, wish, changed) {
  if (!body.children.length) body.append(rangeInput(field, "min", "at least"), rangeInput(field, "max", "at most"));
  body.className = "range";
  for (const input of body.querySelectorAll("input")) {
    const end = input.dataset.end;
    input.placeholder = String(facet[end]);
    if (input !== document.activeElement) input.value = wish.ranges[field]?.[end] ?? "";
    input.oninput = () => {
      (wish.ranges[field] ??= {})[end] = input.value;
      clearTimeout(later);
      later = setTimeout(changed, TYPING_MS);
    };
  }
}

function rangeInput(field, end, label) {
  const input = el("input", { type: "number", step: "any", ariaLabel: `${field} ${label}` });
  input.dataset.end = end;
  input.dataset.key = `${field} ${end}`;
  return el("label", {}, label, input);
}
