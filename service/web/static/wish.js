// What the user asks for: the query with its filters, order, mode and model. It is read from the address of the page and
// written to it, and makes the requests.

import { collection } from "./page.js";

export const LIMIT = 10;
export const MOST_CHARACTERS = 2048; // of a query
const MODES = ["hybrid", "dense", "words"];
const MAX_FACETS = 16; // fields that a search may count

const named = () => Object.create(null); // by names of fields, of which "__proto__" may be one

export function emptyWish(q = "") {
  return { q, sort: "", mode: "hybrid", model: "champion", literal: false, typos: true, values: named(), ranges: named() };
}

export function wishFrom(address) {
  const given = new URLSearchParams(address);
  const wish = emptyWish(given.get("q") ?? "");
  for (const name of ["sort", "mode", "model"]) wish[name] = given.get(name) || wish[name];
  if (!MODES.includes(wish.mode)) wish.mode = "hybrid";
  wish.literal = given.get("operators") === "off";
  wish.typos = given.get("typos") !== "off";
  for (const [name, value] of given) {
    const [kind, ...rest] = name.split(".");
    const field = rest.join(".");
    if (!field) continue;
    if (kind === "is") (wish.values[field] ??= []).push(value);
    if (kind === "min" || kind === "max") (wish.ranges[field] ??= {})[kind] = value;
  }
  return wish;
}

export function addressOf(wish) {
  const address = new URLSearchParams({ c: collection, q: wish.q });
  const usual = emptyWish();
  for (const name of ["sort", "mode", "model"]) if (wish[name] !== usual[name]) address.set(name, wish[name]);
  if (wish.literal) address.set("operators", "off");
  if (!wish.typos) address.set("typos", "off");
  for (const [field, values] of Object.entries(wish.values)) for (const one of values) address.append(`is.${field}`, one);
  for (const [field, range] of Object.entries(wish.ranges)) {
    for (const end of ["min", "max"]) if (range[end]) address.set(`${end}.${field}`, range[end]);
  }
  return `?${address}`;
}

const quoted = (text) => `"${text.replace(/["\\]/g, "\\$&")}"`;
const isNumber = (text) => text !== undefined && text !== "" && Number.isFinite(Number(text));

// Returns the filter of a wish, without the conditions on the field `left`.
export function filterOf(wish, left) {
  const conditions = [];
  for (const [field, values] of Object.entries(wish.values)) {
    if (field !== left && values.length) conditions.push(`${quoted(field)} IN [${values.map(quoted).join(", ")}]`);
  }
  for (const [field, { min, max }] of Object.entries(wish.ranges)) {
    if (field === left) continue;
    if (isNumber(min)) conditions.push(`${quoted(field)} >= ${Number(min)}`);
    if (isNumber(max)) conditions.push(`${quoted(field)} <= ${Number(max)}`);
  }
  return conditions.join(" AND ");
}

export function filteredFields(wish) {
  const ranged = Object.entries(wish.ranges).filter(([, { min, max }]) => isNumber(min) || isNumber(max));
  const valued = Object.entries(wish.values).filter(([, values]) => values.length);
  return [...new Set([...valued, ...ranged].map(([field]) => field))];
}

// Returns a search without its impression. The answer has snippets and no whole texts.
export function searchOf(wish, filterable, offset = 0) {
  const filter = filterOf(wish);
  const request = {
    ...readingOf(wish),
    offset,
    limit: LIMIT,
    fields: ["title", "url", "metadata"],
    snippet: true,
    log: false,
  };
  if (filter) request.filter = filter;
  if (wish.sort) request.sort = [wish.sort];
  if (filterable.length && !offset) {
    request.facets = filterable.slice(0, MAX_FACETS);
    request.count = true; // facets have counted these documents already
  }
  return request;
}

// Returns a search without what counts the documents of the whole collection.
export const withoutCounts = ({ facets, count, ...request }) => request;

// Returns a search that counts the values of a field without the conditions on that field, so that others can be chosen.
export function countOf(wish, field) {
  const filter = filterOf(wish, field);
  const request = { ...readingOf(wish), limit: 1, facets: [field], fields: [], log: false };
  return filter ? { ...request, filter } : request;
}

function readingOf({ q, mode, model, literal, typos }) {
  const request = { q, mode, prefix: "last", operators: !literal };
  request.model = /^\d+$/.test(model) ? Number(model) : model;
  return typos ? request : { ...request, typos: false };
}
