"""German participles: `gelöscht` of `löschen`, `abgemeldet` of `abmelden`, `bestellt` of `bestellen`.

A stemmer leaves `gelöscht` and `Löschung` as they are and makes `lösch` of `löschen`. The collection decides: a
participle stands for a verb where documents have the verb or its noun. Participles whose vowel changes, such as
`gefunden`, are not formed. Nothing tells a noun from a verb, so `Rechen` stands for `gerecht` too: such a form counts
less than the word itself, and takes nothing from its weight. Words are written without umlauts here.
"""

import re
from collections.abc import Iterator, Sequence

from index.words.vocabulary import Vocabulary
from index.words.word import Word

PARTICIPLES = frozenset({"german"})
"""Languages whose participles and verbs stand for each other."""
SEPARABLE = (
    "zurueck|zuruck|weiter|wieder|zusammen|hinzu|herunter|hoch|frei|fest|fort|nach|auf|aus|bei|ein|her|hin|los|mit|vor|"
    "weg|ab|an|um|zu"
)
"""Prefixes before the `ge` of a participle."""
NO_GE = r"(?:be|emp|ent|er|miss|ueber|uber|unter|ver|zer)\w{3,}|\w{2,}ier"
"""Roots of verbs whose participle has no `ge`."""
PARTICIPLE = (
    re.compile(rf"({SEPARABLE})?ge(\w{{3,}}?)e?t"),
    re.compile(rf"({SEPARABLE})ge(\w{{3,}})en"),
    re.compile(rf"()((?:{NO_GE}))e?t"),
)
"""The forms of a participle. Its groups are the prefix and the root."""
ENDINGS_OF_ADJECTIVES = ("", "e", "er", "es", "em", "en")
VERB = re.compile(rf"({SEPARABLE})?(\w{{3,}}?)(?:en|(?<=[lr])n|ung|ungen)")
ENDINGS_OF_VERBS = ("en", "n", "ung", "ungen")


def other_forms(words: Sequence[Word], vocabulary: Vocabulary) -> list[list[str]]:
    """Return for each word the terms of the other forms of its verb that documents have: verb, noun and participle.

    The words of a query are looked up together: each look-up may be a call to other machines.
    """
    verbs = [_verbs(word.folded) for word in words]
    counted = dict.fromkeys(form for of in verbs for form in of)
    counts = dict(zip(counted, vocabulary.counts(list(counted)), strict=True))
    written = [
        [form for form in of if counts[form]] + _participles(word.folded) for of, word in zip(verbs, words, strict=True)
    ]
    terms = [{of[0] for of in map(vocabulary.stems, forms) if len(of) == 1} for forms in written]
    vocabulary.learn(sorted(set().union(*terms)))
    return [
        sorted(term for term in of - {word.term} if vocabulary.term_count(term))
        for of, word in zip(terms, words, strict=True)
    ]


def _verbs(word: str) -> list[str]:
    """Return how the verb, and its noun, may be written of which a word is a form."""
    verb = VERB.fullmatch(word)
    roots = {*_roots(word), *(() if verb is None else [(verb[1] or "") + verb[2]])}
    return [root + ending for root in sorted(roots) for ending in ENDINGS_OF_VERBS]


def _roots(word: str) -> Iterator[str]:
    """Yield the roots of which a word may be the participle, with their prefix: `abmeld` of `abgemeldete`."""
    for ending in ENDINGS_OF_ADJECTIVES:
        if word.endswith(ending):
            for form in PARTICIPLE:
                found = form.fullmatch(word.removesuffix(ending))
                if found is not None:
                    yield (found[1] or "") + found[2]


def _participles(word: str) -> list[str]:
    """Return how the participle of a verb may be written."""
    verb = VERB.fullmatch(word)
    if verb is None:
        return []
    prefix, root = verb[1] or "", verb[2]
    whole = prefix + root
    if re.fullmatch(NO_GE, whole):
        return [f"{whole}t", f"{whole}et"]
    made = [f"ge{whole}t", f"ge{whole}et"]  # the prefix may be a part of the root: `andern` has none
    return [*made, f"{prefix}ge{root}t", f"{prefix}ge{root}et", f"{prefix}ge{root}en"] if prefix else made
