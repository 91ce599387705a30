// The learning page: what the collection holds, how training goes, which model serves and why.

import { $, Problem, attempt, call, el, showError, signed } from "./page.js";

const MEASURE = "nDCG@10";
const SVG = "http://www.w3.org/2000/svg";
const time = (text) => new Date(text).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });

async function refresh() {
  const [state, registry] = await Promise.all([call("GET", ""), call("GET", "/models")]);
  const { keys, ...counts } = state.counts;
  const { query: memory, ...own } = keys;
  const named = Object.entries(own).map(([kind, count]) => [`${kind} keys`, count]);
  const shown = [["documents", counts.documents], ...named, ["memory keys", memory], ["events", counts.events], ["judgments", counts.judgments]];
  if (counts.pending) shown.push(["being indexed", counts.pending]);
  $("counts").replaceChildren(
    ...shown.map(([name, count]) => el("div", {}, el("dt", {}, name), el("dd", {}, count.toLocaleString()))),
  );
  $("champion").replaceChildren("Searches are ranked by ", el("b", {}, `model ${state.champion}`), ".");
  const aliases = Object.entries(registry.aliases);
  const rows = registry.models.map((model) => {
    const names = aliases.filter(([, version]) => version === model.version).map(([name]) => name);
    return modelRow(model, names);
  });
  $("versions").replaceChildren(...rows.reverse());
}

function modelRow({ version, report, decision, created_at, lineage }, names) {
  const held = report.held_out?.[MEASURE];
  const gate = el("td");
  if (decision.checks) {
    const reasons = decision.checks.map((one) => el("li", {}, `${one.passed ? "✓" : "✗"} ${one.reason}`));
    gate.append(el("details", {}, el("summary", {}, decision.promote ? "passed" : "not passed"), el("ul", {}, ...reasons)));
  }
  const serves = names.includes("champion");
  const promote = el("button", { onclick: () => move(() => promoteModel(version)) }, "Promote");
  promote.ariaLabel = `Promote model ${version}`;
  const badges = names.map((name) => el("span", { className: `badge ${name}` }, name));
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, String(version), ...badges.flatMap((badge) => [" ", badge])),
    el("td", {}, time(created_at)),
    el("td", {}, report.recipe?.recipe ?? lineage.kind ?? ""),
    el("td", {}, held ? `${held.a.toFixed(3)} → ${held.b.toFixed(3)} (${held.queries} queries)` : ""),
    el("td", {}, held ? `${signed(held.difference)} [${signed(held.low)}, ${signed(held.high)}]` : ""),
    gate,
    el("td", {}, ...(serves ? [] : [promote])),
  );
}

async function promoteModel(version, force = false) {
  try {
    return await call("PUT", "/models/aliases/champion", { version, reason: "from the web page", force });
  } catch (problem) {
    if (problem.code !== "promotion_gate_failed" || force) throw problem;
    if (window.confirm(`${problem.message}\n\nPromote model ${version} all the same?`)) return promoteModel(version, true);
  }
}

function move(work) {
  return attempt(async () => {
    const moved = await work();
    if (moved) $("told").textContent = `Model ${moved.version} ranks the next search.`;
    await refresh();
  });
}

// The stream tells every step of a run from its first, whether it goes on or has ended.
function follow(run) {
  let steps = [];
  const stream = new EventSource(`/v1/collections/${encodeURIComponent(document.body.dataset.collection)}/training-runs/${run.id}/stream`);
  working(true);
  $("cancel").onclick = () => attempt(() => call("POST", `/training-runs/${run.id}/cancel`));
  stream.onopen = () => (steps = []);
  stream.addEventListener("step", ({ data }) => {
    const step = JSON.parse(data);
    steps.push(step);
    const figures = Object.entries(step).filter(([name]) => !["phase", "done", "total"].includes(name));
    const told = figures.map(([name, value]) => `${name} ${typeof value === "number" ? +value.toFixed(4) : value}`);
    $("status").textContent = [`${step.phase ?? ""} ${step.done ?? ""}/${step.total ?? ""}`, ...told].join(" · ");
    $("progress").value = step.total ? step.done / step.total : 0;
    drawCharts(steps);
  });
  stream.addEventListener("end", ({ data }) => {
    stream.close();
    working(false);
    showOutcome(JSON.parse(data));
    attempt(refresh);
  });
  stream.onerror = () => {
    if (stream.readyState !== EventSource.CLOSED) return; // it connects again by itself
    working(false);
    showError("The training run can no longer be followed; load the page again.");
  };
}

function working(on) {
  $("train").disabled = on;
  $("cancel").hidden = $("progress").hidden = !on;
  if (on) $("outcome").replaceChildren();
}

function showOutcome(run) {
  const made = run.model_version === null ? "" : ` and made model ${run.model_version}`;
  $("status").textContent = `The run of ${time(run.created_at)} ${run.status}${made}.`;
  const lines = run.error ? [new Problem(run.error).message] : (run.decision.reasons ?? []);
  const verdict = run.decision.promoted ? "It is the champion now." : "The champion stayed.";
  $("outcome").replaceChildren(
    ...(run.status === "succeeded" ? [el("p", {}, el("b", {}, verdict))] : []),
    el("ul", {}, ...lines.map((line) => el("li", {}, line))),
  );
}

// One chart for each figure: epochs to the right, a line for each recipe and fold that was tried.
function drawCharts(steps) {
  const fits = Map.groupBy(steps.filter((step) => "loss" in step), (step) => `${step.recipe} ${step.fold ?? "final"}`);
  const charts = ["loss", MEASURE].map((name) => {
    const lines = [...fits.values()].map((fit) => ({ recipe: fit[0].recipe, final: fit[0].phase === "train", values: fit.map((step) => step[name]) }));
    return chart(name, lines.filter((line) => line.values[0] !== undefined));
  });
  $("charts").replaceChildren(...charts.filter(Boolean));
}

function chart(name, lines) {
  if (!lines.length) return null;
  const all = lines.flatMap((line) => line.values);
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const epochs = Math.max(2, ...lines.map((line) => line.values.length));
  const x = (at) => 4 + (292 * at) / (epochs - 1);
  const y = (value) => 116 - (108 * (value - low)) / (high - low || 1);
  const image = svg("svg", { viewBox: "0 0 300 120", role: "img", "aria-label": `${name} by epoch, from ${low.toFixed(3)} to ${high.toFixed(3)}` });
  for (const { recipe, final, values } of lines) {
    const group = svg("g", { class: `${recipe} ${final ? "final" : ""}` });
    group.append(svg("polyline", { points: values.map((value, at) => `${x(at)},${y(value)}`).join(" ") }));
    group.append(...values.map((value, at) => svg("circle", { cx: x(at), cy: y(value), r: 1.6 })));
    image.append(group);
  }
  const recipes = [...new Set(lines.map((line) => line.recipe))];
  const legend = recipes.map((recipe) => el("span", { className: `key ${recipe}` }, recipe));
  return el("figure", {}, el("figcaption", {}, el("b", {}, name), " ", ...legend), 
    el("div", { className: "plot" }, el("span", {}, high.toFixed(3)), el("span", {}, low.toFixed(3)), image),
    el("p", { className: "quiet" }, `epochs 1 to ${epochs}; a line for each fold`));
}

function svg(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

$("train").onclick = () => attempt(async () => follow(await call("POST", "/training-runs", {})));
$("back").onclick = () => move(() => call("POST", "/models/aliases/champion/rollback"));
if ($("error").hidden) {
  attempt(async () => {
    await refresh();
    const { training_runs: runs } = await call("GET", "/training-runs");
    if (runs.length) follow(runs[0]);
  });
}
