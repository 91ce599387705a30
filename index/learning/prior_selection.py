"""The choice of the penalty of the priors of documents, on queries that neither the head nor the priors were fitted to.

As trees, priors are fitted to cross-fitted logits (`tree_selection`). Their logits are without the memory of the
queries that measure them: a click by chance on such a query would raise the logit of its document on other queries,
which would then seem to speak against the document.
"""

from collections.abc import Generator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from index.candidates.distinct import distinct
from index.generation.generation import Generation
from index.learning.click_likelihood import CLICKS
from index.learning.config import AVERAGED_OF, FitConfig, Step
from index.learning.examples import TEST_FOLDS, Example, fold_of
from index.learning.field_effects import DocumentColumns, FieldColumns, Label, described
from index.learning.model_selection import NDCG, ClickInterpretations, Selection
from index.learning.optimism import once
from index.learning.ordered_choice import Doubles, choose, overestimate
from index.learning.prior_fit import Residuals, candidate_logits, fit_priors, hashes_of
from index.learning.validation_groups import MIN_QUERIES, groups_of, measure_logits, measures_of
from index.memory.query_key import is_anonymous
from index.ranking.attention import AttentionHead
from index.ranking.priors import Priors, no_priors
from index.ranking.retrieval import CandidateSet
from index.records import Floats

HELD_OUT = frozenset(range(TEST_FOLDS))


@dataclass(frozen=True)
class PriorChoice:
    """The priors of the final head, the priors of the heads of cross-validation by fold, and the measures."""

    priors: Priors
    by_fold: Mapping[int, Priors]
    tried: Mapping[float, Doubles]
    """Penalty -> nDCG@10 (queries,); infinity is no priors."""
    penalty: float | None
    """The chosen penalty, None for no priors."""
    optimism: Mapping[str, float]
    """Measure -> the overestimate of the gain, which comes from the choice on the same queries."""
    labels: Mapping[int, Label] = field(default_factory=dict)
    """The labels of the keys of metadata."""

    def applied(self, selection: Selection) -> Selection:
        """Return the selection whose heads have the priors that were not fitted to their fold."""
        if self.penalty is None:
            return selection
        return selection.with_heads(
            {fold: one.head.preferring(self.by_fold[fold]) for fold, one in selection.trials.items()}
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the choice for a training record."""
        tried = {f"{penalty:g}": round(float(values.mean()), 4) for penalty, values in self.tried.items()}
        return {
            "chosen": self.penalty,
            "documents": len(self.priors),
            "fields": described(self.priors.fields, self.labels),
            "validation_ndcg": tried,
            "optimism": round(self.optimism.get(NDCG, 0.0), 5),
        }


NO_PRIORS = PriorChoice(no_priors(), {}, {}, None, {})


def select_priors(
    generation: Generation,
    selection: Selection,
    interpretations: ClickInterpretations,
    config: FitConfig,
    labels: Mapping[int, Label] = MappingProxyType({}),
    newer: Set[int] = frozenset(),
) -> Generator[Step, None, PriorChoice]:
    """Return the chosen priors: none, unless they beat the head without them as a richer recipe must.

    They are fitted to judgments, and to clicks among the documents shown: a document that was never shown is not to be
    lowered for it. Smaller penalties are richer. What decides is nDCG@10 plus the log likelihood per click, as for
    recipes. There are no priors for other interpretations of clicks, or with fewer than MIN_QUERIES examples. labels:
    of the keys of metadata that may have an effect. newer: the rows of the documents that were first stored after all
    documents that the feedback names.
    """
    examples = interpretations.examples.get("debiased", interpretations.examples["graded"])
    read = not set(AVERAGED_OF).isdisjoint(selection.recipe.readings)
    if not config.priors or not read or len(examples) < MIN_QUERIES or not selection.trials:
        return NO_PRIORS
    groups, penalties = groups_of(selection), sorted(config.priors, reverse=True)
    if len(groups) > 1:
        examples = [one for one in examples if selection.head_for(one.feedback.query_key) is not None]
    documents = distinct(np.concatenate([one.candidates.doc_indices for one in examples]))
    columns = DocumentColumns.of(generation, FieldColumns.of(generation, labels), documents)
    steps = len(groups) + 1
    fitted: list[list[Priors]] = []
    found: list[list[dict[str, Doubles]]] = []
    for at, (folds, head) in enumerate(groups):
        inside, others = _divided(examples, folds)
        logits = _cross_fitted(generation, selection, head, others, folds | HELD_OUT)
        residuals = Residuals.of(generation, others, logits, columns, newer)
        fitted.append([no_priors(), *(fit_priors(residuals, penalty) for penalty in penalties)])
        logits = candidate_logits(generation, head, inside)
        found.append([_measured(generation, inside, logits, priors, interpretations) for priors in fitted[-1]])
        yield Step("priors", at + 1, steps)
    measures = measures_of(list(zip(*found, strict=True)))
    ndcg = measures[NDCG]
    values = [own + np.nan_to_num(likelihood) for own, likelihood in zip(ndcg, measures[CLICKS], strict=True)]
    place = int(choose(values, once(len(values[0])), config.error_share)[0])
    tried = dict(zip((np.inf, *penalties), ndcg, strict=True))
    optimism = overestimate(values, measures, place, config)
    if not place:
        return PriorChoice(no_priors(), {}, tried, None, optimism)
    final = fitted[0][place]
    if len(groups) > 1:
        logits = _cross_fitted(generation, selection, groups[0][1], examples, HELD_OUT)
        final = fit_priors(Residuals.of(generation, examples, logits, columns, newer), penalties[place - 1])
    by_fold = {fold: own[place] for (folds, _), own in zip(groups, fitted, strict=True) for fold in folds}
    yield Step("priors", steps, steps)
    return PriorChoice(final, by_fold, tried, penalties[place - 1], optimism, labels)


def _divided(examples: Sequence[Example], folds: frozenset[int]) -> tuple[list[Example], list[Example]]:
    """Return the examples whose query is in one of the folds, and the others."""
    inside = [one for one in examples if fold_of(one.feedback.query_key) in folds]
    return inside, [one for one in examples if fold_of(one.feedback.query_key) not in folds]


def _cross_fitted(
    generation: Generation,
    selection: Selection,
    other: AttentionHead,
    examples: Sequence[Example],
    without: frozenset[int],
) -> list[Floats]:
    """Return the logits (N,) of each example by the head that did not train on it, without the memory of some folds.

    other: the head of examples for which there is none, the training queries of a single trial.
    """
    forgetful = _forgetful(generation, examples, without)
    heads = [selection.head_for(one.feedback.query_key) or other for one in examples]
    found: dict[int, Floats] = {}
    for head in {id(head): head for head in heads}.values():
        own = [at for at, of in enumerate(heads) if of is head]
        logits = candidate_logits(generation, head, [forgetful[at] for at in own])
        found |= dict(zip(own, logits, strict=True))
    return [found[at] for at in range(len(examples))]


def _forgetful(generation: Generation, examples: Sequence[Example], folds: frozenset[int]) -> list[Example]:
    """Return the examples without the memory of the queries of these folds, and without anonymous memory.

    The fold of an anonymous past query is not known.
    """
    every = distinct(np.concatenate([np.empty(0, np.int64), *(one.candidates.memory_key for one in examples)]))
    names = (generation.memory.query_key_of(key) for key in every.tolist())
    kept = every[[not is_anonymous(name) and fold_of(name) not in folds for name in names]]

    def without(candidates: CandidateSet) -> CandidateSet:
        keep = np.isin(candidates.memory_key, kept)
        return replace(candidates, **{name: getattr(candidates, name)[keep] for name in MEMORY})

    return [replace(one, candidates=without(one.candidates)) for one in examples]


MEMORY = ("memory_key", "memory_candidate", "memory_cosine", "memory_weight", "memory_same")


def _measured(
    generation: Generation,
    examples: Sequence[Example],
    logits: Sequence[Floats],
    priors: Priors,
    interpretations: ClickInterpretations,
) -> dict[str, Doubles]:
    """Return the measures (queries,) with these priors, as `measure_logits` does; `RANKS` is the gain by them."""
    raised = [own + _priors_of(generation, one, priors) for own, one in zip(logits, examples, strict=True)]
    return measure_logits(generation, examples, raised, interpretations, logits)


def _priors_of(generation: Generation, example: Example, priors: Priors) -> Floats:
    """Return the priors (N,) of the candidates of an example."""
    own, places = priors.of(hashes_of(example)), example.candidates.doc_indices
    return priors.with_fields(own, generation.fields_of(places, np.arange(len(places)))) if priors.fields else own
