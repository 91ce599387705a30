// The page of queries: what people search, how often they click, and what has no answer.

import { $, attempt, call, collection, el, isolated, percent, svg } from "./page.js";

const DAY = 24 * 60 * 60 * 1000;
const COLUMNS = ["searches", "clients", "with a click", "mean 1 / rank", "no answer"];

function cells({ searches, clients, clicked, reciprocal_rank: rank, unanswered }) {
  const [all, people, none] = [searches, clients, unanswered].map((count) => count.toLocaleString());
  return [all, people, percent(clicked / searches), rank.toFixed(2), none];
}

function fill(table, name, rows) {
  const head = [name, ...COLUMNS].map((text) => el("th", { scope: "col" }, text));
  const body = rows.map(([first, counts]) => {
    return el("tr", {}, el("th", { scope: "row" }, first), ...cells(counts).map((text) => el("td", {}, text)));
  });
  table.replaceChildren(el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...body));
}

function searchFor(q) {
  return el("a", { href: `/?${new URLSearchParams({ c: collection, q })}` }, isolated(q));
}

// Draws a bar for each day: the searches, and the part of them with a click.
function chart(days, since) {
  const at = ({ date }) => Date.parse(date) / DAY;
  const start = since.slice(0, "2026-11-28".length);
  const today = new Date().toISOString().slice(0, start.length);
  const first = at({ date: start });
  const count = Math.max(at({ date: today }), at(days.at(-1))) - first + 1;
  const most = Math.max(...days.map(({ searches }) => searches));
  const label = `Searches a day, at most ${most}; the dark part led to a click`;
  const image = svg("svg", { viewBox: "0 0 600 120", role: "img", "aria-label": label });
  const width = Math.min(600 / count, 40);
  for (const day of days) {
    const bar = svg("g", {});
    const title = svg("title", {});
    title.append(`${day.date}: ${day.searches} searches, ${day.clicked} with a click`);
    const rect = (kind, value) => {
      const height = (116 * value) / most;
      const x = (at(day) - first + 0.1) * width;
      return svg("rect", { class: kind, x, y: 118 - height, width: 0.8 * width, height });
    };
    bar.append(title, rect("all", day.searches), rect("clicked", day.clicked));
    image.append(bar);
  }
  const key = (className, text) => el("span", { className }, text);
  const bounds = [most.toLocaleString(), "0"].map((text) => el("span", { ariaHidden: "true" }, text));
  return el(
    "figure",
    {},
    el("figcaption", {}, el("b", {}, "Searches a day"), key("key", "with a click"), key("key without", "without")),
    el("div", { className: "plot bars" }, ...bounds, image),
    el("p", { className: "quiet" }, `${start} to ${today}, UTC`),
  );
}

function show({ since, total, distinct, queries, days, models }) {
  $("none").hidden = total !== null;
  $("report").hidden = total === null;
  if (total === null) return;
  const figures = [["queries", distinct.toLocaleString()], ...COLUMNS.map((name, at) => [name, cells(total)[at]])];
  $("counts").replaceChildren(...figures.map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text))));
  $("charts").replaceChildren(chart(days, since));
  fill($("by-day"), "day", days.map((one) => [one.date, one]));
  fill($("models"), "model", models.reverse().map((one) => [`model ${one.version}`, one]));
  fill($("queries"), "query", queries.map((one) => [searchFor(one.q), one]));
}

let newest = 0; // number of the newest request: late responses to older ones are dropped

async function load() {
  const mine = ++newest;
  const asked = new URLSearchParams({ days: $("days").value, order: $("order").value });
  const answer = await attempt(() => call("GET", `/queries?${asked}`));
  if (answer && mine === newest) show(answer);
}

const wanted = new URLSearchParams(location.search);
for (const name of ["days", "order"]) {
  const value = wanted.get(name);
  if ([...$(name).options].some((option) => option.value === value)) $(name).value = value;
  $(name).onchange = ({ target }) => {
    wanted.set(name, target.value);
    history.replaceState(null, "", `?${wanted}`);
    load();
  };
}
if ($("error").hidden) load();
