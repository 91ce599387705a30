"""Values that learn: the second hop is trained with a change of the values, through both hops.

In the toy, keys have two halves. A document near the query has a second passage: its second half is the other document
that is wanted, and its first half is noise. No projection of the query leads to the other document; values without
their first half do.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from index.generation.generation import Generation
from index.learning.config import Recipe
from index.learning.examples import Feedback, make_examples
from index.learning.model_selection import RECIPES
from index.learning.trainer import TrainingSplit, Trial, run_trial
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.second_hop import DOWN, UP, moved
from tests.index.fixtures import generation_of, passages, random_vectors, unit
from tests.index.learning_fixtures import CONFIG, INITIAL, finished, run
from tests.index.numpy_torch import By, each_library, tensors, trainable
from tests.index.ranking.attention_by_hand import flatten, only, random_documents, random_unit

HALF, PAIRS = 12, 90
DIM = 2 * HALF
NOTHING = np.zeros((PAIRS, HALF), np.float32)
NEAR, WANTED, NOISE = (random_vectors(PAIRS, HALF, seed) for seed in (1, 2, 5))
START = replace(INITIAL, dim=DIM, rank=4, beta=only(passage=1.0), inverse_temperature=5.0, value_rank=DIM)
LEARNED = Recipe("values", query_projection=True, values=True, learning_rate=2e-2, rank=4)
SMALL = HeadConfig(dim=4, rank=2, heads=2, inverse_temperature=3.0, value_rank=3)
QUERIES = [random_documents(seed, count, 4) for seed, count in ((1, 5), (2, 3))]
E = np.asarray([random_unit(np.random.default_rng(seed), 4) for seed in (4, 5)], np.float32)


@pytest.fixture
def generation(tmp_path: Path) -> Generation:
    near, wanted = np.hstack([NEAR, NOTHING]), np.hstack([NOTHING, WANTED])
    beside = np.hstack([2 * NOISE, WANTED]) / np.float32(5**0.5)
    entries = [passages(row, "", near[row], beside[row]) for row in range(PAIRS)]
    return generation_of(
        tmp_path, [*entries, *(passages(PAIRS + row, "", wanted[row]) for row in range(PAIRS))], dim=DIM
    )


def asked(pairs: range) -> list[Feedback]:
    """Return a query near the first document of each pair, for which both are confirmed."""
    random = np.random.default_rng(3)
    noise = 0.02 * random.normal(size=(len(pairs), DIM))
    near = {pair: unit(*(np.hstack([NEAR[pair], NOTHING[pair]]) + noise[at])) for at, pair in enumerate(pairs)}
    return [Feedback(f"query {pair}", "", vector, {pair: 1.0, PAIRS + pair: 1.0}) for pair, vector in near.items()]


def tried(generation: Generation, recipe: Recipe, epochs: int = 30) -> Trial:
    """Return a trial on two thirds of the pairs, measured on the others."""
    config = replace(CONFIG, candidates=2 * PAIRS, epochs=epochs, patience=epochs)
    learn, validation = (
        make_examples(generation, asked(pairs), lambda vector: vector[None], 2 * PAIRS)
        for pairs in (range(60), range(60, PAIRS))
    )
    qrels = {one.feedback.query_key: {str(row): 1 for row in one.feedback.gains} for one in validation}
    return finished(run_trial(generation, TrainingSplit(learn, validation, qrels), START, recipe, epochs, config))[0]


def mean(trial: Trial) -> float:
    return float(np.mean(list(trial.measured.values())))


# --- The function ---


@each_library
def test_the_answer_is_projected_before_it_moves_the_query(by: By) -> None:
    random = np.random.default_rng(0)
    answer, up, down = (random.normal(size=shape).astype(np.float32) for shape in ((2, 4), (4, 3), (4, 3)))
    found = by(moved)(E, answer, np.float32(0.5), up, down)
    for b in range(2):
        projected = [
            answer[b, i] + sum(up[i, r] * down[j, r] * answer[b, j] for r in range(3) for j in range(4))
            for i in range(4)
        ]
        assert found[b].tolist() == pytest.approx([E[b, i] + 0.5 * projected[i] for i in range(4)], abs=1e-5)


@each_library
def test_an_untrained_projection_has_the_bits_of_no_projection(by: By) -> None:
    candidates = flatten(QUERIES, 4)
    heads = [AttentionHead(replace(SMALL, value_rank=rank)).changed(hop=0.4) for rank in (0, 3)]
    without, untrained = (by(head)(E, candidates) for head in heads)
    assert np.array_equal(without.logits, untrained.logits)


def test_the_gradient_goes_through_both_hops() -> None:
    values = trainable(AttentionHead(SMALL), torch.float64).parameters_by_name()
    candidates = tensors(flatten(QUERIES, 4, np.float64))
    query = torch.tensor(E, dtype=torch.float64)
    real = torch.cat([candidates.mask, torch.ones(2, 1, dtype=torch.bool)], dim=1)
    random = torch.Generator().manual_seed(0)

    def logits(g: Tensor, up: Tensor, down: Tensor, beta: Tensor) -> Tensor:
        head = AttentionHead(SMALL, values | {"hop": g, UP: up, DOWN: down, "beta": beta})
        found: Tensor = head(query, candidates).logits
        return found[real]

    start = [torch.tensor(0.3), *(0.2 * torch.randn(4, 3, generator=random) for _ in range(2)), values["beta"].detach()]
    inputs = tuple(one.double().requires_grad_() for one in start)
    assert torch.autograd.gradcheck(logits, inputs)
    assert all(one.abs().sum() > 0 for one in torch.autograd.grad(logits(*inputs).square().sum(), inputs))


def test_a_g_that_begins_at_zero_gets_a_gradient() -> None:
    head = trainable(AttentionHead(SMALL))
    loss = head(torch.tensor(E), tensors(flatten(QUERIES, 4))).logits[:, :3].square().sum()
    assert float(torch.autograd.grad(loss, head.hop)[0]) != 0


# --- Training ---


def test_a_trial_learns_the_change_of_the_values(generation: Generation) -> None:
    projected = mean(tried(generation, replace(LEARNED, name="projection", values=False)))
    learned = tried(generation, LEARNED)
    assert projected < 0.65
    assert mean(learned) > 0.75
    assert float(learned.head.hop) > 0.1
    assert np.abs(learned.head.value_projection[0]).max() > 0.05


def test_a_trial_gives_the_same_bits_twice(generation: Generation) -> None:
    one, same = (tried(generation, LEARNED, 2).head.parameters_by_name() for _ in range(2))
    assert one.keys() == same.keys()
    assert all(np.array_equal(one[name], same[name]) for name in one)


def test_values_are_learned_only_where_their_recipe_is_wanted(generation: Generation) -> None:
    config = replace(CONFIG, candidates=2 * PAIRS, epochs=1, hops=(), recipes=("initial",))
    fitted, _ = run(generation, asked(range(PAIRS)), config, AttentionHead(START))
    assert set(fitted.report["recipe"]["validation_ndcg"]) == {"initial"}


@pytest.mark.parametrize("rank", [0, DIM])
def test_a_fit_learns_values_only_for_a_head_with_a_value_projection(generation: Generation, rank: int) -> None:
    recipes = [replace(one, learning_rate=2e-2) for one in RECIPES]
    config = replace(CONFIG, candidates=2 * PAIRS, epochs=30, patience=30, hops=())
    champion = AttentionHead(replace(START, value_rank=rank))
    fitted, _ = run(generation, asked(range(PAIRS)), config, champion, recipes=recipes)
    assert (fitted.report["recipe"]["recipe"] == "values") == bool(rank)
    assert fitted.head.hops == bool(rank)
    assert (fitted.report["head"]["value_change"] > 0.1) == bool(rank)
    if rank:
        assert fitted.report["hop"] == {"chosen": None, "queries": 0, "tried": {}, "optimism": {}}
        assert fitted.report["head"]["hop"] == pytest.approx(float(fitted.head.hop), abs=1e-4)
        assert fitted.report["held_out"]["nDCG@10"]["difference"] > 0.1
        assert fitted.decision.promote
