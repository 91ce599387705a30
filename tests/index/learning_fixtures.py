"""A collection to learn from: a query projection that shifts the axes back makes all queries find their document."""

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
"""A value of `cross_validation_queries` with which every fold validates once; with `CONFIG` one fold does."""
QUICK = tuple(replace(one, learning_rate=2e-2) if one.query_projection else one for one in RECIPES)
"""The recipes with learning rates that learn to shift eight axes in a few epochs."""
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
    documents = [replace(passages(row, "", VECTORS[row]), id=f"d{row:02d}") for row in range(COUNT)]
    return generation_of(directory, documents, memory, DIM)


def asked(shifted: bool, count: int = 140, noise: float = 0.3, seed: int = 1) -> list[Feedback]:
    """Return queries near their confirmed document; with `shifted`, their axes are shifted by one.

    An untrained head finds nothing for a shifted query; a query projection that shifts the axes back finds all.
    """
    random = np.random.default_rng(seed)
    feedback = []
    for number in range(count):
        row = int(random.integers(COUNT))
        vector = np.roll(VECTORS[row], int(shifted)) + noise * random.normal(size=DIM) / DIM**0.5
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
    """Return the result of a fit with these recipes and without variants, and its steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("index.learning.model_selection.RECIPES", tuple(recipes))
        patch.setattr("index.learning.model_selection.VARIANTS", ())
        return finished(fit(generation, feedback, champion or AttentionHead(INITIAL), config, cache=cache))


T = TypeVar("T")


def finished(steps: Generator[Step, None, T]) -> tuple[T, list[Step]]:
    """Return the return value of a generator and the list of its yields."""
    seen = []
    while True:
        try:
            seen.append(next(steps))
        except StopIteration as end:
            return end.value, seen
