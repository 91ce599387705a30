"""Counting word by word gives the counts of the tokenizer, for any text."""

import random

import pytest
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel, WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, Whitespace

from index.encoding import token_counting
from index.encoding.token_counting import TokenCounter

WORDS = ["[UNK]", "[SEP]", "a", "b", "c", "e", "##a", "##b", "##c", "##e", "cab", "##bac", ",", ".", "漢", "1", "##1"]
RANGES = [
    (0x09, 0x0E), (0x1C, 0x21), (0x20, 0x7F), (0x61, 0x64), (0x61, 0x64), (0xC0, 0x180), (0x300, 0x330), (0x3A0, 0x3D0),
    (0xE01, 0xE30), (0x2000, 0x2030), (0x3000, 0x3060), (0x3400, 0x3410), (0x4E00, 0x4E20), (0xAC00, 0xAC20),
    (0xFF01, 0xFF20), (0x1F600, 0x1F610), (0x20000, 0x20010),
]  # fmt: skip
"""Ranges of characters: white space, controls, scripts with and without spaces, accents, emoji."""


def bert() -> Tokenizer:
    """Return a small tokenizer of the kind that the default encoder has."""
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.add_special_tokens(["[SEP]"])
    return tokenizer


def counted(tokenizer: Tokenizer, text: str) -> int:
    return len(tokenizer.encode(text, add_special_tokens=False).ids)


def test_the_count_of_a_text_is_the_count_of_the_tokenizer() -> None:
    counter, tokenizer = TokenCounter(bert()), bert()
    generator = random.Random(1)
    for _ in range(2000):
        length = generator.randrange(24)
        text = "".join(chr(generator.randrange(*generator.choice(RANGES))) for _ in range(length))
        assert counter(text) == counted(tokenizer, text), repr(text)


@pytest.mark.parametrize("text", ["", " \n", "a[SEP]b", "cab, cabbac.", "a\x1cb", "a\x0bb", "é漢é", "a" * 200])
def test_the_count_of_unusual_texts(text: str) -> None:
    assert TokenCounter(bert())(text) == counted(bert(), text)


def test_a_word_is_tokenised_once() -> None:
    counter = TokenCounter(bert())
    tokenised: list[str] = []
    counter._words._count = lambda word: tokenised.append(word) or 1  # type: ignore[func-returns-value]
    assert counter("cab ab cab, cab") == 4
    assert counter("ab cab " * 1000) == 2000
    assert tokenised == ["cab", "ab", "cab,"]


def test_the_number_of_remembered_words_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_counting, "MAX_REMEMBERED_WORDS", 10)
    counter = TokenCounter(bert())
    counter(" ".join(f"a{number}" for number in range(100)) + " " + "b" * 1000)
    assert 0 < len(counter._words) <= 10
    assert max(map(len, counter._words)) <= token_counting.MAX_REMEMBERED_CHARACTERS


def test_texts_of_other_tokenizers_are_tokenised_whole() -> None:
    other = Tokenizer(WordLevel({"a": 0, "b": 1, "[UNK]": 2}, unk_token="[UNK]"))
    other.pre_tokenizer = Whitespace()
    normalised = bert()
    normalised.add_tokens([AddedToken("a b", normalized=True)])
    for tokenizer, text, count in ((other, "a-b", 3), (normalised, "a b", 1)):
        assert TokenCounter(tokenizer)(text) == count
