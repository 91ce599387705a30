"""Makes many fits of heads without a query projection fast: what does not depend on the head is computed once.

Without a query projection, the candidates of a query and their dense evidence are the same for every head and for every
draw of labels. Inside `remembered_evidence` the fit reads them from memory. The trials, all choices and the gate run
as they do in the service. The null slot is not calibrated: no ranking and no decision of the gate depends on it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from index.generation.generation import Generation
from index.learning import examples, fit, held_out
from index.learning.examples import Feedback
from index.learning.held_out import ranked as searched
from index.learning.judgment_likelihood import ScoredRows
from index.ranking.attention import Attention, AttentionHead, Candidates, without_keys
from index.ranking.retrieval import CandidateSet, Query, assemble, retrieve
from index.ranking.search import project
from index.records import Floats, Ints

BATCH = 64


class RememberedEvidence:
    """Candidates and dense evidence by query, of one generation and of heads without a query projection."""

    def __init__(self) -> None:
        self._sets: dict[Any, CandidateSet] = {}
        self._evidence: dict[str, tuple[Ints, Floats, Candidates]] = {}
        self._batches: list[tuple[list[Ints], Floats, Candidates]] = []

    def retrieve(
        self, generation: Generation, query: Query, projected: Floats, required: Ints | None = None
    ) -> CandidateSet:
        """Return what `retrieval.retrieve` returns."""
        wanted = b"" if required is None else required.tobytes()
        name = (query.text, query.count, projected.tobytes(), wanted)
        if name not in self._sets:
            self._sets[name] = retrieve(generation, query, projected, required)
        return self._sets[name]

    def scored(self, generation: Generation, head: AttentionHead, one: Feedback) -> tuple[Ints, Floats]:
        """Return the rows of a full search (N,), best first, and their logits (N,). The head has no second hop."""
        if one.query_key not in self._evidence:
            query = one.as_query(signals=True)
            found = retrieve(generation, query, project(head, one.vector))
            inputs = assemble(generation, [found])
            dense = head.dense(one.vector[None], inputs)
            self._evidence[one.query_key] = (found.doc_indices, dense, without_keys(inputs))
        indices, dense, inputs = self._evidence[one.query_key]
        logits = _attended(head, dense, inputs).logits[0, :-1]
        order = np.lexsort((indices, -logits))
        return generation.rows[indices[order]], logits[order]

    def best(
        self, generation: Generation, head: AttentionHead, queries: Sequence[Feedback], count: int
    ) -> list[tuple[Ints, Floats]]:
        """Return the rows (count,) of the best documents of each query, best first, and their logits (count,).

        All calls are about the same queries.
        """
        if not self._batches:
            for start in range(0, len(queries), BATCH):
                part = queries[start : start + BATCH]
                asked = [one.as_query(signals=True) for one in part]
                sets = [retrieve(generation, one, project(head, one.vector)) for one in asked]
                inputs = assemble(generation, sets)
                dense = head.dense(np.stack([one.vector for one in part]), inputs)
                self._batches.append(([one.doc_indices for one in sets], dense, without_keys(inputs)))
        found = []
        for indices, dense, inputs in self._batches:
            attention = _attended(head, dense, inputs)
            order = np.argsort(-attention.logits[:, :-1], axis=1, kind="stable")[:, :count]
            for own, best, logits in zip(indices, order, attention.logits, strict=True):
                best = best[best < len(own)]
                found.append((generation.rows[own[best]], logits[best]))
        return found

    def ranked(self, generation: Generation, head: AttentionHead, one: Feedback) -> ScoredRows:
        """Return what `held_out.ranked` returns."""
        if head.hops:
            return searched(generation, head, one)
        rows, logits = self.scored(generation, head, one)
        return ScoredRows([str(row) for row in rows.tolist()], logits)


def _attended(head: AttentionHead, dense: Floats, inputs: Candidates) -> Attention:
    """Return the attention of a head without a second hop for known dense evidence."""
    return head.with_priors(head.with_trees(head.attend(dense, inputs), inputs), inputs)


@contextmanager
def remembered_evidence() -> Iterator[RememberedEvidence]:
    """Let fits read candidates and dense evidence from memory while the context is open."""
    memory = RememberedEvidence()
    with (
        patch.object(examples, "retrieve", memory.retrieve),
        patch.object(held_out, "ranked", memory.ranked),
        patch.object(fit, "calibrate_null", lambda generation, head, *_: head),
    ):
        yield memory
