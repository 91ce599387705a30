"""Asks several partitions at once, and says which did not answer."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from service.http.problems import Problem
from service.runtime.repeated_failures import RepeatedFailures

ANSWER_SECONDS = 2.0
"""Time after which a partition counts as away. A partition waits up to a second for the state that is asked for."""
AWAY_SECONDS = 1.0
"""Time for which a partition that was away is not asked; then a single request tries it."""


class Answer(Protocol):
    """The answer of a partition, which may not be there yet."""

    def result(self, timeout_s: float) -> Any:
        """Return the answer, or raise what the partition has raised, or an error after this time."""


class PartitionAddress(Protocol):
    """How a partition is reached."""

    def ask(self, request: str, *arguments: Any) -> Answer:
        """Send a request: the name of a method of `Partition`, with its arguments."""


class StillAway(Exception):
    """The partition was away just now, and was not asked again."""


class ThreadAnswer:
    """The answer of a partition in this process, which a thread computes."""

    def __init__(self, future: "Future[Any]") -> None:
        self._future = future

    def result(self, timeout_s: float) -> Any:
        return self._future.result(timeout_s)


class Calls:
    """The partitions, as coordinators ask them. Partition number n has the documents of part n."""

    def __init__(
        self,
        addresses: Sequence[PartitionAddress],
        answers_partially: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """answers_partially: whether a search is answered without the partitions that are away."""
        self._addresses = tuple(addresses)
        self._clock = clock
        self._asked_from = [0.0] * len(addresses)
        """The moment before which a partition that was away is not asked."""
        self._lock = threading.Lock()
        self._partially = answers_partially
        self._failures = [RepeatedFailures("partition_away") for _ in addresses]

    def __len__(self) -> int:
        return len(self._addresses)

    def all(self, request: str, *arguments: Any) -> list[Any]:
        """Ask all partitions the same; return an answer for each, None for one that is away.

        Raises Problem 503 `partitions_away` if all are away, or if one is and searches are not answered partially.
        """
        return self.each(request, [arguments] * len(self))

    def each(self, request: str, arguments: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        """Ask each partition with its own arguments; a partition without arguments is not asked and has no answer.

        Raises as `all` does.
        """
        asked = [None if own is None else self._asked(number, request, own) for number, own in enumerate(arguments)]
        answers = [None if one is None else self._answer(number, one) for number, one in enumerate(asked)]
        expected = [number for number, own in enumerate(arguments) if own is not None]
        missing = [number for number in expected if answers[number] is None]
        if missing and (len(missing) == len(self) or not self._partially):
            detail = f"{len(missing)} of {len(self)} partitions of the documents do not answer"
            raise Problem(503, "partitions_away", detail, headers={"Retry-After": "1"})
        return answers

    def _asked(self, number: int, request: str, arguments: tuple[Any, ...]) -> Answer | Exception:
        """Send a request, unless the partition was away just now: then a search would wait for nothing."""
        with self._lock:
            if self._clock() < self._asked_from[number]:
                return StillAway("the partition was away just now")
            if self._asked_from[number]:  # only this request tries it; the others do not wait with it
                self._asked_from[number] = self._clock() + ANSWER_SECONDS + AWAY_SECONDS
        try:
            return self._addresses[number].ask(request, *arguments)
        except Exception as error:
            return error

    def _answer(self, number: int, answer: Answer | Exception) -> Any:
        failures = self._failures[number]
        try:
            if isinstance(answer, Exception):
                raise answer
            found = answer.result(timeout_s=ANSWER_SECONDS)
        except Problem:  # it is an answer to the client
            raise
        except StillAway:
            return None
        except Exception as error:
            failures.failed(error)
            self._asked_from[number] = self._clock() + AWAY_SECONDS
            return None
        failures.succeeded()
        self._asked_from[number] = 0.0
        return found
