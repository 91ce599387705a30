"""Plain text: a text as its words are compared, and where each of its characters stands in the text.

Composed and decomposed accents are equal (Unicode NFC), accents without a composed form are left out, and so are
characters that are not visible inside a word, such as a soft hyphen. Letters and digits in another form are those that
they stand for (Unicode NFKC): `ﬁ` is `fi`, a fullwidth `Ａ` is `A`, `m²` is `m2`, `½` is `1` and `2`. Greek letters
have no accents, `ς` is `σ`, and `ё` is `е`; the accents of Latin letters are left to the analyzers. Digits of all
scripts are those of ASCII, and Arabic letters that are typed one for the other are one letter. The signs of Indic
vowels belong to the word; those of Arabic and Hebrew vowels are left out. The joiners U+200C and U+200D are left out,
but for U+200C after an Arabic character, where it separates words: `می‌خواهم` is two words, as it is where it is typed
with a space.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from index.characters import INVISIBLE, LETTER_APOSTROPHES

USUAL_BLOCKS = (
    (range(0xAD), range(0xAE, 0x130), range(0x131, 0x300), range(0x1E00, 0x1F00)),  # Latin
    (
        range(0x370, 0x374),
        range(0x375, 0x37E),
        range(0x37F, 0x387),
        range(0x388, 0x483),
        range(0x48A, 0x591),
    ),  # Greek …
    (
        range(0x5BE, 0x5BF),
        range(0x5D0, 0x5EB),
        range(0x620, 0x640),
        range(0x641, 0x64B),
        range(0x660, 0x670),
        range(0x671, 0x6D6),
    ),  # Hebrew …
    (range(0x2010, 0x2028), range(0x2030, 0x205F), range(0x2070, 0x20D0), range(0x2100, 0x2126)),  # signs
    (range(0x2127, 0x212A), range(0x212C, 0x2329), range(0x232B, 0x2ADC), range(0x2ADD, 0x2C00)),  # signs
    (range(0x1F000, 0x1FB00),),  # emoji
)
"""Where the characters are that are separated by spaces or signs, and are plain but for those of PLAIN_FORMS and
PLAIN_LETTERS."""
NUKTA = "\u093c"
"""The dot of Devanagari letters for foreign sounds, which many leave out."""
VOWELS = "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u0655\u0670"
"""Signs of Hebrew and Arabic, most of them of vowels, which few texts have; one stretches Arabic words."""
ACCENTS = f"{VOWELS}{NUKTA}\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20dc\u302a-\u302f\u3099\u309a\ufe20-\ufe2f"
"""Combining accents. Those that remain in NFC have no composed form."""
SPACE_WITHOUT_WIDTH = "\u200b"
NON_JOINER, JOINER = "\u200c", "\u200d"
ARABIC = "\u0600-\u06ff\u0750-\u077f\u0870-\u08ff\ufb50-\ufdff\ufe70-\ufefe"
"""Arabic characters: after these, a non-joiner separates parts of a word that are also typed with a space."""
AFTER_WORD = "\u0e80-\u109f\u1780-\u17ff\u1950-\u1aaf\ua9e0-\ua9ff\uaa60-\uaadf"
"""Lao, Tibetan, Burmese, Khmer and Tai characters: after these, a space without width separates words."""
CAPITAL_I = "\u0130"
"""I with a dot. Its small letter would be an i with a combining dot."""
OTHER_FORMS = (
    range(0xAA, 0x13F),  # without the l with a dot, which Catalan has inside words
    range(0x141, 0x250),
    range(0x2B0, 0x2E5),
    range(0x3D0, 0x3FA),
    range(0x1D2C, 0x1DC0),
    range(0x1E9A, 0x1E9C),
    range(0x2070, 0x2190),
    range(0x2460, 0x24EB),
    range(0x2E80, 0x2FE0),
    range(0x3200, 0x3400),
    range(0xFB00, 0xFE00),
    range(0xFE70, 0xFF00),
    range(0xFF10, 0xFF5B),
    range(0x1D400, 0x1D800),
)
"""Where the letters and digits in another form are: ligatures, superscripts, Greek symbols, fractions, circled,
squared, fullwidth and mathematical ones, Roman numerals, radicals and Arabic forms. Halfwidth Katakana is in
`index.words.tokens`."""
GREEK = range(0x370, 0x400)
GREEK_WITH_ACCENTS = (GREEK, range(0x1F00, 0x2000))
FIRST_OF_CJK = "\u2e80"
"""Latin, Greek and Arabic forms come before it, and the scripts that are cut into pairs after it."""
SIGNS_OF_WORDS = frozenset("℃℉")
"""Signs that stand for letters, beside the letters and digits. ™ and № separate words: they are no part of a name."""
MARK_BLOCKS = (
    range(0x300, 0xE31),
    range(0xE50, 0x3000),
    range(0xA66F, 0xAC00),
    range(0x10000, 0x12000),
    range(0x1E000, 0x1E950),
)
"""Where marks are, without those of Thai and Japanese, which are cut into pairs (`index.words.tokens`)."""


def _ranges(codes: Iterator[int]) -> str:
    """Return ascending code points as the inside of a character class."""
    found: list[list[int]] = []
    for code in codes:
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in found)


def _plain_forms() -> Iterator[tuple[int, str]]:
    """Yield the letters and digits in another form, with what they stand for.

    What stands for several words or pairs, such as a fraction, has spaces around it: no other word is in part of it.
    """
    for code in chain(*OTHER_FORMS):
        character = chr(code)
        form = unicodedata.normalize("NFKC", character)
        if form == unicodedata.normalize("NFC", character) or form[0].isspace():
            continue
        if character.isalnum() or character in SIGNS_OF_WORDS or code in range(0x2E80, 0x3400):
            is_part = all(one.isalnum() or unicodedata.combining(one) for one in form)
            yield code, form if is_part and (len(form) == 1 or max(form) < FIRST_OF_CJK) else f" {form} "


def _greek_letters() -> Iterator[tuple[int, str]]:
    """Yield the Greek letters with an accent, breathing, dialytika or iota subscript, each with the letter alone."""
    for code in chain(*GREEK_WITH_ACCENTS):
        letter, *marks = list(unicodedata.normalize("NFD", chr(code)))
        if ord(letter) in GREEK and ord(letter) != code and all(map(unicodedata.combining, marks)):
            yield code, letter


PLAIN_FORMS = dict(_plain_forms())
"""Code point -> plain text, as `str.translate` takes it."""
ARABIC_LETTERS = {"آأإٱ": "ا", "ىی": "ي", "ک": "ك", "ۀہۂ": "ه"}
"""Letters that are typed one for the other: alef with signs, and the yeh, kaf and heh of Arabic, Persian and Urdu."""
DIGITS = {code: str(unicodedata.decimal(chr(code))) for code in range(0x80, 0x1FBFA) if chr(code).isdecimal()}
"""Code point -> ASCII digit, of the digits of other scripts."""
PLAIN_LETTERS = (
    dict(_greek_letters())
    | {ord("ς"): "σ", ord("ё"): "е", ord("Ё"): "Е"}
    | {ord(letter): other for letters, other in ARABIC_LETTERS.items() for letter in letters}
    | DIGITS
    | {ord(apostrophe): "'" for apostrophe in LETTER_APOSTROPHES}
    | {ord("ँ"): "ं"}
)
"""Code point -> letter, digit or apostrophe. Other Cyrillic letters stay: `й` is another letter than `и`."""
MARKS = _ranges(code for code in chain(*MARK_BLOCKS) if unicodedata.category(chr(code)) in ("Mn", "Mc"))
"""Characters that belong to the letter before them, as the inside of a character class."""
EXTENDING = (
    f"{MARKS}{ACCENTS}{INVISIBLE}{SPACE_WITHOUT_WIDTH}{NON_JOINER}{JOINER}"
    "\u0e38-\u0e3a\u0e48-\u0e4b\u1160-\u11ff\ud7b0-\ud7fb"
)
"""Characters that are composed with those before them, change places, or are left out; the last are Thai and Hangul."""
_STANDING_FOR_OTHERS = PLAIN_FORMS.keys() | PLAIN_LETTERS.keys()
_OF_OTHER_FORM = _ranges(iter(sorted(_STANDING_FOR_OTHERS)))
UNUSUAL = re.compile(f"[^{_ranges(code for code in chain(*chain(*USUAL_BLOCKS)) if code not in _STANDING_FOR_OTHERS)}]")
"""A text without these characters is plain."""
_NON_JOINER_TO_DROP = f"(?<![{ARABIC}]){NON_JOINER}"
NOT_PLAIN = re.compile(
    f"[{ACCENTS}{INVISIBLE}{SPACE_WITHOUT_WIDTH}{JOINER}{CAPITAL_I}{_OF_OTHER_FORM}]|{_NON_JOINER_TO_DROP}"
)
"""Characters that are left out, or that stand for others."""
EXTENSION = re.compile(f"[{EXTENDING}]+")
CACHED_PIECES = 10_000
"""Characters with their extending characters whose plain length is cached."""
_INVISIBLE = re.compile(f"[{INVISIBLE}{JOINER}]+|(?<![{AFTER_WORD}]){SPACE_WITHOUT_WIDTH}+|{_NON_JOINER_TO_DROP}+")
_ACCENTS = re.compile(f"[{ACCENTS}]+")
_ACCENTED_LETTER = re.compile(f"[{_ranges(iter(sorted(PLAIN_LETTERS)))}]")


class Traced(NamedTuple):
    """A plain text; its character at i was made of the characters [starts[i], ends[i]) of the original text."""

    text: str
    starts: list[int]
    ends: list[int]


def is_plain(text: str) -> bool:
    """Return whether a text is known to be plain."""
    if text.isascii() or UNUSUAL.search(text) is None:
        return True
    return NOT_PLAIN.search(text) is None and unicodedata.is_normalized("NFC", text)


def plain(text: str) -> str:
    """Return a text as its words are compared."""
    if is_plain(text):
        return text
    text = _without_accents(text)
    if is_plain(text):
        return text
    composed = unicodedata.normalize("NFC", _INVISIBLE.sub("", text).translate(PLAIN_FORMS))
    return _without_accents(_ACCENTS.sub("", composed).replace(CAPITAL_I, "I"))


def traced(text: str) -> Traced:
    """Return a plain text with the place of each of its characters in the original text."""
    letters = _without_accents(text)
    if is_plain(letters):
        return Traced(letters, [*range(len(text))], [*range(1, len(text) + 1)])
    starts: list[int] = []
    ends: list[int] = []
    for start, end, length in _pieces(text):
        if length == end - start:
            starts += range(start, end)
            ends += range(start + 1, end + 1)
        else:
            starts += [start] * length
            ends += [end] * length
    return Traced(plain(text), starts, ends)


def _without_accents(text: str) -> str:
    """Return a text with PLAIN_LETTERS replaced. Each is one character as before, so the text keeps its length."""
    return _ACCENTED_LETTER.sub(lambda letter: PLAIN_LETTERS[ord(letter[0])], text)


def _pieces(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and plain length of pieces that become plain independently, in their order."""
    done = 0
    for extension in EXTENSION.finditer(text):
        start, end = max(done, extension.start() - 1), extension.end()
        if start > done:
            yield from _without_extension(text, done, start)
        yield start, end, _length(text[start:end])
        done = end
    if done < len(text):
        yield from _without_extension(text, done, len(text))


def _without_extension(text: str, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the pieces of a part of a text without extending characters."""
    for unusual in UNUSUAL.finditer(text, start, end):
        at = unusual.start()
        if at > start:
            yield start, at, at - start
        yield at, at + 1, _length(text[at])
        start = at + 1
    if start < end:
        yield start, end, end - start


@lru_cache(CACHED_PIECES)
def _length(piece: str) -> int:
    return len(plain(piece))
