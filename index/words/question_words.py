"""The words with which people ask: they say what kind of answer is wanted, and not what it is about.

In a collection of short titles `how` and `my` are rare, so that a document that shares `how do I … my` with a question
has more evidence by words than the document that answers it. The encoder reads the whole question.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from index.characters import APOSTROPHES
from index.words.word import Word

LEAST_LEFT = 2
"""The words that are left of a question, at least: `the who` keeps all words."""


@dataclass(frozen=True)
class QuestionWords:
    """The folded words of questions in a language.

    askers: words that make a text a question or a request. subjects: who asks or is asked. owners: other forms of
    these. verbs: verbs of questions, only beside an asker or a subject: neither a trash can nor my can is a question.
    """

    askers: frozenset[str]
    subjects: frozenset[str]
    owners: frozenset[str]
    verbs: frozenset[str]

    def found_in(self, folded: Sequence[str]) -> set[int]:
        """Return the positions of the words of a question in a text; none if it is no question."""
        beside = self.askers | self.subjects
        verbs = {
            at
            for at, word in enumerate(folded)
            if word in self.verbs and not beside.isdisjoint((*folded[max(0, at - 1) : at], *folded[at + 1 : at + 2]))
        }
        if not verbs and self.askers.isdisjoint(folded):
            return set()
        asking = beside | self.owners
        return verbs | {at for at, word in enumerate(folded) if word in asking}


def without_question_words(text: str, words: list[Word], kept: Collection[int], of: QuestionWords) -> list[Word]:
    """Return the words of a query without those of a question; all if fewer than LEAST_LEFT would be left.

    kept: positions that stay. What an apostrophe joins to such a word is left out with it: `can't` has no `t`.
    """
    found = of.found_in([word.folded for word in words]).difference(kept)
    left = []
    for at, word in enumerate(words):
        is_joined = at - 1 in found and text[word.token.start - 1] in APOSTROPHES
        if is_joined:
            found.add(at)
        if at not in found:
            left.append(word)
    return left if len(left) >= LEAST_LEFT else words


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


QUESTION_WORDS = {
    "english": QuestionWords(
        _words("how what which who whom whose when where why please"),
        _words("i we you"),
        _words("me my our your"),
        _words("do does did don doesn didn can could should would will shall may must"),
    ),
    "german": QuestionWords(
        _words(
            "wie was wo wer wem wen wann warum wieso weshalb wozu womit wofur welche welchen welchem welcher "
            "welches bitte"
        ),
        _words("ich wir man du sie"),
        _words(
            "mich mir mein meine meinem meinen meiner meines uns unser unsere unserem unseren dir dich dein deine "
            "deinem deinen deiner ihr ihre ihrem ihren ihrer"
        ),
        _words(
            "kann kannst konnen koennen konnt konnte konnten koennte muss mussen muessen soll sollen sollte darf "
            "durfen duerfen mochte mochten moechte moechten will wollen habe"
        ),
    ),
}
"""Language -> its words of questions."""
