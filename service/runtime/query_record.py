"""The feedback of one query text, while a log is read: grades by document row, and counts of showings and clicks."""

from collections import Counter, defaultdict
from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from index.learning.contrasts import add_showing
from index.learning.examples import InContext, Solved
from index.learning.slates import Slate
from index.memory.click_worth import POSITIONS

MAX_POSITIONS = 1 << 20
"""More than any position. A row and a position are counted under the key `row * MAX_POSITIONS + position`."""


@dataclass(slots=True)
class Action:
    """The grade that a client gives to a document of a list, as of the client's last event."""

    query_key: str
    text: str
    row: int
    grade: float


@dataclass
class QueryRecord:
    """The feedback of a query text: grades by document row, and the positions of showings and clicks."""

    text: str
    ratings: dict[int, list[int]] = field(default_factory=dict)
    """Row -> ratings of the judgments."""
    listed_grades: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    """Row -> sum of the grades given on known lists."""
    unlisted_grades: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    """Row -> sum of the grades given without a known list."""
    shown: Counter[int] = field(default_factory=Counter)
    """Row and position (`MAX_POSITIONS`) -> number of lists that showed the document there."""
    clicks: Counter[int] = field(default_factory=Counter)
    """Row and position (`MAX_POSITIONS`) -> number of clicks on the document there."""
    clients: dict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    """Row -> number of a client -> clicks of this client."""
    examined: set[int] = field(default_factory=set)
    """Rows shown down to one position below the lowest click of a list."""
    sessions: list[Solved] = field(default_factory=list)
    """Lists of searches that a client reported as solved."""
    contexts: list[InContext] = field(default_factory=list)
    """The newest lists with a click that were shown in a session after other actions."""
    explored: list[Slate] = field(default_factory=list)
    """The newest explored lists, only for a run that learns from them."""
    places: dict[int, dict[int, tuple[int, int]]] = field(default_factory=dict)
    """Row with an action -> position, at most POSITIONS -> number of the showings there, and of those that the searcher
    clicked, so far."""
    contrasts: dict[int, float] = field(default_factory=dict)
    """The sums of `index.learning.contrasts.add_showing` over the rows with an action."""

    @property
    def is_judged(self) -> bool:
        """Whether a judgment rates a document above 0."""
        return any(max(ratings) > 0 for ratings in self.ratings.values())

    @property
    def is_useful(self) -> bool:
        """Whether training can learn from the record: it has a confirmed document or a solved session."""
        return (
            self.is_judged
            or bool(self.sessions)
            or any(map(self.confirmed, (self.listed_grades, self.unlisted_grades)))
        )

    @property
    def clients_of_unrated(self) -> dict[int, Counter[int]]:
        """`clients` without rated documents, like the clicks that training gets."""
        return {row: of for row, of in self.clients.items() if row not in self.ratings}

    def compare(self, positions: Mapping[int, int], clicked: Container[int]) -> None:
        """Compare a list with the earlier ones. positions: row -> position. clicked: rows that the searcher clicked.

        Clicks of others on the same list do not count: the chance that somebody clicks is no product of examination and
        attraction.
        """
        for row, earlier in self.places.items():
            if row not in positions:
                continue
            position = min(positions[row], POSITIONS)
            if earlier:
                add_showing(self.contrasts, earlier, position, row in clicked)
            shown, clicks = earlier.get(position, (0, 0))
            earlier[position] = shown + 1, clicks + (row in clicked)

    def confirmed(self, grades: Mapping[int, float]) -> dict[int, float]:
        """Return the grades above 0, without rated documents: where no rating is above 0, they were rejected."""
        return {row: grade for row, grade in grades.items() if grade > 0 and row not in self.ratings}
