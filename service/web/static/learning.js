// The learning page: the counts of the collection, the progress of training, and the models with their reports.

import { $, Problem, attempt, call, collection, el, once, showError, svg } from "./page.js";
import { follow as followEvents } from "./stream.js";

const MEASURE = "nDCG@10";
let endStream = null; // ends the event stream of the run that is shown
// Stored name of a kind or a recipe -> shown name. A head of the recipe `initial` may have trees, priors or a hop.
const SHOWN_NAMES = { birth: "untrained", initial: "initial weights" };
const shownName = (name) => SHOWN_NAMES[name] ?? name;
const time = (text) => new Date(text).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });

async function refresh() {
  const paths = ["", "/models", "/training-runs"];
  const [state, registry, { training_runs: runs, schedule }] = await Promise.all(paths.map((path) => call("GET", path)));
  showSchedule(schedule);
  const { keys, ...counts } = state.counts;
  const { query: memory, ...own } = keys;
  const named = Object.entries(own).map(([kind, count]) => [`${kind} keys`, count]);
  const shown = [["documents", counts.documents], ...named, ["memory keys", memory]];
  shown.push(["events", counts.events], ["judgments", counts.judgments]);
  if (counts.pending) shown.push(["pending documents", counts.pending]);
  $("counts").replaceChildren(
    ...shown.map(([name, count]) => el("div", {}, el("dt", {}, name), el("dd", {}, count.toLocaleString()))),
  );
  $("retention").textContent = retention(state.settings);
  $("champion").replaceChildren("The champion is ", el("b", {}, `model ${state.champion}`), ".");
  const aliases = Object.entries(registry.aliases);
  const models = registry.models.map((model) => {
    const names = aliases.filter(([, version]) => version === model.version).map(([name]) => name);
    return modelElement(model, names);
  });
  $("versions").replaceChildren(...models.reverse());
  return runs;
}

// How long raw queries, events and memory are kept, in words.
function retention({ retention_days: days, memory_retention_days: memoryDays }) {
  const raw = days === null ? "until they are erased" : `${days} days`;
  const memory = memoryDays === null ? "without a limit" : `${memoryDays} days`;
  return `Raw queries and events are kept ${raw}; memory of clicks is kept ${memory}.`;
}

// Shows when the next run starts by itself, and what is missing for it.
function showSchedule(schedule) {
  $("schedule").hidden = schedule === null;
  if (schedule === null) return;
  const { every_hours: hours, min_new_queries: need, new_queries: have, missing } = schedule;
  $("schedule").textContent =
    `Trains by itself, at most every ${hours} hours, when ${need} queries have new feedback; now ${have}. ` +
    (missing ?? "The next run starts within half a minute.");
}

function modelElement({ version, report, decision, created_at, lineage }, names) {
  const badges = names.map((name) => el("span", { className: `badge ${name}` }, name));
  const name = shownName(report.recipe?.recipe ?? lineage.kind);
  const origin = el("span", { className: "quiet" }, `${name}, ${time(created_at)}`);
  const onclick = () => changeChampion(() => promoteModel(version));
  const promote = el("button", { onclick, ariaLabel: `Promote model ${version}` }, "Promote");
  const head = el("div", { className: "row" }, el("b", {}, `Model ${version}`), ...badges, origin);
  if (!names.includes("champion")) head.append(promote);
  const element = el("li", {}, head);
  const comparison = report.held_out?.[MEASURE];
  if (comparison) {
    element.append(el("p", {}, `Held-out ${MEASURE}: ${heldOut(comparison)} on ${comparison.queries} queries`));
  }
  if (decision.checks) {
    const test = lineage.kind === "documents" ? "Guard" : "Gate";
    const verdict = el("summary", {}, `${test}: ${decision.promote ? "passed" : "not passed"}${level(decision)}`);
    element.append(el("details", {}, verdict, reasons(decision)));
  }
  const facts = fitFacts(report);
  if (facts.length) {
    const lines = facts.map((fact) => el("li", {}, fact));
    element.append(el("details", {}, el("summary", {}, "Fit"), el("ul", { className: "reasons" }, ...lines)));
  }
  return element;
}

// The facts of a report about the fit of a model, as lines. Reports of earlier versions have fewer facts.
function fitFacts(report) {
  const { recipe, head, hop, trees, priors, context, examination } = report;
  const { held_out_queries: queries, train_seconds: seconds, documents, made_queries: made, balance } = report;
  const facts = [];
  const number = (value) => String(+value.toFixed(4));
  if (recipe?.epochs !== undefined) {
    facts.push(`Epochs: ${recipe.epochs}; click interpretation: ${recipe.reading ?? "graded"}`);
  }
  if (head && !Array.isArray(head.beta)) {
    const weights = Object.entries(head.beta).map(([part, weight]) => `${part} ${number(weight)}`);
    facts.push(`Weights of the evidence: ${weights.join(", ")}`);
  }
  if (documents !== undefined) {
    facts.push(`Made from ${documents} documents without feedback; ${made} made queries checked it`);
    facts.push(`Balance of words and meaning: ${balance.map(number).join(", ")}`);
  }
  if (hop) facts.push(`Second hop: ${hop.chosen ? number(hop.chosen) : "none, because validation did not improve"}`);
  const none = ({ validation_ndcg: tried = {} }) =>
    "none" + (Object.keys(tried).length ? ", because validation did not improve" : "");
  if (trees) facts.push(`Trees: ${trees.chosen || none(trees)}`);
  if (priors) facts.push(`Documents with a prior: ${priors.chosen ? priors.documents : none(priors)}`);
  if (priors?.fields?.length) {
    facts.push(`Preferred on any query: ${priors.fields.slice(0, 5).map(preference).join("; ")}`);
  }
  if (context?.queries) facts.push(`Context: ${context.chosen || "none, because held-out queries did not improve"}`);
  if (examination) facts.push(`Estimate of position bias: ${examination.method}`);
  if (queries) facts.push(`Held-out queries: ${queries.test} test, ${queries.cross_fitted} cross-fitted`);
  const lowered = Object.entries(report.held_out ?? {}).filter(([, one]) => one.subtracted);
  if (lowered.length) {
    const amounts = lowered.map(([measure, one]) => `${measure} ${number(one.subtracted)}`);
    facts.push(`Subtracted for choices on the same queries: ${amounts.join(", ")}`);
  }
  if (recipe?.skipped?.length) facts.push(`Recipes skipped because of the budget: ${recipe.skipped.join("; ")}`);
  if (seconds !== undefined) facts.push(`Trained in ${seconds.toFixed(1)} s`);
  return facts;
}

// What people prefer by a field of the metadata, with the difference of logits.
function preference({ field, value, knots, effect }) {
  const signed = (effect < 0 ? "−" : "+") + Math.abs(effect).toFixed(2);
  if (!knots) return `${field} ${value} ${signed}`;
  const byEffect = [...knots].sort((one, other) => one[1] - other[1]);
  return `${field} ${byEffect.at(-1)[0]} over ${byEffect[0][0]} ${signed}`;
}

function heldOut({ a, b, difference, low, high }) {
  const signed = (value) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(3);
  return `champion ${a.toFixed(3)} → challenger ${b.toFixed(3)}, ${signed(difference)} [${signed(low)}, ${signed(high)}]`;
}

// The level of a decision that was not the first against its champion.
function level({ earlier_decisions: earlier, level }) {
  if (!earlier) return "";
  return ` (decision ${earlier + 1} against this champion: the level of p is ${level.toPrecision(2)}, half of it for each of two measures)`;
}

function reasons({ checks = [], reasons = [] }) {
  const sign = (reason) => ({ true: "✓ ", false: "✗ " })[checks.find((check) => check.reason === reason)?.passed] ?? "";
  return el("ul", { className: "reasons" }, ...reasons.map((reason) => el("li", {}, sign(reason) + reason)));
}

async function promoteModel(version, force = false) {
  try {
    return await call("PUT", "/models/aliases/champion", { version, reason: "from the web page", force });
  } catch (problem) {
    if (problem.code !== "promotion_gate_failed" || force) throw problem;
    if (window.confirm(`${problem.message}\n\nPromote model ${version} anyway?`)) return promoteModel(version, true);
  }
}

// The pressed button is removed with the old list of models, so the focus moves to what has been done.
function changeChampion(work) {
  return once([$("rollback"), ...$("versions").querySelectorAll("button")], () =>
    attempt(async () => {
      const alias = await work();
      if (!alias) return;
      $("promoted").textContent = `Model ${alias.version} ranks the next search.`;
      await refresh();
      if (document.activeElement === document.body) $("promoted").focus();
    }),
  );
}

// Shows a run. The stream sends all steps from the first, for running and ended runs.
function follow(run) {
  let steps = [];
  const runs = `/v1/collections/${encodeURIComponent(collection)}/training-runs`;
  endStream?.();
  working(true);
  $("cancel").onclick = () => attempt(() => call("POST", `/training-runs/${run.id}/cancel`));
  const opened = () => (steps = []);
  const step = (data) => {
    const newest = JSON.parse(data);
    steps.push(newest);
    const figures = Object.entries(newest).filter(([name]) => !["phase", "done", "total", "trial"].includes(name));
    const shown = figures.map(([name, value]) => {
      const text = typeof value === "number" ? +value.toFixed(4) : value;
      return `${name} ${name === "recipe" ? shownName(text) : text}`;
    });
    $("status").textContent = [`${newest.phase ?? ""} ${newest.done ?? ""}/${newest.total ?? ""}`, ...shown].join(" · ");
    $("progress").value = newest.total ? newest.done / newest.total : 0;
    drawCharts(steps);
  };
  const end = (data) => {
    mine();
    working(false);
    showOutcome(JSON.parse(data));
    attempt(refresh);
  };
  const lost = () => {
    working(false);
    showError("The connection to the training run is lost. Load the page again.");
  };
  const mine = (endStream = followEvents(`${runs}/${run.id}/stream`, { opened, step, end, lost }));
}

function working(on) {
  const own = ["train", "budget", "interpretation", "cancel"].map($);
  const hasFocus = own.includes(document.activeElement);
  for (const one of own.slice(0, 3)) one.disabled = on;
  $("cancel").hidden = $("progress").hidden = !on;
  if (hasFocus) $(on ? "cancel" : "train").focus({ preventScroll: true });
  if (on) $("outcome").replaceChildren();
}

function showOutcome(run) {
  const made = run.model_version === null ? "" : `, model ${run.model_version}`;
  const resumed = run.resumptions > 0 ? `, resumed ${run.resumptions} times` : "";
  const by = run.started_by === "request" ? "" : `, started by itself: ${run.reason}`;
  const origin = (run.learn_from === "documents" ? ", a model of the documents" : "") + by;
  $("status").textContent = `Run of ${time(run.created_at)}: ${run.status}${made}${resumed}${origin}.`;
  const verdict = run.decision.promoted ? "The model is the new champion." : "The champion did not change.";
  $("outcome").replaceChildren(
    ...(run.status === "succeeded" ? [el("p", {}, el("b", {}, verdict)), reasons(run.decision)] : []),
    ...(run.error ? [el("p", {}, new Problem(run.error).message)] : []),
  );
}

// Groups the steps by trial. The first epoch starts a new trial, also after the restart of a killed trial.
function trials(steps) {
  const fits = [];
  for (const step of steps.filter((step) => "loss" in step)) {
    if (step.done === 1 || !fits.length) fits.push([]);
    fits.at(-1).push(step);
  }
  return fits;
}

// Draws a chart for each figure by epoch, with a line for each trial (a recipe on a fold).
function drawCharts(steps) {
  const fits = trials(steps);
  const lines = (name) =>
    fits
      .filter((fit) => name in fit[0])
      .map((fit) => ({ recipe: fit[0].recipe, last: fit[0].phase === "train", values: fit.map((step) => step[name]) }));
  $("charts").replaceChildren(...(fits.length ? ["loss", MEASURE].map((name) => chart(name, lines(name))) : []));
}

function chart(name, lines) {
  const all = lines.flatMap((line) => line.values);
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const epochs = Math.max(2, ...lines.map((line) => line.values.length));
  const x = (at) => 4 + (292 * at) / (epochs - 1);
  const y = (value) => 116 - (112 * (value - low)) / (high - low || 1);
  const label = `${name} by epoch, from ${low.toFixed(3)} to ${high.toFixed(3)}`;
  const image = svg("svg", { viewBox: "0 0 300 120", role: "img", "aria-label": label });
  for (const { recipe, last, values } of lines) {
    const line = svg("polyline", { points: values.map((value, at) => `${x(at)},${y(value)}`).join(" ") });
    const dots = values.map((value, at) => svg("circle", { cx: x(at), cy: y(value), r: 1.6 }));
    const group = svg("g", { class: last ? `${recipe} last` : recipe });
    group.append(line, ...dots);
    image.append(group);
  }
  const recipes = [...new Set(lines.map((line) => line.recipe))];
  const legend = recipes.map((recipe) => el("span", { className: `key ${recipe}` }, shownName(recipe)));
  const bounds = [high, low].map((value) => el("span", { ariaHidden: "true" }, value.toFixed(3)));
  return el(
    "figure",
    {},
    el("figcaption", {}, el("b", {}, name), ...legend),
    el("div", { className: "plot" }, ...bounds, image),
    el("p", { className: "quiet" }, `epochs 1 to ${epochs}, a line for each trial`),
  );
}

$("train").onclick = () => {
  if (!$("budget").reportValidity()) return;
  const body = { budget_seconds: $("budget").valueAsNumber, click_reading: $("interpretation").value };
  once([$("train")], () => attempt(() => call("POST", "/training-runs", body))).then((run) => run && follow(run));
};
$("rollback").onclick = ({ detail: clicks }) => {
  if (clicks < 2) changeChampion(() => call("POST", "/models/aliases/champion/rollback")); // a double click goes back once
};
if ($("error").hidden) {
  attempt(async () => {
    const runs = await refresh();
    if (runs.length) follow(runs[0]);
  });
}
