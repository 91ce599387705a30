"""Fits an attention head to feedback, and measures it on queries that the measured head was not trained on.

Sees a generation and feedback; writes nothing but its journal. `fit` is a generator that yields one record per step, so
that whoever calls it can show, store or stop the work; its return value is the fitted head with its report.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from index.errors import NotEnoughFeedback
from index.evaluation.measures import compare_runs, measure_run
from index.evaluation.significance import Comparison, Decision, gate
from index.generation.generation import Generation
from index.learning.click_model import ClickModel, as_judged, estimate_clicks, held_out_qrels
from index.learning.config import FitConfig, Step
from index.learning.examples import FOLDS, TEST_FOLDS, Example, Feedback, make_batch, make_example, make_examples, split
from index.learning.model_selection import ClickInterpretations, Selection, beats, choose
from index.learning.null_calibration import fit_null, null_evidence
from index.learning.trainer import TrainingSplit, run_trial
from index.learning.trial_cache import Journal, fingerprint
from index.ranking.attention import EVIDENCE, AttentionHead, HeadConfig, initial_parameters
from index.ranking.normalisers import masked
from index.ranking.search import Query, project, search
from index.records import Floats

NULL_QUERIES = 300
HOP_QUERIES = 120
NO_ROOM = 0.99
"""Recall@100 from which on a second hop has nothing to gain."""
MAX_CROSS_FITTED = 600
"""Queries that were learned from and are searched all the same, each by the head of the fold that left it out."""


@dataclass(frozen=True)
class Fitted:
    """The result of a run."""

    head: AttentionHead
    report: dict[str, Any]
    decision: Decision


Steps = Generator[Step, None, Fitted]


def fit(
    generation: Generation,
    feedback: Sequence[Feedback],
    champion: AttentionHead,
    config: FitConfig,
    initial: HeadConfig | None = None,
    journal: Path | None = None,
) -> Steps:
    """Fit a challenger, compare it with the champion on held-out queries, and decide; yields a Step per piece of work.

    born is what the challenger starts from, by default as the champion was born. journal is a folder where finished
    trials are kept: a run that was killed and is called again with it goes on from there. Same generation, feedback,
    champion, config: same bits, killed or not. Raises NotEnoughFeedback.
    """
    learn, test = split([one for one in feedback if one.sessions or any(gain > 0 for gain in one.gains.values())])
    known = sum(any(gain > 0 for gain in one.gains.values()) for one in (*learn, *test))
    if known < config.min_queries or not test or not learn:
        raise NotEnoughFeedback(known, config.min_queries)
    initial = initial or champion.config
    learn = sample(learn, config.max_train_queries, config.seed)
    clicks = estimate_clicks(learn)
    interpretations = yield from _read(generation, learn, initial, clicks, config)
    inputs = _inputs(generation, learn, initial, config) if journal else ""
    choice = yield from choose(generation, interpretations, initial, config, Journal(journal, inputs))
    head = yield from _final(generation, interpretations, choice, initial, config)
    hop = yield from _choose_hop(generation, choice, learn, clicks, config)
    choice = choice.hopping(hop["chosen"])
    head = calibrate_null(
        generation, head.changed(hop=hop["chosen"]), interpretations.examples[choice.recipe.interpretation]
    )
    comparisons, asked = yield from _compare(generation, champion, head, choice, learn, test, clicks, config)
    decision = gate(comparisons["nDCG@10"], comparisons["R@100"])
    report = {
        "queries": {"train": len(learn), "test": len(test)},
        "split": f"by query text into {FOLDS} folds: {TEST_FOLDS} test, the rest train and validation",
        "recipe": choice.as_dict(),
        "config": asdict(config),
        "examination": clicks.as_dict() if any(one.shown is not None for one in learn) else None,
        "hop": hop,
        "held_out": {name: comparison.as_dict() for name, comparison in comparisons.items()},
        "held_out_queries": asked,
        "head": describe(head),
    }
    return Fitted(head, report, decision)


def _inputs(generation: Generation, learn: Sequence[Feedback], initial: HeadConfig, config: FitConfig) -> str:
    """Return a checksum of all that a trial depends on, what is remembered included."""
    vectors = np.stack([one.vector for one in learn])
    arrays = [vectors, generation.keys, generation.alive, *generation.columns.by_name().values()]
    remembered = [(key.query_key, key.row, key.weight) for key in generation.memory.keys]
    return fingerprint(config, initial, *(one.tobytes() for one in arrays), remembered, *learn)


def describe(head: AttentionHead) -> dict[str, Any]:
    """Return a head's scalars, for people."""
    at_birth = AttentionHead(head.config).score.low_rank()
    change = [float(np.linalg.norm(one - old)) for one, old in zip(head.score.low_rank(), at_birth, strict=True)]
    return {
        "form": head.config.form,
        "heads": head.config.heads,
        "beta": {name: round(value, 4) for name, value in zip(EVIDENCE, head.beta.tolist(), strict=True)},
        "temperature": round(float(np.exp(-head.log_inverse_temperature)), 4),
        "sharpness": [round(value, 2) for value in np.exp(head.log_sharpness).tolist()],
        "null": [round(value, 4) for value in head.null.tolist()],
        "memory_gain": round(float(np.exp(head.log_memory_gain)), 4),
        "memory_sharpness": round(float(np.exp(head.log_memory_sharpness)), 4),
        "gates": round(float(np.linalg.norm(head.kind_gate)), 4),
        "hop": round(float(head.hop), 4),
        "query_change": round(float(np.linalg.norm(change)), 4),
    }


def _read(
    generation: Generation, learn: Sequence[Feedback], initial: HeadConfig, clicks: ClickModel, config: FitConfig
) -> Generator[Step, None, ClickInterpretations]:
    """Return the examples of the queries to learn from, once for each way to read clicks (`recipes.Recipe.reading`)."""
    untrained = AttentionHead(initial)
    curve = clicks.examination.curve

    def examples(feedback: Sequence[Feedback], curve: Floats | None) -> list[Example]:
        return make_examples(generation, feedback, lambda e: project(untrained, e), config.candidates, curve)

    read: dict[str, list[Example]] = {"graded": []}
    for at, one in enumerate(learn):
        read["graded"] += examples([as_judged(one, clicks)], curve)
        if at % 50 == 0:
            yield Step("examples", at, len(learn))
    clicked = [one for one in learn if one.shown is not None]
    if clicked:
        query_keys = {one.query_key for one in clicked}
        judged = [one for one in read["graded"] if one.feedback.query_key not in query_keys]
        read["debiased"] = judged + examples(clicked, curve)
        read["naive"] = judged + examples(clicked, None)
    return ClickInterpretations(read, held_out_qrels(learn, clicks), curve)


def _final(
    generation: Generation,
    interpretations: ClickInterpretations,
    choice: Selection,
    initial: HeadConfig,
    config: FitConfig,
) -> Generator[Step, None, AttentionHead]:
    """Return the head of the chosen recipe: fitted to all there is, or the one trial's where one fold validated."""
    if len(choice.trials) == 1:
        return next(iter(choice.trials.values())).head
    if not choice.recipe.weights:
        return AttentionHead(initial)
    lesson = TrainingSplit(
        interpretations.examples[choice.recipe.interpretation],
        (),
        interpretations.qrels,
        interpretations.curve,
    )
    trial = yield from run_trial(generation, lesson, initial, choice.recipe, choice.epochs, config)
    return trial.head


def _choose_hop(
    generation: Generation, choice: Selection, learn: Sequence[Feedback], clicks: ClickModel, config: FitConfig
) -> Generator[Step, None, dict[str, Any]]:
    """Return g of the second hop, 0 unless held-out Recall@100 rises by more than its error and nDCG@10 does not fall.

    Each query is searched by the head of the fold that left it out.
    """
    known = [one for one in learn if choice.head_for(one.query_key) is not None]
    asked = sample(known, HOP_QUERIES, config.seed)
    qrels = held_out_qrels(asked, clicks)
    measured: dict[float, dict[str, dict[str, float]]] = {}
    chosen = 0.0
    for hop in (0.0, *config.hops):
        measured[hop] = measure_run(_cross_searched(generation, choice.hopping(hop), asked), qrels)
        yield Step("hop", len(measured), 1 + len(config.hops))
        before, after = measured[chosen], measured[hop]
        gains = np.asarray([after["R@100"][one] - before["R@100"][one] for one in before["R@100"]])
        risen = beats(gains, config.error_share) and _mean(after["nDCG@10"]) >= _mean(before["nDCG@10"])
        chosen = hop if risen else chosen
        worse = _mean(after["nDCG@10"]) < _mean(before["nDCG@10"])  # and a longer hop loses more
        if worse or _mean(measured[0.0]["R@100"]) >= NO_ROOM:
            break
    tried = {f"{hop:g}": {name: round(_mean(of), 4) for name, of in one.items()} for hop, one in measured.items()}
    return {"chosen": chosen, "queries": len(asked), "tried": tried}


def _cross_searched(generation: Generation, choice: Selection, asked: Sequence[Feedback]) -> dict[str, list[str]]:
    """Return the run of queries, each searched by the head of the fold that left it out."""
    run = {}
    for one in asked:
        head = choice.head_for(one.query_key)
        assert head is not None
        run[one.query_key] = ranked_rows(generation, head, one, 100)
    return run


def calibrate_null(generation: Generation, head: AttentionHead, examples: Sequence[Example]) -> AttentionHead:
    """Return the head with its null slot set so that its weight tells queries with their answer from those without.

    Every query counts twice, with its confirmed documents among the candidates and with them taken out; the logistic
    fit of both is `calibration.fit_null`. The ranking does not depend on it.
    """
    there, gone = [], []
    for one in sample(examples, NULL_QUERIES, 0):
        feedback = replace(one.feedback, shown=None)
        example = make_example(generation, feedback, project(head, feedback.vector), Query.count)
        batch = make_batch(generation, [example])
        logits = head(batch.query, batch.candidates).logits[:, :-1]
        there.append(null_evidence(logits))
        gone.append(null_evidence(masked(logits, batch.gains <= 0)))
    if there:
        found = fit_null(np.concatenate(there), np.concatenate(gone))
        return head.changed(null=[found.offset, found.slope, found.peak])
    return head


def _compare(
    generation: Generation,
    champion: AttentionHead,
    challenger: AttentionHead,
    choice: Selection,
    learn: Sequence[Feedback],
    test: Sequence[Feedback],
    clicks: ClickModel,
    config: FitConfig,
) -> Generator[Step, None, tuple[dict[str, Comparison], dict[str, int]]]:
    """Return the paired comparison on queries searched in full, each by a head that did not train on it.

    Test queries are searched by the challenger. Where the champion is untrained, so that it has learned from no query,
    and every fold validated once, queries to learn from join, each searched by the head of the fold that left it out:
    few queries then suffice to prove a gain. What choosing among recipes flatters is taken off for these.
    """
    test = sample(test, config.max_test_queries, config.seed)
    asked = [(one, challenger) for one in test]
    cross_fitted: list[tuple[Feedback, AttentionHead]] = []
    changed = choice.recipe.weights or challenger.hops
    if changed and len(choice.trials) > 1 and _untrained(champion):
        known = [(one, choice.head_for(one.query_key)) for one in learn]
        cross_fitted = [(one, head) for one, head in known if head is not None]
        cross_fitted = sample(cross_fitted, MAX_CROSS_FITTED, config.seed)
    asked += cross_fitted
    runs: tuple[dict[str, list[str]], dict[str, list[str]]] = ({}, {})
    for at, (one, head) in enumerate(asked):
        runs[0][one.query_key] = ranked_rows(generation, champion, one, 100)
        runs[1][one.query_key] = ranked_rows(generation, head, one, 100)
        if at % 50 == 0:
            yield Step("evaluate", at, len(asked))
    comparisons = compare_runs(*runs, held_out_qrels([one for one, _ in asked], clicks))
    share = len(cross_fitted) / len(asked)
    comparisons["nDCG@10"] = comparisons["nDCG@10"].lowered(share * choice.optimism)
    return comparisons, {"test": len(test), "cross_fitted": len(cross_fitted)}


def _untrained(head: AttentionHead) -> bool:
    """Return whether a head ranks as it was born.

    Its random directions are not compared: at birth they are multiplied by 0, and earlier releases drew others. Nor is
    the last bit of a logarithm.
    """
    initial, other = (
        initial_parameters(head.config),
        initial_parameters(replace(head.config, seed=head.config.seed + 1)),
    )
    values = head.parameters_by_name()
    same_for_all_seeds = [name for name, value in initial.items() if np.array_equal(value, other[name])]
    return all(np.allclose(values[name], initial[name], rtol=1e-6, atol=0) for name in same_for_all_seeds)


def ranked_rows(generation: Generation, head: AttentionHead, one: Feedback, limit: int) -> list[str]:
    """Return the rows found for a query as evaluation sees it: the whole collection, without its own memory.

    Of a query with clicks only what was shown is kept, a condensed list (Sakai 2007): what was never shown was never
    clicked, good or not, and counted as bad it would favour the model that made the lists.
    """
    ranking = search(generation, head, Query(one.text, one.vector), excluded_query=one.query_key)
    rows = generation.rows[ranking.doc_indices].tolist()
    return [str(row) for row in rows if one.shown is None or row in one.shown][:limit]


def sample(items: Sequence[Any], most: int, seed: int) -> list[Any]:
    """Return at most so many of the items, drawn without replacement, in their order."""
    if len(items) <= most:
        return list(items)
    chosen = np.sort(np.random.default_rng(seed).choice(len(items), most, replace=False))
    return [items[i] for i in chosen]


def _mean(values: Mapping[str, float]) -> float:
    return float(np.mean(list(values.values()))) if values else 0.0
