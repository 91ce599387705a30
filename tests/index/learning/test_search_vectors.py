"""Feedback has the vectors that searches for its texts have, and every step of a fit ranks with them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index.generation.generation import Generation
from index.learning import context_selection, examples, explored_examples, held_out, held_out_attention, null_slot
from index.learning.examples import LONGEST_KNOWN_WORD, Feedback, InContext, with_search_vectors
from index.learning.slates import Slate
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.retrieval import Query
from index.records import EncodedQuery, Floats
from index.words.reading_options import ReadingOptions
from tests.index.fixtures import ENCODER, generation_of, vector_of, written

HEAD = AttentionHead(HeadConfig(dim=ENCODER.dim, rank=1))
TYPED = vector_of("a hamer")
FEEDBACK = Feedback(
    "a hamer",
    "a hamer",
    vector_of("a hammer"),
    {0: 3.0},
    contexts=(InContext((1,), {0: 1, 2: 2}, frozenset({0})),),
    explored=(Slate((0, 1), (False, False), (0.5, 0.5), (True, False)),),
    memory_vector=TYPED,
    known=0.5,
)
CONSUMERS: dict[str, tuple[Any, str, Callable[[Generation], object]]] = {
    "examples": (examples, "retrieve", lambda made: examples.make_example(made, FEEDBACK, TYPED[None], 2)),
    "explored examples": (
        explored_examples,
        "retrieve",
        lambda made: explored_examples.make_explored_examples(made, [FEEDBACK], lambda vector: vector[None], 2),
    ),
    "held-out queries": (held_out, "search", lambda made: held_out.ranked_rows(made, HEAD, FEEDBACK)),
    "attention": (
        held_out_attention,
        "search",
        lambda made: held_out_attention.weights_by_rank(made, HEAD, FEEDBACK),
    ),
    "contexts": (
        context_selection,
        "search",
        lambda made: context_selection.reranked(made, HEAD, FEEDBACK, FEEDBACK.contexts[0]),
    ),
    "null slot": (null_slot, "search", lambda made: null_slot.labelled_evidence(made, HEAD, [FEEDBACK])),
}


class Asked(Exception):
    """Carries the first query that a step asks."""


@pytest.fixture
def generation(tmp_path: Path) -> Generation:
    return generation_of(tmp_path, [written(row, text) for row, text in enumerate(("hammer", "anvil", "tongs"))])


class CountingEncoder:
    """Encodes as `ENCODER`, knows half of the tokens of an unusual text, and counts the calls."""

    def __init__(self) -> None:
        self.encoded: list[str] = []
        self.counted: list[str] = []

    def encode_query(self, text: str) -> EncodedQuery:
        self.encoded.append(text)
        return EncodedQuery(vector_of(text), 1.0)

    def known_share(self, text: str) -> float:
        self.counted.append(text)
        return 0.5


def searched(generation: Generation, text: str, encoder: CountingEncoder) -> Feedback:
    given = Feedback(text, text, vector_of(text), {0: 1.0})
    (found,) = with_search_vectors(generation, [given], lambda: encoder, ReadingOptions(typos=True))  # type: ignore[arg-type,return-value]
    return found


@pytest.mark.parametrize("name", CONSUMERS)
def test_every_step_of_a_fit_asks_the_query_of_a_search(
    generation: Generation, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    module, function, run = CONSUMERS[name]

    def asked(*arguments: Any, **_: Any) -> None:
        raise Asked(next(one for one in arguments if isinstance(one, Query)))

    monkeypatch.setattr(module, function, asked)
    with pytest.raises(Asked) as caught:
        run(generation)
    (query,) = caught.value.args
    assert (query.text, query.known, query.encoded) == ("a hamer", 0.5, True)
    assert query.vector is FEEDBACK.vector
    assert query.memory_vector is TYPED
    assert query.excluded_query == "a hamer"


def test_a_query_of_unknown_tokens_alone_is_not_encoded() -> None:
    query = Feedback("x", "x", np.zeros(ENCODER.dim, np.float32), {0: 1.0}, known=0.0).as_query()
    assert not query.encoded


def test_a_corrected_text_is_encoded_and_another_keeps_its_vector(generation: Generation) -> None:
    encoder = CountingEncoder()
    corrected = searched(generation, "a hamer", encoder)
    assert encoder.encoded == ["a hammer"]
    assert equal(corrected.vector, vector_of("a hammer"))
    assert corrected.memory_vector is not None
    assert equal(corrected.memory_vector, TYPED)
    plain = searched(generation, "a hammer ", encoder)
    assert equal(plain.vector, vector_of("a hammer "))
    assert (plain.memory_vector, plain.known) == (None, 1.0)
    assert (encoder.encoded, encoder.counted) == (["a hammer"], [])


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ("hammer \U0001f4a5", True),
        ("hammer " + "x" * LONGEST_KNOWN_WORD, False),
        ("hammer " + "x" * (LONGEST_KNOWN_WORD + 1), True),
    ],
)
def test_tokens_are_counted_where_some_may_be_unknown(generation: Generation, text: str, counted: bool) -> None:
    encoder = CountingEncoder()
    assert searched(generation, text, encoder).known == (0.5 if counted else 1.0)
    assert encoder.counted == [text] * counted


def test_feedback_without_a_vector_stays_as_it_is(generation: Generation) -> None:
    silent = Feedback("hamer", "hamer", np.empty(0, np.float32), {})
    assert with_search_vectors(generation, [silent], lambda: pytest.fail("an encoder was loaded")) == [silent]


def equal(one: Floats, other: Floats) -> bool:
    return one.tobytes() == other.tobytes()
