"""Asks several partitions at once, and says which did not answer."""

import threading
import time
from collections.abc import Sequence
from typing import Any, Protocol

from service.http.problems import Problem
from service.runtime.repeated_failures import RepeatedFailures

LEAST_SECONDS = 0.001
ANSWER_SECONDS = 2.0
"""Time after which a partition counts as away. A partition waits up to a second for the state that is asked for."""
SLOW_SECONDS = 10.0
SLOW = frozenset({"select", "with_prefix", "first_values", "has_others"})
"""Requests that may take longer, such as the first facets after a start; their time-out does not mean absence."""
FIRST_SECONDS = 30.0
"""Time for the first answers of the partitions: a handle of Ray Serve looks for its replicas then."""
PROBE_SECONDS = 0.2
"""Pause between two attempts to reach a partition that is away."""


class Answer(Protocol):
    """The answer of a partition, which may not be there yet."""

    def result(self, timeout_s: float) -> Any:
        """Return the answer, or raise what the partition has raised, or an error after this time."""


class PartitionAddress(Protocol):
    """How a partition is reached."""

    def ask(self, request: str, *arguments: Any) -> Answer:
        """Send a request: the name of a method of `Partition`, with its arguments."""


class StillAway(Exception):
    """The partition is away, and was not asked."""


class Calls:
    """The partitions, as coordinators ask them. Partition number n has the documents of part n."""

    def __init__(self, addresses: Sequence[PartitionAddress], answers_partially: bool) -> None:
        """answers_partially: whether a search is answered without the partitions that are away."""
        self._addresses = tuple(addresses)
        self._partially = answers_partially
        self._failures = [RepeatedFailures("partition_away") for _ in addresses]
        self._away: set[int] = set()
        """Partitions that did not answer, which a thread tries to reach; searches do not wait for them."""
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def __len__(self) -> int:
        return len(self._addresses)

    @property
    def away(self) -> int:
        """The number of partitions that did not answer, and are not asked until they do."""
        return len(self._away)

    @property
    def obstacle(self) -> Problem | None:
        """Why no search is answered now; None if searches are."""
        away = self.away
        return self._refusal(away) if away and (away == len(self) or not self._partially) else None

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
        end = time.monotonic() + (SLOW_SECONDS if request in SLOW else ANSWER_SECONDS)
        answers = [None if one is None else self._answer(number, request, one, end) for number, one in enumerate(asked)]
        expected = [number for number, own in enumerate(arguments) if own is not None]
        missing = [number for number in expected if answers[number] is None]
        if missing and (len(missing) == len(self) or not self._partially):
            raise self._refusal(len(missing))
        return answers

    def _refusal(self, missing: int) -> Problem:
        detail = f"{missing} of {len(self)} partitions of the documents do not answer"
        return Problem(503, "partitions_away", detail, headers={"Retry-After": "1"})

    def reach(self) -> None:
        """Wait until every partition has answered once. One that does not answer in 30 seconds is away."""
        asked = [self._asked(number, "ping", ()) for number in range(len(self))]
        end = time.monotonic() + FIRST_SECONDS
        for number, answer in enumerate(asked):
            self._answer(number, "ping", answer, end)

    def close(self) -> None:
        """Try no longer to reach partitions that are away."""
        self._ended.set()

    def _asked(self, number: int, request: str, arguments: tuple[Any, ...]) -> Answer | Exception:
        """Send a request, unless the partition is away: then a search would wait for nothing."""
        if number in self._away:
            return StillAway("the partition is away")
        try:
            return self._addresses[number].ask(request, *arguments)
        except Exception as error:
            return error

    def _answer(self, number: int, request: str, answer: Answer | Exception, end: float) -> Any:
        """Return an answer that is there at a moment, by `time.monotonic`; None where it is not.

        A partition that is not reached, or is too slow, is left out of later searches too. A partition that answers
        with an error is left out of this answer alone.
        """
        failures = self._failures[number]
        try:
            if isinstance(answer, Exception):
                raise answer
            found = answer.result(timeout_s=max(LEAST_SECONDS, end - time.monotonic()))
        except Problem:  # it is an answer to the client
            raise
        except StillAway:
            return None
        except Exception as error:
            failures.failed(error)
            if isinstance(error, ConnectionError) or (isinstance(error, TimeoutError) and request not in SLOW):
                self._leave_out(number)
            return None
        failures.succeeded()
        return found

    def _leave_out(self, number: int) -> None:
        with self._lock:
            if number in self._away:
                return
            self._away.add(number)
        threading.Thread(target=self._reach, args=(number,), name=f"partition-{number}", daemon=True).start()

    def _reach(self, number: int) -> None:
        """Try to reach a partition until it answers."""
        while not self._ended.wait(PROBE_SECONDS):
            try:
                self._addresses[number].ask("ping").result(timeout_s=ANSWER_SECONDS)
            except Exception as error:
                self._failures[number].failed(error)
            else:
                with self._lock:
                    self._away.discard(number)
                return
