"""A collection with something to learn: queries whose axes are turned, so that one turn of the query finds all."""

from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

from index.generation.generation import Generation
from index.learning.config import FitConfig, Recipe, Step
from index.learning.examples import Feedback
from index.learning.fit import Fitted, fit
from index.learning.model_selection import RECIPES
from index.ranking.attention import AttentionHead, HeadConfig
from index.records import MemoryKey
from tests.index.fixtures import generation_of, passages, random_vectors
from tests.index.ranking.attention_by_hand import only

DIM, COUNT = 8, 60
VECTORS = random_vectors(COUNT, DIM, seed=0)
CONFIG = FitConfig(
    seed=0,
    candidates=COUNT,
    batch_queries=16,
    epochs=8,
    patience=2,
    scalar_learning_rate=2e-2,
    min_queries=20,
    cross_validation_queries=0,
    error_share=1.0,
    max_train_queries=1000,
    max_test_queries=1000,
)
ALL_FOLDS = 1000
"""For `cross_validation_queries`: every fold serves as validation once, where `CONFIG` has one that does."""
QUICK = tuple(replace(one, learning_rate=2e-2) if one.query_projection else one for one in RECIPES)
"""The ladder at a pace that turns eight axes in a few epochs."""
INITIAL = HeadConfig(
    dim=DIM,
    rank=DIM,
    beta=only(passage=1.0, words=0.4, memory=0.3),
    inverse_temperature=10.0,
    null=(4.0, 1.0, 0.0),
    sharpness=20.0,
)


def collection_of(directory: Path, memory: Sequence[MemoryKey] = ()) -> Generation:
    """Return documents of one passage each, without words."""
    return generation_of(directory, [passages(row, "", VECTORS[row]) for row in range(COUNT)], memory, DIM)


def asked(turned: bool, count: int = 140, noise: float = 0.3, seed: int = 1) -> list[Feedback]:
    """Return queries near a document that was confirmed; turned, their axes are shifted by one.

    A turned query as it is finds nothing of use; the same turn for all, which a head can learn, finds everything.
    """
    random = np.random.default_rng(seed)
    feedback = []
    for number in range(count):
        row = int(random.integers(COUNT))
        vector = np.roll(VECTORS[row], int(turned)) + noise * random.normal(size=DIM) / DIM**0.5
        vector = (vector / np.linalg.norm(vector)).astype(np.float32)
        feedback.append(Feedback(f"query {number}", "", vector, {row: 1.0}))
    return feedback


def run(
    generation: Generation,
    feedback: Sequence[Feedback],
    config: FitConfig = CONFIG,
    champion: AttentionHead | None = None,
    cache: Path | None = None,
    recipes: Sequence[Recipe] = QUICK,
) -> tuple[Fitted, list[Step]]:
    """Return the result of a fit by the recipes given, without variants, and its steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("index.learning.model_selection.RECIPES", tuple(recipes))
        patch.setattr("index.learning.model_selection.VARIANTS", ())
        return finished(fit(generation, feedback, champion or AttentionHead(INITIAL), config, cache=cache))


T = TypeVar("T")


def finished(steps: Generator[Step, None, T]) -> tuple[T, list[Step]]:
    """Return what a generator returns and what it yields."""
    seen = []
    while True:
        try:
            seen.append(next(steps))
        except StopIteration as end:
            return end.value, seen
