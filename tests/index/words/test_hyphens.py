"""Words with a hyphen and a short part count once."""

from pathlib import Path

import pytest

from index.words.bm25_index import WordIndex
from index.words.reading_options import ReadingOptions
from index.words.tokens import spaced
from index.words.word_search import WordSearcher, read

TEXTS = [
    "change your e-mail address: the e-mail is sent to the new address",
    "an e-mail client",
    "unwanted messages are spam",
    "spam is removed after a month",
    "a red t-shirt",
    "three-dimensional flow",
    "toner tn-2110",
    "a grade of e, and no mail",
    *(f"message {number}" for number in range(20)),
]


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> WordSearcher:
    index = WordIndex(tmp_path_factory.mktemp("words") / "words", "english")
    index.replace(range(len(TEXTS)), TEXTS)
    return index.flush() if index.commit() else index.searcher()


def weights(words: WordSearcher, text: str) -> dict[str, float]:
    """Return the weight of each word of a query in its coverage."""
    found = words.read(text).words
    return dict(zip(words.vocabulary.stems(spaced(text)), found.weight[found.of_query].tolist(), strict=True))


def test_the_parts_of_a_word_with_a_hyphen_count_what_one_word_counts(words: WordSearcher) -> None:
    of = weights(words, "e-mail spam")
    assert of["e"] + of["mail"] == pytest.approx(words.vocabulary.term_idf("mail"), rel=1e-5)  # in the same documents
    assert of["spam"] == pytest.approx(words.vocabulary.term_idf("spam"), rel=1e-5)


def test_documents_about_the_other_word_are_found_before_those_that_repeat_the_parts(words: WordSearcher) -> None:
    assert words.search("e-mail spam", 5)[0][0] == 2
    assert words.search("e mail spam", 5)[0][0] in (0, 1)


@pytest.mark.parametrize("text", ["e mail spam", "three-dimensional", "tn-2110", "mail-to-spam", "e--mail", "e - mail"])
def test_other_words_keep_their_weights(words: WordSearcher, text: str) -> None:
    of = weights(words, text)
    assert of == {term: pytest.approx(words.vocabulary.term_idf(term)) for term in of}


def test_other_hyphens_are_read_too(words: WordSearcher) -> None:
    assert weights(words, "e\u2011mail spam") == weights(words, "e-mail spam") != weights(words, "e mail spam")


def test_the_joined_form_counts_once_too(tmp_path: Path) -> None:
    index = WordIndex(tmp_path / "words", "english")
    texts = [*TEXTS, *(f"email for team {number}" for number in range(5))]
    index.replace(range(len(texts)), texts)
    made = index.flush() if index.commit() else index.searcher()
    found = made.read("e-mail spam", ReadingOptions(typos=True)).words
    joined = found.idf[found.factor < 1]
    assert 0 < joined.sum() <= made.vocabulary.term_idf("email") * 1.001


class NothingSeen:
    """The counts of a reader who sees no document."""

    documents = 0

    def idf(self, count: int) -> float:
        raise AssertionError("the weights of words are those of all documents")

    def frequency(self, _field: str, _term: str) -> int:
        return 0

    def learn(self, _asked: object) -> None:
        pass

    def with_prefix(self, _field: str, _prefix: str) -> list[tuple[str, int]]:
        return []


def test_a_reader_of_some_documents_has_the_weights_of_all(words: WordSearcher) -> None:
    reader = words.vocabulary.of_reader(NothingSeen())
    own = read("e-mail spam", ReadingOptions(), reader).words.weight.tolist()
    assert own == words.read("e-mail spam").words.weight.tolist()
