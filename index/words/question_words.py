"""The words with which people ask: they say what kind of answer is wanted, and not what it is about.

In a collection of short titles `how` and `my` are rare, so that a document that shares `how do I … my` with a question
has more evidence by words than the one that answers it. The encoder reads the whole question.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from index.words.word import Word

LEAST_LEFT = 2
"""The words that are left of a question, at least: `the who` keeps all words."""


@dataclass(frozen=True)
class QuestionWords:
    """The folded words of questions in a language.

    askers: words that make a text a question or a request. people: who asks and is asked. verbs: verbs of questions,
    only beside an asker or a person: a trash can is no question.
    """

    askers: frozenset[str]
    people: frozenset[str]
    verbs: frozenset[str]

    def removed_from(self, words: list[Word]) -> list[Word]:
        """Return the words of a query without those of a question; all if fewer than LEAST_LEFT would be left."""
        folded = [word.folded for word in words]
        verbs = {at for at, word in enumerate(folded) if word in self.verbs and self._is_asked(folded, at)}
        if not verbs and self.askers.isdisjoint(folded):
            return words
        asking = self.askers | self.people
        left = [word for at, word in enumerate(words) if at not in verbs and folded[at] not in asking]
        return left if len(left) >= LEAST_LEFT else words

    def _is_asked(self, folded: Sequence[str], at: int) -> bool:
        """Return whether an asker or a person stands beside the word at this position."""
        beside = {*folded[max(0, at - 1) : at], *folded[at + 1 : at + 2]}
        return not beside.isdisjoint(self.askers | self.people)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


QUESTION_WORDS = {
    "english": QuestionWords(
        _words("how what which who whom whose when where why please"),
        _words("i me my we us our you your"),
        _words("do does did can could should would will shall may must"),
    ),
    "german": QuestionWords(
        _words("wie was wo wer wann warum wieso weshalb wozu welche welchen welchem welcher welches bitte"),
        _words("ich mich mir mein meine meinem meinen meiner meines wir uns unser unsere unserem unseren man"),
        _words(
            "kann kannst konnen koennen konnt konnte konnten muss mussen muessen soll sollen sollte darf durfen "
            "duerfen mochte moechte will wollen habe"
        ),
    ),
}
"""Language -> its words of questions."""
