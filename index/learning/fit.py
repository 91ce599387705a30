"""Fits an attention head to feedback, and measures it on queries that the measured head was not trained on.

Reads a generation and feedback, and writes only its trial cache. `fit` is a generator that yields one record per step,
so that the caller can show, store or stop the work. It returns the fitted head with its report.
"""

from collections.abc import Generator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from index.errors import NotEnoughFeedback
from index.evaluation.significance import Decision
from index.generation.generation import Generation
from index.learning.click_model import ClickModel, as_judged, estimate_clicks, held_out_qrels, highest_hash
from index.learning.config import EXPLORED, FitConfig, Step
from index.learning.context_selection import not_worse_in_context, select_context
from index.learning.examples import (
    FOLDS,
    TEST_FOLDS,
    Example,
    Feedback,
    make_examples,
    split,
)
from index.learning.explored_examples import make_explored_examples
from index.learning.field_effects import Label
from index.learning.held_out import Choices, compare_heads, sample, select_hop
from index.learning.held_out_attention import attention_before_and_after
from index.learning.model_selection import ClickInterpretations, Selection, select
from index.learning.null_slot import calibrate_null
from index.learning.prior_selection import select_priors
from index.learning.trainer import run_trial
from index.learning.tree_selection import select_trees
from index.learning.trial_cache import TrialCache, fingerprint
from index.ranking.attention import EVIDENCE, AttentionHead, HeadConfig
from index.ranking.search import project
from index.records import Floats


@dataclass(frozen=True)
class Fitted:
    """The result of a run."""

    head: AttentionHead
    report: dict[str, Any]
    decision: Decision
    clicks: ClickModel | None = None
    """The click model of the run's log; None for a run without feedback."""


Steps = Generator[Step, None, Fitted]


def fit(
    generation: Generation,
    feedback: Sequence[Feedback],
    champion: AttentionHead,
    config: FitConfig,
    initial: HeadConfig | None = None,
    cache: Path | None = None,
    earlier_decisions: int = 0,
    new: Set[int] = frozenset(),
    labels: Mapping[int, Label] = MappingProxyType({}),
    newer: Set[int] = frozenset(),
) -> Steps:
    """Fit a challenger, compare it with the champion on held-out queries, and decide; yields a Step per piece of work.

    initial is the configuration that the challenger starts from, by default the champion's. cache is a folder for
    finished trials: a killed run that is called again with it resumes. earlier_decisions: how often the gate has
    already compared a challenger with this champion; each decision makes the next one stricter. new: the rows of the
    documents that are newer than all documents that the lists of the feedback show. labels: of the keys of metadata
    that may have an effect (`field_effects.labels_of`). newer: the rows of the documents that are newer than all
    documents that the feedback names. Same inputs: same bits, resumed or not. Raises NotEnoughFeedback.
    """
    learn, test = split([one for one in feedback if one.sessions or any(gain > 0 for gain in one.gains.values())])
    silent, _ = split([one for one in feedback if one.is_silent])
    known = sum(any(gain > 0 for gain in one.gains.values()) for one in (*learn, *test))
    if known < config.min_queries:
        raise NotEnoughFeedback(known, config.min_queries)
    for side, name in ((learn, "training"), (test, "held-out")):
        if not side:  # the text of a query decides on which side it is
            raise NotEnoughFeedback(0, 1, f"{name} queries with a confirmed document")
    initial = replace(initial or champion.config, trees=0, priors=0, fields=(0, 0))
    clicks = estimate_clicks([*learn, *silent], highest_hash(feedback))
    clicked = sum(one.shown is not None for one in learn)
    learn = sample(learn, config.max_train_queries, config.seed)
    explored = _explored(feedback, config)
    interpretations = yield from _interpret(generation, learn, initial, clicks, config, explored)
    inputs = _inputs(generation, [*learn, *explored], clicks, initial, config) if cache else ""
    selection = yield from select(generation, interpretations, initial, config, TrialCache(cache, inputs))
    head = yield from _final(generation, interpretations, selection, initial, config)
    hop = yield from select_hop(generation, selection, learn, clicks, config)
    trees = yield from select_trees(generation, hop.applied(selection), interpretations, config)
    without_priors = trees.applied(hop.applied(selection))
    priors = yield from select_priors(generation, without_priors, interpretations, config, labels, newer)
    choices = Choices(selection, hop, trees, priors)
    grown = (head if hop.chosen is None else head.changed(hop=hop.chosen)).grown(trees.trees)
    grown = grown.preferring(priors.priors)
    curve = clicks.examination.curve
    context = yield from select_context(generation, choices.applied, grown, learn, test, curve, config)
    grown = grown.changed(context=context.chosen)
    head = calibrate_null(generation, grown, learn, choices.applied.head_for)
    held_out = yield from compare_heads(generation, champion, head, choices, learn, test, clicks, config, new)
    report = {
        "queries": {"train": len(learn), "test": len(test)}
        | (
            {"explored": len(explored), "explored_lists": sum(len(one.explored) for one in explored)}
            if explored
            else {}
        ),
        "split": f"by query text into {FOLDS} folds: {TEST_FOLDS} test, the rest train and validation",
        "recipe": selection.as_dict(),
        "config": asdict(config),
        "examination": clicks.as_dict() if clicked else None,
        "hop": hop.as_dict(),
        "trees": trees.as_dict(),
        "priors": priors.as_dict(),
        "context": context.as_dict(),
        "held_out": {name: comparison.as_dict() for name, comparison in held_out.comparisons.items()},
        "held_out_queries": held_out.counts,
        "attention": attention_before_and_after(generation, champion, head, held_out.most_changed),
        "head": describe(head),
    }
    in_context = not_worse_in_context(generation, champion, head, test, curve, config)
    return Fitted(head, report, held_out.decide(earlier_decisions).with_check(in_context), clicks)


def describe(head: AttentionHead) -> dict[str, Any]:
    """Return the scalars of a head for a report."""
    initial = AttentionHead(head.config).score.low_rank()
    change = [float(np.linalg.norm(new - old)) for new, old in zip(head.score.low_rank(), initial, strict=True)]
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
        "value_change": round(float(np.linalg.norm(up)), 4) if (up := head.value_projection[0]) is not None else 0.0,
        "context": round(float(head.context), 4),
        "trees": len(head.trees),
        "priors": len(head.priors),
        "field_priors": sum(head.priors.fields.shape),
        "query_change": round(float(np.linalg.norm(change)), 4),
    }


def _inputs(
    generation: Generation, learn: Sequence[Feedback], clicks: ClickModel, initial: HeadConfig, config: FitConfig
) -> str:
    """Return a checksum of all inputs of a trial, memory included."""
    vectors = np.stack([one.vector for one in learn])
    arrays = [vectors, generation.keys, generation.alive, *generation.columns.by_name().values()]
    memory = [(key.query_key, key.row, key.weight) for key in generation.memory.keys]
    return fingerprint(config, initial, clicks, *(array.tobytes() for array in arrays), memory, *learn)


def _explored(feedback: Sequence[Feedback], config: FitConfig) -> list[Feedback]:
    """Return the training queries with explored lists, none unless the run learns from them.

    Raises NotEnoughFeedback with fewer than `config.min_explored` lists.
    """
    if EXPLORED not in config.interpretations:
        return []
    learn, _ = split([one for one in feedback if one.explored])
    lists = sum(len(one.explored) for one in learn)
    if lists < config.min_explored:
        raise NotEnoughFeedback(lists, config.min_explored, "explored lists of training queries")
    return sample(learn, config.max_train_queries, config.seed)


def _interpret(
    generation: Generation,
    learn: Sequence[Feedback],
    initial: HeadConfig,
    clicks: ClickModel,
    config: FitConfig,
    explored: Sequence[Feedback] = (),
) -> Generator[Step, None, ClickInterpretations]:
    """Return the examples of the training queries for each interpretation of clicks (`Recipe.interpretation`)."""
    untrained = AttentionHead(initial)
    curve = clicks.examination.curve

    def examples(feedback: Sequence[Feedback], curve: Floats | None) -> list[Example]:
        return make_examples(generation, feedback, lambda e: project(untrained, e), config.candidates, curve)

    interpreted: dict[str, list[Example]] = {"graded": []}
    for at, one in enumerate(learn):
        interpreted["graded"] += examples([as_judged(one, clicks)], curve)
        if at % 50 == 0:
            yield Step("examples", at, len(learn))
    clicked = [one for one in learn if one.shown is not None]
    if clicked:
        query_keys = {one.query_key for one in clicked}
        judged = [one for one in interpreted["graded"] if one.feedback.query_key not in query_keys]
        interpreted["debiased"] = judged + examples(clicked, curve)
        interpreted["naive"] = judged + examples(clicked, None)
    if explored:
        initial_vectors = partial(project, untrained)
        interpreted[EXPLORED] = make_explored_examples(generation, explored, initial_vectors, config.candidates)
    return ClickInterpretations(interpreted, held_out_qrels(learn, clicks), curve)


def _final(
    generation: Generation,
    interpretations: ClickInterpretations,
    selection: Selection,
    initial: HeadConfig,
    config: FitConfig,
) -> Generator[Step, None, AttentionHead]:
    """Return the selected recipe's head: trained on all examples, or the head of the trial if there is only one."""
    if len(selection.trials) == 1:
        return next(iter(selection.trials.values())).head
    if not selection.recipe.weights:
        return AttentionHead(initial)
    data = interpretations.split_for(selection.recipe)
    trial = yield from run_trial(generation, data, initial, selection.recipe, selection.epochs, config)
    return trial.head
