"""German participles: `gelöscht` of `löschen`, `abgemeldet` of `abmelden`, `bestellt` of `bestellen`.

A stemmer leaves `gelöscht` and `Löschung` as they are and makes `lösch` of `löschen`. The collection decides: a
participle stands for its verb where documents have the verb or its noun, so `Gesicht` is no form of `sich`. Participles
whose vowel changes, such as `gefunden`, are not formed. Words are written without umlauts here.
"""

import re
from collections.abc import Iterator

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


def other_forms(word: Word, vocabulary: Vocabulary) -> list[str]:
    """Return the terms of the other forms of a verb that documents have: the verb, its noun and its participle."""
    roots, written = set(_roots(word.folded)), []
    if verb := VERB.fullmatch(word.folded):
        prefix, root = verb[1] or "", verb[2]
        roots.add(prefix + root)
        written += _participles(prefix, root)
    verbs = [root + ending for root in sorted(roots) for ending in ENDINGS_OF_VERBS]
    written += [form for form, count in zip(verbs, vocabulary.counts(verbs), strict=True) if count]
    terms = {of[0] for of in map(vocabulary.stems, written) if len(of) == 1} - {word.term}
    vocabulary.learn(sorted(terms))
    return sorted(term for term in terms if vocabulary.term_count(term))


def _roots(word: str) -> Iterator[str]:
    """Yield the roots of which a word may be the participle, with their prefix: `abmeld` of `abgemeldete`."""
    for ending in ENDINGS_OF_ADJECTIVES:
        if word.endswith(ending):
            for form in PARTICIPLE:
                found = form.fullmatch(word.removesuffix(ending))
                if found is not None:
                    yield (found[1] or "") + found[2]


def _participles(prefix: str, root: str) -> list[str]:
    """Return how the participle of a verb may be written."""
    whole = prefix + root
    if re.fullmatch(NO_GE, whole):
        return [f"{whole}t", f"{whole}et"]
    made = [f"ge{whole}t", f"ge{whole}et"]  # the prefix may be a part of the root: `andern` has none
    return [*made, f"{prefix}ge{root}t", f"{prefix}ge{root}et", f"{prefix}ge{root}en"] if prefix else made
