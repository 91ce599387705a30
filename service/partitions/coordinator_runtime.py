"""The runtime of a coordinator: a searcher without documents, which asks the partitions."""

from typing import Any

from index.encoding.encoder import Encoder
from service.http.problems import Problem
from service.partitions.calls import Calls
from service.partitions.coordinator import Coordinator
from service.searchers.document_part import WITHOUT_DOCUMENTS
from service.searchers.searcher_runtime import SearcherRuntime
from service.settings import Settings


class CoordinatorRuntime(SearcherRuntime):
    """The parts of a coordinator. It has a copy of all rows that answers need but documents, keys and values."""

    calls = Calls((), answers_partially=True)
    """The partitions; none until `over` has set them."""

    @classmethod
    def over(cls, calls: Calls, settings: Settings, encoder: Encoder | None = None) -> "CoordinatorRuntime":
        """Start a coordinator of these partitions on its data directory, and wait for their first answers.

        Raises what `open` raises.
        """
        runtime = cls.open(settings, encoder, part=WITHOUT_DOCUMENTS)
        calls.reach()  # the first search does not wait for connections
        runtime.calls = calls
        runtime.answer_search = Coordinator(runtime, calls).answer
        return runtime

    def close(self) -> None:
        self.calls.close()
        super().close()

    @property
    def standing(self) -> dict[str, Any]:
        return super().standing | {"partitions": len(self.calls), "partitions_away": self.calls.away}

    @property
    def obstacle(self) -> Problem | None:
        return self.calls.obstacle
