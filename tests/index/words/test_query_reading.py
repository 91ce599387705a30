"""Queries are read with corrections, completions, synonyms and stop words."""

from dataclasses import replace
from pathlib import Path

import pytest

from index.words.bm25_index import WordIndex
from index.words.query_words import Source
from index.words.question_words import QUESTION_WORDS
from index.words.reading_options import EXACTLY, ReadingOptions, Synonyms, folded
from index.words.word_search import Reading, WordSearcher

TEXTS = [
    "python dictionary methods",
    "python lists and dictionaries",
    "a dictionary of words",
    "copy a folder with shutil",
    "pydoc reads docstrings",
    "größe der handschuhe",
    "café au lait",
    "model b52 bomber",
    "検索エンジンの辞書",
]
TYPOS = ReadingOptions(typos=True)
PREFIX = ReadingOptions(prefix=True)


@pytest.fixture
def words(tmp_path: Path) -> WordSearcher:
    index = WordIndex(tmp_path, "english")
    index.replace(range(len(TEXTS)), TEXTS)
    return index.commit()


def stands(reading: Reading) -> dict[int, int]:
    """Return the number of words that stand for others, by source."""
    sources = reading.words.source[reading.words.factor < 1].tolist()
    return {source: sources.count(source) for source in set(sources)}


def found(words: WordSearcher, text: str, options: ReadingOptions) -> list[int]:
    return sorted(words.search(text, 10, None, options)[0].tolist())


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("pyhton", "python"),  # two letters exchanged
        ("pythn", "python"),  # a letter missing
        ("pyython", "python"),  # a letter too many
        ("dictonery", "dictionary"),  # two edits in a long word
        ("ypthon", "python"),  # the first two letters exchanged
        ("ython", "python"),  # the first letter missing
        ("caffe", "café"),  # against the word without its accent
    ],
)
def test_an_unknown_word_is_corrected_by_the_words_of_the_collection(
    words: WordSearcher, typed: str, meant: str
) -> None:
    reading = words.read(f"a {typed}", TYPOS)
    assert reading.corrections == ((typed, meant),)
    assert reading.text == f"a {meant}"
    assert stands(reading)[Source.CORRECTED] >= 1
    assert found(words, typed, TYPOS) == found(words, meant, EXACTLY)


def test_regular_forms_of_the_words_of_the_language_are_not_corrected(words: WordSearcher) -> None:
    language = replace(TYPOS, known=frozenset({"reap", "folder"}))
    assert words.read("reaps", TYPOS).corrections == (("reaps", "reads"),)
    assert words.read("reaps", language).corrections == ()
    assert words.read("reabs", language).corrections == (("reabs", "reads"),)


@pytest.mark.parametrize("text", ["python", "cop", "b53", "xy", "zzzzzzzz", "検素", "a-b", "", "💥"])
def test_known_short_and_distant_words_and_words_with_digits_are_not_corrected(words: WordSearcher, text: str) -> None:
    reading = words.read(text, TYPOS)
    assert reading.corrections == ()
    assert reading.text == text
    assert reading.words.exact


def test_least_lengths_and_single_words_are_options(words: WordSearcher) -> None:
    assert words.read("pyhton", replace(TYPOS, one_edit=7)).corrections == ()
    assert words.read("dictonery", replace(TYPOS, two_edits=10)).corrections == ()
    assert words.read("pyhton", replace(TYPOS, uncorrected=frozenset({"pyhton"}))).corrections == ()


def test_a_corrected_word_counts_less_than_an_exact_word(words: WordSearcher) -> None:
    exact = dict(zip(*(side.tolist() for side in words.search("pydoc", 10)), strict=True))
    typed = dict(zip(*(side.tolist() for side in words.search("pydco", 10, None, TYPOS)), strict=True))
    assert 0 < typed[4] < exact[4]


def test_the_last_word_is_completed(words: WordSearcher) -> None:
    assert found(words, "dict", EXACTLY) == []
    assert found(words, "dict", PREFIX) == [0, 1, 2]
    reading = words.read("python dict", PREFIX)
    assert stands(reading)[Source.COMPLETED] >= 1
    assert reading.text == "python dictionary"
    assert 0.5 < reading.trust < 1


def test_a_last_word_without_a_likely_completion_is_not_encoded(tmp_path: Path) -> None:
    index = WordIndex(tmp_path, "english")
    named = [f"{'the ' if at else ''}s{chr(97 + at)}lver spoon" for at in range(26)]
    index.replace(range(27), [*named, "a si unit"])
    words = index.commit()
    for text, encoded in (("s", ""), ("spoon s", "spoon"), ("spoon  and s", "spoon  and"), ("spon s", "spoon")):
        reading = words.read(text, ReadingOptions(typos=True, prefix=True))
        assert reading.encoded == reading.remembered == encoded
        assert reading.trust == pytest.approx(1 - 1 / len(text.split()))
        assert reading.unfinished
        assert reading.text != text
    for text in ("the s", '"s', "- s"):
        reading = words.read(text, replace(PREFIX, stop_words=frozenset({"the"})))
        assert (reading.encoded, reading.remembered, reading.trust) == ("", "", 0.0)
    likely = words.read("the spoo", PREFIX)
    assert (likely.encoded, likely.text, likely.unfinished) == ("the spoon", "the spoon", True)
    known = words.read("a si", PREFIX)
    assert (known.text, known.encoded, known.unfinished) == ("a si", "a si", False)
    index.replace([27], ["s"])
    words = index.commit()
    unlikely = words.read("a s", PREFIX)
    assert (unlikely.text, unlikely.encoded, unlikely.unfinished) == ("a s", "a", True)
    assert unlikely.remembered == "a s", "a word may end here, so the query may be one that was asked before"
    finished = words.read("spoon s ", PREFIX)
    assert (finished.encoded, finished.trust, finished.unfinished) == ("spoon s", 1.0, False)
    assert finished.text == "spoon s "


@pytest.mark.parametrize("text", ["dict ", "dict python"])
def test_a_word_before_a_space_is_finished(words: WordSearcher, text: str) -> None:
    assert words.read(text, replace(PREFIX, prefix=True)).text == text


def test_a_known_word_is_encoded_as_it_is_and_its_completions_count_too(words: WordSearcher) -> None:
    reading = words.read("a", PREFIX)
    assert reading.text == "a"
    assert stands(reading)[Source.COMPLETED] >= 1


def test_an_unfinished_word_with_a_typo_is_corrected_to_a_beginning(words: WordSearcher) -> None:
    options = replace(TYPOS, prefix=True)
    assert words.read("dictoin", options).corrections == (("dictoin", "dictionary"),)
    assert found(words, "dictoin", options) == [0, 1, 2]


def test_one_character_of_a_script_without_spaces_is_found_in_its_pairs(words: WordSearcher) -> None:
    assert found(words, "辞", EXACTLY) == [8]
    assert found(words, "辞書", EXACTLY) == [8]
    assert found(words, "辞典", EXACTLY) == []


def test_stop_words_are_left_out_unless_there_are_no_others(words: WordSearcher) -> None:
    options = ReadingOptions(stop_words=frozenset({"a", "of", "with"}))
    assert [term for term, _ in words.read("a folder with", options).terms] == ["folder"]
    assert [term for term, _ in words.read("a of", options).terms] == ["a", "of"]


@pytest.mark.parametrize(
    ("language", "text", "left"),
    [
        ("english", "How do I copy my folder?", "copy folder"),
        ("english", "how can you please copy the folder", "copy the folder"),
        ("english", "what does the folder contain", "the folder contain"),
        ("english", "copy my folder", "copy my folder"),
        ("english", "will my folder open", "will my folder open"),
        ("english", "can opener with handle", "can opener with handle"),
        ("english", "trash can with lid", "trash can with lid"),
        ("english", "what is love", "is love"),
        ("english", "the who", "the who"),
        ("english", "who are you", "who are you"),
        ("english", "how do i", "how do i"),
        ("english", "how do I find my can opener", "find can opener"),
        ("english", "which us states tax", "us states tax"),
        ("english", "why can't I open the folder", "open the folder"),
        ("english", "I'm looking how to copy it", "looking to copy it"),
        ("german", "Können Sie mir meinen Ordner kopieren", "ordner kopieren"),
        ("german", "Wie kann ich meinen Ordner kopieren?", "ordner kopieren"),
        ("german", "Ordner kopieren können", "ordner kopieren konnen"),
        ("german", "möchte ich den Ordner kopieren", "den ordner kopieren"),
    ],
)
def test_the_words_of_a_question_are_left_out(words: WordSearcher, language: str, text: str, left: str) -> None:
    options = ReadingOptions(question_words=QUESTION_WORDS[language])
    reading = words.read(text, options)
    assert reading.terms == words.read(left, EXACTLY).terms
    assert reading.encoded == text


def test_words_with_synonyms_an_unfinished_word_and_stop_words_are_read_as_without_questions(
    words: WordSearcher,
) -> None:
    options = ReadingOptions(question_words=QUESTION_WORDS["english"])
    synonyms = replace(options, synonyms=Synonyms({"how to": ["tutorial"]}))
    assert words.read("how to copy my folder", synonyms).terms[0] == words.read("how", EXACTLY).terms[0]
    unfinished = words.read("how do i copy folder my do", replace(options, prefix=True))
    assert [term for term, _ in unfinished.terms][:2] == [term for term, _ in words.read("copy folder", EXACTLY).terms]
    assert unfinished.unfinished
    assert unfinished.terms[2][0] == "do", "it may become a longer word"
    stopped = replace(options, stop_words=frozenset({"how", "i"}))
    assert words.read("how do i copy my folder", stopped).terms == words.read("copy folder", EXACTLY).terms


def test_synonyms_find_documents_with_the_other_word(words: WordSearcher) -> None:
    both = Synonyms({"folder": ["directory"], "directory": ["folder"], "word list": ["dictionary"]})
    options = ReadingOptions(synonyms=both)
    assert found(words, "directory", EXACTLY) == []
    assert found(words, "directory", options) == [3]
    assert 0 in found(words, "word list", options)
    assert words.read("directory", options).corrections == ()


@pytest.mark.parametrize(
    ("synonym", "corrections", "encoded", "ids"),
    [
        ("folder", (), "folder", [3]),  # the owner of the collection says what the word means
        ("spade", (("pyhton", "python"),), "python", [0, 1]),  # no document has the synonym
        ("python", (("pyhton", "python"),), "python", [0, 1]),
    ],
)
def test_a_word_with_a_synonym_is_corrected_to_the_synonym_or_not_at_all(
    words: WordSearcher, synonym: str, corrections: tuple[tuple[str, str], ...], encoded: str, ids: list[int]
) -> None:
    options = replace(TYPOS, synonyms=Synonyms({"pyhton": [synonym]}))
    reading = words.read("pyhton", options)
    assert (reading.corrections, reading.encoded, reading.remembered) == (corrections, encoded, "pyhton")
    assert found(words, "pyhton", options) == ids
    assert found(words, "pyhton list", options)[-1:] == found(words, f"{synonym} list", TYPOS)[-1:]
    assert words.read("pyhton pythn", options).corrections[-1] == ("pythn", "python"), "other words are corrected"


def test_the_most_frequent_synonym_of_a_word_that_no_document_has_is_encoded(words: WordSearcher) -> None:
    options = replace(TYPOS, synonyms=Synonyms({"snake": ["shutil", "python", "adder"], "copy": ["python"]}))
    assert words.read("Snake methods", options).encoded == "python methods"
    assert words.read("Snake methods", options).text == "Snake methods"
    assert words.read("snake pythn", options).encoded == "python python"
    assert words.read("copy", options).encoded == "copy", "a word of the collection"
    phrases = replace(
        TYPOS, synonyms=Synonyms({"snake": ["word spade", "dictionary methods"], "big snake": ["python"]})
    )
    assert words.read("snake", phrases).encoded == "dictionary methods"
    assert words.read("big snake", phrases).encoded == "big dictionary methods"


@pytest.mark.parametrize(
    ("text", "synonyms"),
    [
        ("docstr ings", {"docstr": ["python"], "ings": ["python"]}),  # the words are joined already
        ("電話機", {"電話": ["python"], "話機": ["copy"]}),  # pairs of characters overlap
        ("½", {"1": ["python"], "2": ["copy"]}),  # a character is two words
        ("snake", {"snake": ["python spade"]}),  # no document has all words of the synonym
    ],
)
def test_a_synonym_is_encoded_for_whole_words_alone(
    words: WordSearcher, text: str, synonyms: dict[str, list[str]]
) -> None:
    assert words.read(text, replace(TYPOS, synonyms=Synonyms(synonyms))).encoded == words.read(text, TYPOS).encoded


def test_without_corrections_no_synonym_is_encoded(words: WordSearcher) -> None:
    assert words.read("snake", ReadingOptions(synonyms=Synonyms({"snake": ["python"]}))).encoded == "snake"


def test_memory_compares_the_text_without_synonyms(words: WordSearcher) -> None:
    options = replace(TYPOS, prefix=True, synonyms=Synonyms({"snake": ["python"]}))
    reading = words.read("snake dictiona", options)
    assert (reading.encoded, reading.remembered) == ("python dictionary", "snake dictionary")


def test_an_unfinished_word_with_a_synonym_is_not_corrected(words: WordSearcher) -> None:
    options = replace(TYPOS, prefix=True, synonyms=Synonyms({"pyhton": ["folder"]}))
    assert words.read("pyhton", options).corrections == ()


def test_a_compound_with_a_synonym_stays_whole(tmp_path: Path) -> None:
    index = WordIndex(tmp_path, "german")
    index.replace(range(2), ["Schuhe für die Hand", "Fäustlinge"])
    options = ReadingOptions(typos=True, compounds=True)
    assert len(index.commit().read("Handschuhe", options).terms) == 2
    declared = replace(options, synonyms=Synonyms({"handschuhe": ["fäustlinge"]}))
    words = index.commit()
    assert words.read("Handschuhe", declared).terms[0][0] == "handschuh"
    assert words.search("Handschuhe", 2, None, declared)[0].tolist() == [1, 0], "the parts find less"


def test_words_are_folded_as_the_vocabulary_writes_them() -> None:
    assert folded("  Café  AU-lait ") == "cafe au lait"


def test_a_reading_is_cached_by_text_and_options(words: WordSearcher) -> None:
    assert words.read("pyhton", TYPOS) is words.read("pyhton", TYPOS)
    assert words.read("pyhton", TYPOS) is not words.read("pyhton", EXACTLY)


@pytest.mark.parametrize(("documents", "corrections"), [(2, (("haus", "aus"),)), (5, ())])
def test_a_short_frequent_word_with_another_first_letter_is_no_correction(
    tmp_path: Path, documents: int, corrections: tuple[tuple[str, str], ...]
) -> None:
    index = WordIndex(tmp_path, "none")
    index.replace(
        range(11), [f"Tasche {'aus' if n < documents else 'und'} Stoff {n}" for n in range(10)] + ["Habseligkeiten"]
    )
    words = index.commit()
    assert words.read("haus", TYPOS).corrections == corrections
    assert words.read("auss", TYPOS).corrections == (("auss", "aus"),), "the same first letter"
    typing = words.read("haus", replace(TYPOS, prefix=True)).corrections
    assert typing == (corrections or (("haus", "habseligkeiten"),)), "another word does not hide a beginning"


@pytest.mark.parametrize("text", ["women's shoes", "women\u2019s shoes"])
def test_the_s_of_a_possessive_is_no_word(tmp_path: Path, text: str) -> None:
    index = WordIndex(tmp_path / "words", "english")
    index.replace(range(3), ["Women's shoes", "Children's book", "A size S"])
    words = index.commit()
    assert words.search(text, 10, None, ReadingOptions())[0].tolist() == [0]
    assert words.search("women's", 10, None, ReadingOptions(prefix=True))[0].tolist() == [0]
    assert sorted(words.search("size s", 10, None, ReadingOptions())[0].tolist()) == [0, 1, 2]


@pytest.mark.parametrize("text", ["l'ordinateur", "L\u2019ordinateur", "d'ordinateur", "qu'ordinateur"])
def test_an_elided_article_is_no_word(tmp_path: Path, text: str) -> None:
    index = WordIndex(tmp_path / "words", "french")
    index.replace(range(2), ["L'Oréal d'Oslo qu'il", "Un ordinateur"])
    words = index.commit()
    assert words.search(text, 10, None, ReadingOptions())[0].tolist() == [1]
    assert len(words.read("rock'n roll d l'").terms) == 5, "only before a word that it is joined to"
    assert [term for term, _ in words.read("m's ordinateur").terms] == ["m", "ordin"], "a possessive"
    assert [term for term, _ in words.read("l\u02bcordinateur").terms] == ["ordin"]


@pytest.mark.parametrize(
    ("written", "typed", "meant"),
    [("किताबें और मोबाइल", "मोबाल", "मोबाइल"), ("புத்தகங்கள்", "புத்தகங்கல்", "புத்தகங்கள்")],
)
def test_words_with_vowel_signs_are_corrected(tmp_path: Path, written: str, typed: str, meant: str) -> None:
    index = WordIndex(tmp_path / "words", "none")
    index.replace([0], [written])
    assert index.commit().read(typed, TYPOS).corrections == ((typed, meant),)
