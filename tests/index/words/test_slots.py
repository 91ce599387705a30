"""The word library and the recent documents score a document by the best of the words that stand for each word."""

import random
from pathlib import Path

import numpy as np
import pytest

from index.words import bm25_index
from index.words.bm25_index import WordIndex
from index.words.query_words import Source, number_words
from index.words.reading_options import ReadingOptions, Synonyms
from index.words.slots import OTHER_COMPLETIONS
from index.words.word_search import Reading

VOCABULARY = "copper cop cope copies coping iron ironing wire wired wires tin tinned cable flat screen".split()
OPTIONS = ReadingOptions(
    typos=True, prefix=True, synonyms=Synonyms({"cable": ["wire", "tin"], "tin": ["cable"], "telly": ["screen"]})
)
QUERIES = ("c", "cop", "wir", "iron cop", "cable w", "coper iron", "coper cable c", "tin tin wi", "telly coper", "iron")


def texts_of(seed: int) -> list[str]:
    """Return short texts, whose lengths the library does not round."""
    chosen = random.Random(seed)
    weights = [1 / (1 + at) for at in range(len(VOCABULARY))]
    return [" ".join(chosen.choices(VOCABULARY, weights, k=chosen.randint(1, 12))) for _ in range(60)]


def score_by_hand(reading: Reading, text: str, mean_length: float) -> float:
    """Return the sum over the slots of the best word of each; other completions add a share of their scores."""
    words, read = text.split(), reading.words
    numbers = number_words(words).tolist()
    score = 0.0
    for slot in range(len(read.weight)):
        best, completed = 0.0, []
        for number, of, factor, source, idf in zip(*(column.tolist() for column in read[:5]), strict=True):
            if of == slot:
                frequency = numbers.count(number)
                saturated = frequency * 2.2 / (frequency + 1.2 * (0.25 + 0.75 * len(words) / mean_length))
                gain = factor * idf * saturated * read.of_query.tolist().count(slot)
                if source == Source.COMPLETED:
                    completed.append(gain)
                best = max(best, gain)
        most = max(completed, default=0.0)
        score += max(best, most + OTHER_COMPLETIONS * (sum(completed) - most))
    return score


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("in_files", [True, False])
def test_every_document_has_the_score_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, in_files: bool
) -> None:
    monkeypatch.setattr(bm25_index, "RECENT_DOCUMENTS", 0 if in_files else 1000)
    texts = texts_of(seed)
    mean_length = sum(len(text.split()) for text in texts) / len(texts)
    index = WordIndex(tmp_path, "none")
    index.replace(range(len(texts)), texts)
    searcher = index.commit(mean_length)
    assert bool(searcher.postings.recent.documents) is not in_files
    for query in QUERIES:
        reading = searcher.read(query, OPTIONS)
        wanted = {row: score_by_hand(reading, text, mean_length) for row, text in enumerate(texts)}
        wanted = {row: score for row, score in wanted.items() if score > 0}
        for allowed in (None, np.arange(0, len(texts), 2)):
            found = dict(zip(*(side.tolist() for side in searcher.find(reading, 60, allowed)), strict=True))
            expected = {row: score for row, score in wanted.items() if allowed is None or row % 2 == 0}
            assert found == pytest.approx(expected, rel=1e-4), query
        first = searcher.find(reading, 5)[1].tolist()  # the library may stop early: the best are still the best
        assert first == pytest.approx(sorted(wanted.values(), reverse=True)[:5], rel=1e-4), query
    index.close()


def test_a_query_whose_words_stand_for_themselves_has_no_slots(tmp_path: Path) -> None:
    index = WordIndex(tmp_path, "none")
    index.replace([0, 1], ["copper wire", "iron"])
    searcher = index.commit()
    assert not searcher.read("copper iron").slots
    assert not searcher.read("copper iron", ReadingOptions(typos=True)).slots
    assert searcher.read("coper", ReadingOptions(typos=True)).slots
    index.close()


def test_words_that_no_file_has_are_left_out(tmp_path: Path) -> None:
    index = WordIndex(tmp_path, "none")
    index.replace([0], ["iron"])
    index.commit()
    index.flush()
    index.replace([1], ["copper"])
    searcher = index.commit()
    assert searcher.search("cop", 9, options=ReadingOptions(prefix=True))[0].tolist() == [1]
    index.close()
