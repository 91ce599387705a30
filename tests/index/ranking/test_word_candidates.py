"""The candidates by words are the documents with the best exact scores, also where several words stand for one."""

import random
from pathlib import Path

import numpy as np
import pytest

from index.generation.generation import Generation
from index.ranking.retrieval import Query, best_by_words, read_query
from index.ranking.word_scores import best_scored, bm25_scores
from index.words.reading_options import ReadingOptions
from tests.index.fixtures import ENCODER, generation_of, written

OPTIONS = ReadingOptions(typos=True, prefix=True)
STEMS = ("bar", "cor", "dim", "fle", "gra", "pla", "sto", "win")
VOCABULARY = [f"{stem}{end}" for stem in STEMS for end in ("bo", "del", "ron", "tic", "zum")]


def best_exactly(generation: Generation, query: Query) -> list[int]:
    """Return the `count` best of all documents, without those that tie with the last of them."""
    words, every = read_query(generation, query).words, np.arange(len(generation.rows))
    scores = bm25_scores(words, generation.match(words, every)[0])
    best = best_scored(generation, words, every, scores, query.count)
    last = scores[best[-1]] if len(best) == query.count else 0.0
    return [int(one) for one in best if scores[one] > last * (1 + 1e-6)]


def asked(text: str, count: int) -> Query:
    return Query(text, np.zeros(ENCODER.dim, np.float32), count=count, reading=OPTIONS)


def test_documents_with_a_rare_completion_do_not_displace_the_best(tmp_path: Path) -> None:
    rest = "one two three four five six seven"
    poor = [written(row, f"supersonic flock{row % 60} eight {rest}") for row in range(1, 201)]
    good = [written(row, f"supersonic flow flow {rest}") for row in range(201, 206)]
    more = [written(row, "flow of water" if row < 250 else "calm water") for row in range(206, 600)]
    generation = generation_of(tmp_path, [*poor, *good, *more])
    query = asked("supersonic fl", 10)
    best = best_exactly(generation, query)
    assert set(generation.rows[best[:5]].tolist()) == set(range(201, 206))
    assert set(best) <= set(best_by_words(generation, query, generation.alive).tolist())


@pytest.mark.parametrize("seed", range(3))
def test_the_best_documents_of_random_collections_are_found(tmp_path: Path, seed: int) -> None:
    chosen = random.Random(seed)
    weights = {word: 1 / (1 + at) for at, word in enumerate(chosen.sample(VOCABULARY, len(VOCABULARY)))}

    def text() -> str:  # with one completion of a beginning at most: the library cannot count several together
        words = [chosen.choices(list(weights), list(weights.values()))[0] for _ in range(chosen.randint(1, 7))]
        one_each = {word[:3]: word for word in words}.values()
        return " ".join(word for word in one_each for _ in range(chosen.randint(1, 3)))

    generation = generation_of(tmp_path, [written(row, text()) for row in range(1, 701)])
    whole = [chosen.choice(VOCABULARY) for _ in range(12)]
    queries = [f"{word} {chosen.choice(STEMS)[:letters]}" for word in whole for letters in (1, 2, 3)]
    mistyped = [f"{word[:2]}{word[3:]} {chosen.choice(VOCABULARY)}" for word in whole]
    for q in (*queries, *STEMS, *mistyped):
        query = asked(q, 20)
        found = best_by_words(generation, query, generation.alive)
        assert set(best_exactly(generation, query)) <= set(found.tolist()), q
        assert len(found) < 200
