"""A search with any form of attention: the explanation agrees with the scores."""

from pathlib import Path

import pytest

from index.generation.generation import Generation
from index.ranking.attention import EVIDENCE, SCORE_PREFIX, AttentionHead, HeadConfig, initial_parameters
from index.ranking.explanation import explain_keys
from index.ranking.retrieval import Query
from index.ranking.score_functions import FORMS
from index.ranking.search import search
from index.records import KeyKind
from tests.index.fixtures import generation_of, passages, random_vectors
from tests.index.numpy_torch import moved

DIM = 6
VECTORS = random_vectors(12, DIM, seed=3)


@pytest.fixture(scope="module")
def generation(tmp_path_factory: pytest.TempPathFactory) -> Generation:
    """Four documents of three passages each."""
    documents = [passages(row, "", *VECTORS[3 * row : 3 * row + 3]) for row in range(4)]
    return generation_of(Path(tmp_path_factory.mktemp("search")) / "index", documents, (), DIM)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("heads", [1, 2])
def test_the_keys_of_a_hit_add_up_to_its_part_whatever_the_form(generation: Generation, form: str, heads: int) -> None:
    beta = tuple(float(name == "passage") for name in EVIDENCE)
    config = HeadConfig(DIM, rank=3, heads=heads, form=form, beta=beta, inverse_temperature=1.0, sharpness=3.0)
    values = initial_parameters(config)
    learned = moved({name: value for name, value in values.items() if name.startswith(SCORE_PREFIX)}, 0.4, seed=1)
    head = AttentionHead(config, values | learned)
    query = Query("", random_vectors(1, DIM, seed=4)[0])
    ranking = search(generation, head, query)
    assert len(ranking.doc_indices) == 4
    for position in range(4):
        keys = explain_keys(generation, head, query, ranking, position)
        assert [key.kind for key in keys] == [KeyKind.PASSAGE] * 3
        assert sum(key.share for key in keys) == pytest.approx(1, abs=1e-5)
        assert sum(key.share * key.score for key in keys) == pytest.approx(ranking.logits[position], abs=1e-4)
