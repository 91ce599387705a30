"""The questions of the demonstration, with the documents that answer them."""

import hashlib
import json
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class Question:
    """A question in a user's words, and the ids of the documents that answer it."""

    text: str
    answers: tuple[str, ...]

    @property
    def held_out(self) -> bool:
        """Whether the question is in the third that is never posted as feedback. A hash of the text decides."""
        return hashlib.sha256(self.text.encode()).digest()[0] % 3 == 0


def read_questions() -> list[Question]:
    """Return the questions of the repository."""
    lines = files("service.demo").joinpath("questions.jsonl").read_text("utf-8").splitlines()
    return [Question(record["question"], tuple(record["answers"])) for record in map(json.loads, lines)]
