"""Training examples from explored lists: for each query its candidates, and the lists over their places."""

from collections.abc import Callable, Sequence

import numpy as np

from index.generation.generation import Generation
from index.learning.examples import Example, Feedback, gains_of
from index.learning.slates import rewards_above_baseline, slate_arrays
from index.ranking.retrieval import retrieve
from index.records import Floats


def make_explored_examples(
    generation: Generation, feedback: Sequence[Feedback], project: Callable[[Floats], Floats], count: int
) -> list[Example]:
    """Return an example for each query with explored lists whose documents all exist.

    The candidates are `count` documents by keys, `count` by words, and all documents of the lists: the softmax of a
    choice is over them, and not over all candidates that the search had. The memory of the query is left out.
    """
    living = set(generation.rows[generation.alive].tolist())
    explored = [(one, [each for each in one.explored if living.issuperset(each.rows)]) for one in feedback]
    explored = [(one, slates) for one, slates in explored if slates]
    rewards = rewards_above_baseline([slates for _, slates in explored])
    examples = []
    for (one, slates), own in zip(explored, rewards, strict=True):
        rows = sorted({row for each in slates for row in each.rows})
        required = generation.doc_indices(np.asarray(rows, np.int64))
        candidates = retrieve(generation, one.as_query(count=count), project(one.vector), required=required)
        found = generation.rows[candidates.doc_indices]
        arrays = slate_arrays(slates, own, {row: place for place, row in enumerate(found.tolist())})
        none = np.zeros(len(found), np.float32)
        examples.append(Example(one, candidates, gains_of(one, found), none, none, arrays))
    return examples
