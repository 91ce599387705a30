"""A trial: a head trained by a recipe on some queries and measured on other queries.

A run selects among trials (`model_selection`), and a resumed run reads finished trials from the trial cache. A trial is
a pure function: the same examples, recipe and configuration give the same bits.

The optimiser is AdamW (Loshchilov and Hutter 2019) with decay towards the initial parameters instead of zero, so that
little data changes little.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from index.evaluation.measures import Qrels, measure_run
from index.generation.generation import Generation
from index.learning.click_likelihood import click_counts, click_table
from index.learning.config import FitConfig, Recipe, Step
from index.learning.examples import Batch, Example, make_batch, make_example
from index.learning.losses import listwise_loss, session_loss
from index.learning.reinforce import reinforce_loss
from index.learning.torch_head import as_arrays, as_tensors, score_scalars, trainable_head
from index.ranking.attention import EVIDENCE, AttentionHead, Candidates, HeadConfig, without_keys
from index.ranking.checkpoint import LIKE_WORDS
from index.ranking.search import project
from index.records import Floats

SCALAR_STEPS = 24
"""Least number of steps per epoch for a recipe without a query projection: scalars need many small steps."""
START_HOP = 0.8
"""The g that training of the second hop begins with and decays towards: the attention of an untrained head is sure of
the first document, so that from g = 0 the gradient leads away from its value."""
WORDS, MULTIPLES = EVIDENCE.index("words"), [EVIDENCE.index(name) for name in LIKE_WORDS]
LEAST_WORDS = 0.01
"""Least initial weight of exact words of which other weights are multiples."""
VALIDATION_BATCH = 64
"""Queries per batch in validation."""


@dataclass(frozen=True)
class Trial:
    """A trained head, its number of epochs, and its nDCG@10 per validation query.

    history: the measures after each epoch that ran; heads: the heads after them. `measured` is the best measure: the
    number of epochs is a choice, which `optimism` repeats. clicks: for each of `measures`, the log likelihood per click
    of each validation query with clicks; the gate reads it.
    """

    head: AttentionHead
    epochs: int
    measured: dict[str, float]
    history: tuple[dict[str, float], ...] = ()
    clicks: tuple[dict[str, float], ...] = ()
    heads: tuple[AttentionHead, ...] = ()

    def after(self, epochs: int) -> "Trial":
        """Return the trial as it was after this number of epochs, or after its last one."""
        if not self.history:
            return self
        epochs = min(epochs, len(self.history))
        return replace(self, head=self.heads[epochs - 1], epochs=epochs, measured=self.history[epochs - 1])

    @property
    def measures(self) -> tuple[dict[str, float], ...]:
        """The measures among which the number of epochs was chosen; one for a head that was not trained."""
        return self.history or (self.measured,)


@dataclass(frozen=True)
class TrainingSplit:
    """The data of one trial: training and validation examples, validation grades, and the examination curve.

    beside: further readings of the same queries as examples. A head is trained on each, and their mean is the head of
    the trial.
    """

    train: Sequence[Example]
    validation: Sequence[Example]
    qrels: Qrels
    curve: Floats | None = None
    fold: int = 0
    beside: Sequence[Sequence[Example]] = ()


def run_trial(
    generation: Generation, data: TrainingSplit, initial: HeadConfig, recipe: Recipe, epochs: int, config: FitConfig
) -> Generator[Step, None, Trial]:
    """Train from the initial parameters; return the best epoch on the validation queries, or the last without them.

    With several sets of training examples, a head is trained on each in step with the others, and what is measured and
    returned is the mean of the heads (`mean_head`).
    """
    initial = replace(initial, rank=recipe.rank)
    if not recipe.weights:
        untrained = AttentionHead(initial)
        ndcg, likelihoods = _Validation(generation, data).measure(untrained)
        return Trial(untrained, 0, ndcg, clicks=(likelihoods,))
    learners = [_Learner(generation, part, data, initial, recipe, config) for part in (data.train, *data.beside)]
    validation = _Validation(generation, data, fixed=not recipe.changes_dense)
    history: list[dict[str, float]] = []
    clicks: list[dict[str, float]] = []
    heads: list[AttentionHead] = []
    best = 0
    for epoch in range(1, epochs + 1):
        losses = [loss for learner in learners for loss in learner.epoch()]
        figures: dict[str, float | int | str] = {"loss": round(float(np.mean(losses)), 5), "recipe": recipe.name}
        if data.validation:
            heads.append(_mean_of(learners))
            ndcg, likelihoods = validation.measure(heads[-1])
            history.append(ndcg)
            clicks.append(likelihoods)
            means = [float(np.mean(list(measured.values()))) for measured in history]
            best = means.index(max(means))
            figures |= {"nDCG@10": round(means[-1], 5), "fold": data.fold}
        yield Step("choose" if data.validation else "train", epoch, epochs, figures)
        if data.validation and epoch - (best + 1) >= config.patience:
            break
    if not data.validation:
        return Trial(_mean_of(learners), epochs, {})
    return Trial(heads[best], best + 1, history[best], tuple(history), tuple(clicks), tuple(heads))


def mean_head(heads: Sequence[AttentionHead]) -> AttentionHead:
    """Return the head whose parameters are the means over heads that began with the same parameters.

    The mean needs no choice among the heads (model soups, Wortsman et al. 2022).
    """
    if len(heads) == 1:
        return heads[0]
    parts = [head.parameters_by_name() for head in heads]
    return AttentionHead(heads[0].config, {name: np.mean([part[name] for part in parts], axis=0) for name in parts[0]})


def at_common_epoch(trials: Mapping[int, Trial]) -> dict[int, Trial]:
    """Return the trials of a recipe, each as it was after the number of epochs that is best over all their queries.

    A trial that stopped earlier has its last epoch. A common number is a smaller choice than a number for each trial,
    and so has less optimism. The final training takes the same number.
    """
    distinct = {id(trial): trial for trial in trials.values()}.values()
    longest = max((len(trial.measures) for trial in distinct), default=0)
    totals = [
        sum(sum(trial.measures[min(at, len(trial.measures) - 1)].values()) for trial in distinct)
        for at in range(longest)
    ]
    if not totals:
        return dict(trials)
    ended = {id(trial): trial.after(1 + int(np.argmax(totals))) for trial in distinct}
    return {fold: ended[id(trial)] for fold, trial in trials.items()}


class _Learner:
    """A head that is trained on a set of examples."""

    def __init__(
        self,
        generation: Generation,
        examples: Sequence[Example],
        data: TrainingSplit,
        initial: HeadConfig,
        recipe: Recipe,
        config: FitConfig,
    ) -> None:
        self.head = trainable_head(initial)
        if recipe.values:
            self.head.hop.fill_(START_HOP)
        self._optimiser = _Optimiser(self.head, recipe, config)
        self._batches = _Batches(generation, replace(data, train=examples), self.head, recipe, config)

    def epoch(self) -> Iterator[float]:
        """Train for an epoch; yield the loss of each step."""
        for dense, batch in self._batches.epoch():
            yield self._optimiser.step(dense, batch)


def _mean_of(learners: Sequence[_Learner]) -> AttentionHead:
    """Return the mean of the heads as they are now."""
    return mean_head([as_arrays(learner.head) for learner in learners])


class _Batches:
    """The batches of a trial: yields (dense evidence or None, batch) for each step of an epoch.

    Without a query projection, the dense evidence is the same in every epoch: it is computed once, and the key vectors
    are freed. With a query projection, each batch is made when it is needed, so that memory holds a single batch, and a
    share of the hard negatives is retrieved again with the current head.
    """

    def __init__(
        self, generation: Generation, data: TrainingSplit, head: AttentionHead, recipe: Recipe, config: FitConfig
    ) -> None:
        self._generation = generation
        self._curve = None if recipe.interpretation == "naive" else data.curve
        self._with_values = recipe.values
        self._examples = list(data.train)
        self._head = head
        self._config = config
        self._epochs = 0
        self._order = np.random.default_rng(config.seed)
        self._fixed = None if recipe.changes_dense else [self._evidence(part) for part in self._parts()]

    def epoch(self) -> Iterator[tuple[Tensor | None, Batch]]:
        self._epochs += 1
        if self._fixed is not None:
            for _ in range(-(-SCALAR_STEPS // max(1, len(self._fixed)))):
                for index in self._order.permutation(len(self._fixed)):
                    yield self._fixed[index]
        else:
            if self._epochs > 1 and self._config.refresh:
                self._refresh()
            for part in self._parts():
                yield None, as_tensors(make_batch(self._generation, part, self._with_values))

    def _parts(self) -> Iterator[list[Example]]:
        order = self._order.permutation(len(self._examples))
        size = self._config.batch_queries
        for start in range(0, len(order), size):
            yield [self._examples[i] for i in order[start : start + size]]

    def _evidence(self, part: list[Example]) -> tuple[Tensor, Batch]:
        batch = as_tensors(make_batch(self._generation, part))
        with torch.no_grad():
            dense = self._head.dense(batch.query, batch.candidates)
        return dense, replace(batch, candidates=without_keys(batch.candidates))

    def _refresh(self) -> None:
        head = as_arrays(self._head)
        for index in range(self._epochs % self._config.refresh, len(self._examples), self._config.refresh):
            feedback = self._examples[index].feedback
            # the candidates of clicks are always the documents shown, and explored lists keep theirs
            if feedback.shown is None and self._examples[index].slates is None:
                projected = project(head, feedback.vector)
                fresh = make_example(self._generation, feedback, projected, self._config.candidates, self._curve)
                if fresh.gains.any() and len(fresh.gains) > 1:
                    self._examples[index] = fresh


class _Optimiser:
    """AdamW with decay towards the initial parameters, over the parameters that a recipe trains."""

    def __init__(self, head: AttentionHead, recipe: Recipe, config: FitConfig) -> None:
        groups = _parameter_groups(head, recipe, config)
        self._head = head
        self._weights = _Weights(head)
        groups[0]["params"].append(self._weights.ratios)
        self._adamw = torch.optim.AdamW(groups, weight_decay=0.0)
        self._origin = [parameter.detach().clone() for group in groups for parameter in group["params"]]
        self._decay = recipe.decay

    def step(self, dense: Tensor | None, batch: Batch) -> float:
        """Take one step on a batch, whose dense evidence may be given; return the loss before it."""
        head, candidates = self._head, batch.candidates
        self._weights.begin()
        logits = head.candidate_logits(
            head.dense_after_hop(batch.query, candidates) if dense is None else dense, candidates
        )
        if batch.slates is not None:
            loss = reinforce_loss(logits, batch.slates)
        else:
            loss = listwise_loss(logits, batch.gains, batch.log_propensity, batch.confidence)
            loss = loss + session_loss(logits, batch.solved)
        self._adamw.zero_grad()
        if loss.requires_grad:
            loss.backward()
        self._adamw.step()
        origin = iter(self._origin)
        with torch.no_grad():
            for group in self._adamw.param_groups:
                for parameter in group["params"]:
                    parameter.lerp_(next(origin), group["lr"] * self._decay)
            self._weights.end()
        return float(loss.detach())


class _Weights:
    """The weights of a head in training: corrected and completed words have multiples of the weight of exact words.

    Few queries of a log have a corrected word, and none has an unfinished word. Separate weights would stay at their
    initial values, while the weight of exact words is learned and may fall to a tenth of them.
    """

    def __init__(self, head: AttentionHead) -> None:
        self._head, self._beta = head, head.beta
        initial = head.beta.detach()
        self._are_multiples = bool(initial[WORDS] >= LEAST_WORDS)
        self.ratios: Tensor = initial[MULTIPLES] / initial[WORDS] if self._are_multiples else torch.ones(2)
        """The trainable factors (2,)."""
        self.ratios.requires_grad_(True)

    def begin(self) -> None:
        """Give the head the weights of a step, from which gradients reach the factors."""
        if self._are_multiples:
            multiples = self.ratios * self._beta[WORDS]
            self._head.beta = self._beta.index_copy(0, torch.tensor(MULTIPLES), multiples)

    def end(self) -> None:
        """Give the head the weights after a step. No weight is below 0."""
        self._head.beta = self._beta.clamp_(min=0.0)
        self.ratios.clamp_(min=0.0)
        if self._are_multiples:
            self._beta[MULTIPLES] = self.ratios * self._beta[WORDS]


def _parameter_groups(head: AttentionHead, recipe: Recipe, config: FitConfig) -> list[dict[str, Any]]:
    """Return the parameters that a recipe trains with their learning rates, and make them require gradients."""
    scalars: list[Tensor] = [
        head.beta, head.log_inverse_temperature, head.log_memory_gain, head.log_memory_sharpness
    ]  # fmt: skip
    groups: list[dict[str, Any]] = [{"params": scalars, "lr": config.scalar_learning_rate}]
    if recipe.query_projection:
        scalars += [head.log_sharpness, head.head_gate, *score_scalars(head)]
        groups.append({"params": head.score.low_rank(), "lr": recipe.learning_rate})
    if recipe.values:
        scalars.append(head.hop)
        groups.append({"params": list(head.value_projection), "lr": recipe.learning_rate})
    for group in groups:
        for parameter in group["params"]:
            parameter.requires_grad_(True)
    return groups


class _Validation:
    """Measures heads on the validation examples of a trial.

    fixed: all heads have the same dense evidence, as in `_Batches`. It is then computed with the first head only.
    """

    def __init__(self, generation: Generation, data: TrainingSplit, fixed: bool = False) -> None:
        examples = data.validation
        self._generation = generation
        self._parts = [examples[at : at + VALIDATION_BATCH] for at in range(0, len(examples), VALIDATION_BATCH)]
        self._qrels = {one.feedback.query_key: data.qrels[one.feedback.query_key] for one in examples}
        self._clicks = click_table(
            {one.feedback.query_key: found for one in examples if (found := _shown_clicks(generation, one)) is not None}
        )
        self._fixed = fixed
        self._known: list[tuple[Floats, Candidates]] = []

    def measure(self, head: AttentionHead) -> tuple[dict[str, float], dict[str, float]]:
        """Return nDCG@10 over the candidates of each validation example, and the log likelihood per click, by query."""
        run: dict[str, list[str]] = {}
        shown: dict[str, Floats] = {}
        for part, logits in zip(self._parts, self._logits(head), strict=True):
            for row, example in zip(logits, part, strict=True):
                best = np.argsort(-row[: len(example.gains)], kind="stable")[:10]
                rows = self._generation.rows[example.candidates.doc_indices[best]]
                run[example.feedback.query_key] = [str(row) for row in rows]
                shown[example.feedback.query_key] = row[: len(example.gains)]
        return measure_run(run, self._qrels, ["nDCG@10"])["nDCG@10"], self._clicks.likelihoods(shown)

    def _logits(self, head: AttentionHead) -> Iterator[Floats]:
        """Yield the logits (B, N) of each part of the examples."""
        if head.hops:
            for part in self._parts:
                batch = make_batch(self._generation, part, with_values=True)
                yield head.candidate_logits(head.dense_after_hop(batch.query, batch.candidates), batch.candidates)
        else:
            for dense, candidates in self._evidence(head):
                yield head.candidate_logits(dense, candidates)

    def _evidence(self, head: AttentionHead) -> Iterable[tuple[Floats, Candidates]]:
        """Return the dense evidence and the candidates, without keys, of each part of the examples."""
        if self._known:
            return self._known
        batches = (make_batch(self._generation, part) for part in self._parts)
        found = ((head.dense(one.query, one.candidates), without_keys(one.candidates)) for one in batches)
        if not self._fixed:
            return found
        self._known = list(found)
        return self._known


def _shown_clicks(generation: Generation, example: Example) -> tuple[Floats, NDArray[np.float64]] | None:
    """Return log propensities (n,) and clicks (n,) of the documents shown; None for a query without clicks."""
    if example.feedback.shown is None:
        return None
    clicks = click_counts(example.feedback, generation.rows[example.candidates.doc_indices].tolist())
    return (example.log_propensity, clicks) if clicks.sum() else None
