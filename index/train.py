"""Fits an attention head to feedback, and measures it on queries that no model was trained on.

Sees a generation and feedback; writes nothing. `fit` is a generator that yields one record per step, so that whoever
calls it can show, store or stop the work; its return value is the fitted head with its report.

The recipe is chosen inside the queries to learn from, by cross-validation, and a richer recipe must be better by a
share of its standard error (after Breiman et al. 1984): `birth` changes nothing, `weights` fits the few scalars, `rank`
also turns the query. Little data therefore does no harm. AdamW (Loshchilov and Hutter 2019) decays towards birth, not
towards zero.
"""

import copy
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from index.attention import AttentionHead
from index.errors import NotEnoughFeedback
from index.evaluate import Qrels, compare_runs, measure_run
from index.examples import (
    FOLDS,
    TEST_FOLDS,
    Batch,
    Example,
    Feedback,
    fold_of,
    make_batch,
    make_example,
    make_examples,
    split,
)
from index.generation import Generation
from index.losses import listwise_loss
from index.promotion import Comparison, Decision, gate
from index.search import Query, project, search

RECIPES = ("birth", "weights", "rank")
"""From the simplest to the richest."""
SCALAR_STEPS = 24
"""Steps that an epoch of `weights` has at least: its evidence is at hand, and a few scalars want many small steps."""


@dataclass(frozen=True)
class FitConfig:
    """How to fit; the defaults were chosen on train queries (docs/experiments.md)."""

    seed: int = 0
    candidates: int = 40
    """Hard negatives asked of keys and of words each, per training query."""
    batch_queries: int = 64
    epochs: int = 8
    """At most; training stops after `patience` epochs without a better measure on validation queries."""
    patience: int = 2
    learning_rate: float = 1e-3
    scalar_learning_rate: float = 2e-2
    decay: float = 1e-2
    """Share of the distance to birth that one step of learning rate 1 takes back."""
    min_queries: int = 20
    """Queries with a confirmed document that a run needs."""
    cross_validation_queries: int = 1000
    """With fewer queries to learn from, every fold serves as validation once; with more, one fold is enough."""
    error_share: float = 0.5
    """Share of the standard error of the mean gain by which a richer recipe must be better than a simpler one."""
    max_train_queries: int = 4_000
    max_test_queries: int = 600


@dataclass(frozen=True)
class Step:
    """One record of a run: what was done, how far it is, and its figures."""

    phase: str
    done: int
    total: int
    figures: dict[str, float | int | str] = field(default_factory=dict)


@dataclass(frozen=True)
class Fitted:
    """The result of a run."""

    head: AttentionHead
    report: dict[str, Any]
    decision: Decision


Steps = Generator[Step, None, Fitted]


def fit(generation: Generation, feedback: Sequence[Feedback], champion: AttentionHead, config: FitConfig) -> Steps:
    """Fit a challenger, compare it with the champion on held-out queries, and decide; yields a Step per piece of work.

    Same generation, feedback, champion, config: same bits. Raises NotEnoughFeedback.
    """
    learn, test = split([one for one in feedback if any(gain > 0 for gain in one.gains.values())])
    if len(learn) + len(test) < config.min_queries or not test or not learn:
        raise NotEnoughFeedback(len(learn) + len(test), config.min_queries)
    torch.manual_seed(config.seed)
    learn = _sample(learn, config.max_train_queries, config.seed)
    birth = AttentionHead(champion.config)
    started = time.perf_counter()
    examples = []
    for at, one in enumerate(learn):
        examples += make_examples(generation, [one], lambda vector: project(birth, vector), config.candidates)
        if at % 50 == 0:
            yield Step("examples", at, len(learn))
    choice = yield from _choose(generation, examples, birth, config)
    head = choice.head
    if head is None:
        head = (yield from _train(generation, examples, [], birth, choice.recipe, choice.epochs, config)).head
    head = calibrate_null(generation, head, examples)
    trained = time.perf_counter() - started
    comparisons = yield from _compare(generation, champion, head, test, config)
    decision = gate(comparisons["nDCG@10"], comparisons["R@100"])
    report = {
        "queries": {"train": len(learn), "test": len(test)},
        "split": f"by query text into {FOLDS} folds: {TEST_FOLDS} test, the rest train and validation",
        "recipe": choice.as_dict(),
        "config": asdict(config),
        "held_out": {name: comparison.as_dict() for name, comparison in comparisons.items()},
        "train_seconds": round(trained, 3),
        "head": describe(head),
    }
    return Fitted(head, report, decision)


def describe(head: AttentionHead) -> dict[str, Any]:
    """Return a head's scalars, for people."""
    with torch.no_grad():
        return {
            "beta": [round(value, 4) for value in head.beta.tolist()],
            "temperature": round(float(torch.exp(-head.log_inverse_temperature)), 4),
            "null_evidence": round(float(head.null_evidence), 4),
            "memory_gain": round(float(head.log_memory_gain.exp()), 4),
            "memory_sharpness": round(float(head.log_memory_sharpness.exp()), 4),
            "query_change": round(float(torch.einsum("hdr,her->hde", head.up, head.down).norm()), 4),
        }


@dataclass(frozen=True)
class _Trial:
    """A head trained by a recipe, after how many epochs, and its nDCG@10 per validation query."""

    head: AttentionHead
    epochs: int
    measured: dict[str, float]


@dataclass(frozen=True)
class _Choice:
    """The recipe that validation chose; head is set where it need not be fitted again."""

    recipe: str
    epochs: int
    head: AttentionHead | None
    validation: dict[str, float]
    queries: int

    def as_dict(self) -> dict[str, Any]:
        return {
            "recipe": self.recipe,
            "epochs": self.epochs,
            "validation_ndcg": {recipe: round(mean, 4) for recipe, mean in self.validation.items()},
            "validation_queries": self.queries,
        }


def _choose(
    generation: Generation, examples: list[Example], birth: AttentionHead, config: FitConfig
) -> Generator[Step, None, _Choice]:
    """Return the recipe that (cross-)validation chooses: with few queries every fold validates once, with many one."""
    folds = sorted({fold_of(one.feedback.source) for one in examples})
    folds = folds if len(examples) < config.cross_validation_queries else folds[:1]
    trials: dict[str, list[_Trial]] = {recipe: [] for recipe in RECIPES}
    for fold in folds:
        train = [one for one in examples if fold_of(one.feedback.source) != fold]
        validation = [one for one in examples if fold_of(one.feedback.source) == fold]
        if not train:
            continue
        trials["birth"].append(_Trial(birth, 0, _validate(generation, birth, validation)))
        for recipe in RECIPES[1:]:
            trial = yield from _train(generation, train, validation, birth, recipe, config.epochs, config)
            trials[recipe].append(trial)
    values = {recipe: _merged(of) for recipe, of in trials.items()}
    recipe = _chosen(values, config.error_share)
    epochs = round(float(np.median([trial.epochs for trial in trials[recipe]]))) if trials[recipe] else 0
    final = recipe == "birth" or len(folds) == 1
    head = trials[recipe][0].head if final and trials[recipe] else None
    means = {name: float(np.mean(list(of.values()))) if of else 0.0 for name, of in values.items()}
    return _Choice(recipe, epochs, birth if not trials[recipe] else head, means, len(values["birth"]))


def _merged(trials: Sequence[_Trial]) -> dict[str, float]:
    return {query: value for trial in trials for query, value in trial.measured.items()}


def _chosen(values: dict[str, dict[str, float]], error_share: float) -> str:
    """Return the richest recipe that beats the best simpler one by a share of the standard error of its gain."""
    chosen = RECIPES[0]
    for recipe in RECIPES[1:]:
        gains = np.asarray([values[recipe][query] - values[chosen][query] for query in sorted(values[chosen])])
        if len(gains) > 1 and gains.mean() > error_share * gains.std(ddof=1) / len(gains) ** 0.5:
            chosen = recipe
    return chosen


def _train(
    generation: Generation,
    train: list[Example],
    validation: list[Example],
    birth: AttentionHead,
    recipe: str,
    epochs: int,
    config: FitConfig,
) -> Generator[Step, None, _Trial]:
    """Train a copy of birth; with validation queries stop early and return the best epoch, without them the last."""
    head = copy.deepcopy(birth).requires_grad_(True)
    groups = _parameter_groups(head, recipe, config)
    optimizer = torch.optim.AdamW(groups, weight_decay=0.0)
    origin = [parameter.detach().clone() for group in groups for parameter in group["params"]]
    batches = _Batches(generation, train, birth, recipe, config)
    best, best_mean = _Trial(head, epochs, {}), -1.0
    for epoch in range(1, epochs + 1):
        losses = [_update(head, dense, batch, optimizer, origin, config) for dense, batch in batches.epoch()]
        figures: dict[str, float | int | str] = {"loss": round(float(np.mean(losses)), 5), "recipe": recipe}
        if validation:
            measured = _validate(generation, head, validation)
            mean = float(np.mean(list(measured.values())))
            figures |= {"nDCG@10": round(mean, 5), "fold": fold_of(validation[0].feedback.source)}
            if mean > best_mean:
                best, best_mean = _Trial(copy.deepcopy(head), epoch, measured), mean
        yield Step("choose" if validation else "train", epoch, epochs, figures)
        if validation and epoch - best.epochs >= config.patience:
            break
    return best


class _Batches:
    """Yields (dense evidence or None, batch) for an epoch.

    A recipe that leaves the query as it is has the same dense evidence in every epoch: it is computed once, and the
    key vectors are let go. Otherwise batches are made as they are wanted, so that memory holds one at a time.
    """

    def __init__(
        self, generation: Generation, examples: list[Example], birth: AttentionHead, recipe: str, config: FitConfig
    ) -> None:
        self._generation = generation
        self._examples = examples
        self._size = config.batch_queries
        self._order = np.random.default_rng(config.seed)
        self._fixed = [self._evidence(birth, part) for part in self._parts()] if recipe == "weights" else None

    def epoch(self) -> Iterator[tuple[Tensor | None, Batch]]:
        if self._fixed is not None:
            for _ in range(-(-SCALAR_STEPS // len(self._fixed))):
                for at in self._order.permutation(len(self._fixed)):
                    yield self._fixed[at]
        else:
            for part in self._parts():
                yield None, make_batch(self._generation, part)

    def _parts(self) -> Iterator[list[Example]]:
        order = self._order.permutation(len(self._examples))
        for start in range(0, len(order), self._size):
            yield [self._examples[i] for i in order[start : start + self._size]]

    def _evidence(self, birth: AttentionHead, part: list[Example]) -> tuple[Tensor, Batch]:
        batch = make_batch(self._generation, part)
        with torch.no_grad():
            dense = birth.dense(batch.query, batch.candidates)
        keyless = replace(batch.candidates, keys=torch.empty(0, self._generation.dim))
        return dense, replace(batch, candidates=keyless)


def _update(
    head: AttentionHead,
    dense: Tensor | None,
    batch: Batch,
    optimizer: torch.optim.Optimizer,
    origin: list[Tensor],
    config: FitConfig,
) -> float:
    """Take one step and the decay towards birth; return the loss before it."""
    attention = head(batch.query, batch.candidates) if dense is None else head.attend(dense, batch.candidates)
    loss = listwise_loss(attention.logits[:, :-1], batch.gains, batch.log_propensity)
    optimizer.zero_grad()
    if loss.requires_grad:
        loss.backward()
    optimizer.step()
    at = 0
    with torch.no_grad():
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.lerp_(origin[at], group["lr"] * config.decay)
                at += 1
        head.beta.clamp_(min=0.0)
    return float(loss.detach())


def _parameter_groups(head: AttentionHead, recipe: str, config: FitConfig) -> list[dict[str, Any]]:
    scalars = [head.beta, head.log_inverse_temperature, head.log_memory_gain, head.log_memory_sharpness]
    groups: list[dict[str, Any]] = [{"params": scalars, "lr": config.scalar_learning_rate}]
    if recipe == "rank":
        groups.append({"params": [head.up, head.down], "lr": config.learning_rate})
    return groups


def _validate(generation: Generation, head: AttentionHead, examples: list[Example]) -> dict[str, float]:
    """Return query -> nDCG@10 over each example's candidates."""
    run: dict[str, list[str]] = {}
    for start in range(0, len(examples), 64):
        part = examples[start : start + 64]
        batch = make_batch(generation, part)
        with torch.no_grad():
            logits = head(batch.query, batch.candidates).logits[:, :-1].numpy()
        for row, example in zip(logits, part, strict=True):
            best = np.argsort(-row[: len(example.gains)], kind="stable")[:10]
            run[example.feedback.source] = [str(n) for n in generation.rows[example.candidates.places[best]]]
    qrels = held_out_qrels([example.feedback for example in examples])
    return measure_run(run, qrels, ["nDCG@10"])["nDCG@10"]


def calibrate_null(generation: Generation, head: AttentionHead, examples: list[Example]) -> AttentionHead:
    """Return the head with b0 set so that the null weight tells queries with their answer from those without.

    Every query counts twice, with its confirmed documents among the candidates and with them taken out; b0 minimises
    the logarithmic loss of the null weight on both. The ranking does not depend on it.
    """
    examples = [
        make_example(generation, replace(one.feedback, shown=None), project(head, one.feedback.vector), Query.count)
        for one in _sample(examples, 500, 0)
    ]
    with_answer, without_answer = [], []
    for start in range(0, len(examples), 64):
        batch = make_batch(generation, examples[start : start + 64])
        with torch.no_grad():
            logits = head(batch.query, batch.candidates).logits[:, :-1]
        with_answer.append(torch.logsumexp(logits, 1))
        without_answer.append(torch.logsumexp(logits.masked_fill(batch.gains > 0, -torch.inf), 1))
    if not examples:
        return head
    answered, unanswered = torch.cat(with_answer), torch.cat(without_answer)
    unanswered = unanswered[torch.isfinite(unanswered)]
    edges = torch.cat([answered, unanswered])
    grid = torch.linspace(float(edges.min()) - 2, float(edges.max()) + 2, 400)
    softplus = torch.nn.functional.softplus
    loss = softplus(grid[:, None] - answered).mean(1)
    if len(unanswered):
        loss = loss + softplus(unanswered - grid[:, None]).mean(1)
    calibrated = copy.deepcopy(head)
    with torch.no_grad():
        calibrated.null_evidence.copy_(grid[loss.argmin()] / head.log_inverse_temperature.exp())
    return calibrated


def _compare(
    generation: Generation,
    champion: AttentionHead,
    challenger: AttentionHead,
    test: Sequence[Feedback],
    config: FitConfig,
) -> Generator[Step, None, dict[str, Comparison]]:
    """Return the paired comparison on held-out queries, each searched in full without its own memory."""
    test = _sample(test, config.max_test_queries, config.seed)
    qrels = held_out_qrels(test)
    runs: tuple[dict[str, list[str]], dict[str, list[str]]] = ({}, {})
    for at, one in enumerate(test):
        for head, run in zip((champion, challenger), runs, strict=True):
            run[one.source] = ranked_rows(generation, head, one, 100)
        if at % 50 == 0:
            yield Step("evaluate", at, len(test))
    return compare_runs(runs[0], runs[1], qrels)


def ranked_rows(generation: Generation, head: AttentionHead, one: Feedback, limit: int) -> list[str]:
    """Return the rows found for a query as evaluation sees it: the whole collection, without its own memory."""
    ranking = search(generation, head, Query(one.text, one.vector), unseen=one.source)
    return [str(row) for row in generation.rows[ranking.places[:limit]]]


def held_out_qrels(feedback: Sequence[Feedback]) -> Qrels:
    """Return the judgments of feedback as qrels over rows; gains are rounded to grades, at least 1."""
    return {
        one.source: {str(row): max(1, round(gain)) if gain > 0 else 0 for row, gain in one.gains.items()}
        for one in feedback
    }


def _sample(feedback: Sequence[Any], most: int, seed: int) -> list[Any]:
    if len(feedback) <= most:
        return list(feedback)
    chosen = np.sort(np.random.default_rng(seed).choice(len(feedback), most, replace=False))
    return [feedback[i] for i in chosen]
