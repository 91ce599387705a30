"""The analyzers of texts: one for each language."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

import tantivy

STEMMED = (
    "arabic danish dutch english finnish french german greek hungarian italian norwegian portuguese romanian russian "
    "spanish swedish tamil turkish"
).split()
"""Languages with a stemmer."""
LANGUAGES = sorted([*STEMMED, "chinese", "japanese", "korean", "thai"])
"""Languages of a collection. The language `none` and those without a stemmer index words as they are written. In every
language, runs of Chinese, Japanese, Korean and Thai characters are cut into pairs (`index.words.tokens`)."""

MAX_WORD_BYTES = 200


def _with_vowel(vowels: str, vowel: str) -> Callable[[re.Match[str]], str]:
    """Return the replacement of an ending, the second group, by the ending with another vowel."""
    others = str.maketrans(dict.fromkeys(vowels, vowel))
    return lambda found: found[1] + found[2].translate(others)


IN_A, IN_E, IN_I, IN_O, IN_U = "aàáâãäåAÀÁÂÃÄÅ", "eèéêëEÈÉÊË", "iìíîïıIÌÍÎÏ", "oòóôõöOÒÓÔÕÖ", "uùúûüUÙÚÛÜ"
"""The vowels with their accents, as the insides of character classes: faster than patterns that ignore case."""
CONSONANT = f"[^{IN_A}{IN_E}{IN_I}{IN_O}{IN_U} ]"
BETWEEN = f"(?:{CONSONANT}+|(?<=[^ ]{{3}}))"
IN_EE, IN_OES = f"[{IN_E}][{IN_E}]", f"[{IN_O}][{IN_E}][sS]"
FRENCH_NOUNS = "bouch chauss chemin contr crim donn foul lign pens port poup tranch vall vend".split()
"""Frequent nouns in `ée` that mean something else than the word without the ending: `cheminée` is no `chemin`."""
NO_FRENCH_NOUN = "".join(rf"(?<!\b{noun}{IN_EE})" for noun in FRENCH_NOUNS)
FRENCH_IN_X = "adieu aveu cheveu feu jeu lieu neveu voeu vœu".split()
FRENCH_IN_S = "abu clo clu confu diffu dispo gro intru obtu propo refu repo".split()
"""Beginnings of words such as `gros` and `abus`, whose s is no plural."""
RUSSIAN_IN_K = "блок бек брелок водосток восток век знаток игрок исток мек поток порок приток пророк рек".split()
RUSSIAN_IN_K += "сек тек урок чеснок".split()
"""Ends of nouns that keep the vowel before the last letter, such as `потоки` and `аптек`."""
PORTUGUESE_IN_IS = "dema depo heró hero jama".split()
"""Beginnings of words in `is` that are no plurals of nouns in `l`."""
FRENCH_X, NO_FRENCH_S = (
    "|".join(rf"(?<=\b{noun})" for noun in FRENCH_IN_X),
    "".join(f"(?<!{one})" for one in FRENCH_IN_S),
)
NO_RUSSIAN_K = "".join(f"(?<!{noun[:-1]})" for noun in RUSSIAN_IN_K)
NO_PORTUGUESE_L = "".join(f"(?<!(?i:{one}))" for one in PORTUGUESE_IN_IS)
END = "(?=$| )"
ENDINGS: dict[str, Sequence[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]]] = {
    # والأسعار is الأسعار, and خدمات are خدمة
    "arabic": [
        (re.compile("(?<![^ ])[وف]ال(?=[^ ]{3})"), "ال"),
        (re.compile(f"(?<=[^ ]{{3}})ات{END}"), "ة"),
    ],
    "french": [
        # occupée is occupé, première is premier. Shorter words are nouns, such as musée (not muse) and bière.
        (re.compile(rf"[{IN_E}](?<=[^ ]{{4}}{IN_EE})(?=[sS]?(?: |$))(?i:{NO_FRENCH_NOUN})"), ""),
        (re.compile(f"[{IN_E}](?<=[^ ]{{4}}[{IN_I}][{IN_E}][rR].)(?=[sS]?(?: |$))"), ""),
        # photos, menus and jeux; shorter words, such as bus, are no plurals
        (re.compile(f"(?<=[^ ]{{2}}[{IN_O}{IN_U}])(?i:{NO_FRENCH_S}s{END})"), ""),
        (re.compile(f"(?i:(?:{FRENCH_X})x{END})"), ""),
    ],
    "portuguese": [
        # papéis is papel, azuis is azul, and infantis is infantil; mais is no plural
        (re.compile(f"(?<=[^ ]{{2}}[{IN_A}{IN_E}{IN_O}{IN_U}]){NO_PORTUGUESE_L}[{IN_I}][sS]{END}"), "l"),
        (re.compile(f"(?<=[^ ]{{3}}[tT])[{IN_I}][sS]{END}"), "il"),
        (re.compile(rf"(?<=\b[mM][{IN_A}][{IN_E}])[sS]{END}"), ""),
        (re.compile(rf"(?<=[{IN_A}])(?<!\b[mM][{IN_A}])[{IN_E}][sS]{END}"), "o"),  # pães is pão, mães is not mão
        (re.compile(rf"(?<=[{IN_A}][{IN_O}])(?<!\b[cC][{IN_A}][{IN_O}])[sS]{END}"), ""),  # mãos is mão, caos is not cão
        # estações is estação. Shorter words, such as pões, are no plurals; shoes and canoes are English ones.
        (re.compile(rf"{IN_OES}(?= |$)(?<=[^ ]{{5}})(?i:(?<!sh{IN_OES})(?<!\bcan{IN_OES}))"), "ao"),
    ],
    # подарок is подарки, and сумок are сумки
    "russian": [(re.compile(f"(?i:[ое](?=к{END})(?<=[^ ]{{2}}[бвгджзклмнпрстфхцчшщй].){NO_RUSSIAN_K})"), "")],
    # luz is luces, and sartenes is sartén
    "spanish": [
        (re.compile(f"[zZ]{END}"), "c"),
        (re.compile(f"(?<=[^ ]{{3}}[{IN_E}][nN])[{IN_E}][sS]{END}"), ""),
    ],
    # The vowel of a plural is like the one before it. Without accents kızlar is kizlar, and becomes kizler.
    # A syllable of a consonant and a vowel is no noun with a plural: the le of kolera stays.
    "turkish": [
        (re.compile(f"([{IN_I}]{BETWEEN}[lL])([{IN_A}][rR][^ ]*)"), _with_vowel(IN_A, "e")),
        (re.compile(f"([{IN_O}{IN_U}]{BETWEEN}[lL])([{IN_E}][rR][^ ]*)"), _with_vowel(IN_E, "a")),
    ],
}
"""Language -> endings that its stemmer knows with accents only, or not at all, and what stands for them. An ending
counts with and without accents, so that the stem of a word does not depend on whether they were typed. A stemmer that
sees the accents gives other stems to words without them."""


class Analyzer:
    """Makes the terms of documents and queries: in lower case, without accents, stemmed.

    It cuts at spaces only: its texts come from `index.words.tokens`.
    """

    def __init__(self, language: str) -> None:
        self.tokenizer = _tokenizer(language)
        """Makes the terms of a prepared text."""
        self._endings = ENDINGS.get(language, ())

    def prepared(self, text: str) -> str:
        """Return a text as `tokenizer` takes it."""
        for ending, other in self._endings:
            text = ending.sub(other, text)
        return text

    def analyze(self, text: str) -> list[str]:
        """Return the terms of a text, in order."""
        return self.tokenizer.analyze(self.prepared(text))


@lru_cache(64)
def analyzer_for(language: str) -> Analyzer:
    """Return the analyzer of a language."""
    return Analyzer(language)


def _tokenizer(language: str) -> tantivy.TextAnalyzer:
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
    builder = builder.filter(tantivy.Filter.remove_long(MAX_WORD_BYTES))
    builder = builder.filter(tantivy.Filter.lowercase()).filter(tantivy.Filter.ascii_fold())
    if language in STEMMED:
        builder = builder.filter(tantivy.Filter.stemmer(language))
    return builder.build()
