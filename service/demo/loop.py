"""The learning loop on real text: index, measure, give feedback, measure, train, measure.

The documents are the docstrings of the running Python. The questions were written by hand. A third of them is held out:
it is never posted as feedback, and all results are measured on it.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from index.ranking.attention import AttentionHead
from index.ranking.retrieval import Mode, Query, as_searched
from index.ranking.search import search
from service.collections.actions import remove
from service.demo.documents import gather_documents
from service.demo.questions import Question, read_questions
from service.demo.results import COLLECTION, TRAINED, UNTRAINED, Outcome, figures, show_results
from service.documents.acceptance import accept
from service.documents.indexing import make_searchable
from service.documents.repository import ids_by_row
from service.feedback.actions import take_judgments
from service.feedback.schemas import MAX_ITEMS
from service.runtime.collection import CollectionState
from service.runtime.collection_settings import CollectionSettings
from service.runtime.model_files import load_version
from service.runtime.runtime import Runtime
from service.settings import load_settings
from service.training import actions as training
from service.training.schemas import TrainingIn

BATCH = 512


def run_demo(data: Path | None, console: Console, quiet: bool = False) -> dict[str, Any]:
    """Run the loop in a data directory, print the results unless quiet, and return the figures.

    The collection `stdlib` is created anew. Other collections of the directory do not change.
    """
    outcome = Outcome()
    questions = read_questions()
    held_out = [question for question in questions if question.held_out]
    bars = Progress(
        TextColumn("{task.description:<34}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )
    with bars:
        with _step(outcome, bars, "gather docstrings", 1):
            documents = gather_documents()
        with _step(outcome, bars, "start, load the encoder", 1):
            settings = load_settings(data=data)
            runtime = Runtime.open(settings)
        try:
            state = _new_collection(runtime)
            _learn(runtime, state, documents, questions, outcome, bars)
        finally:
            with _step(outcome, bars, "save", 1):
                runtime.close()
    counts = {"documents": len(documents), "questions": len(questions), "held_out": len(held_out)}
    results = figures(outcome, held_out) | counts
    if not quiet:
        show_results(console, results, settings.data)
    return results


def _learn(
    runtime: Runtime,
    state: CollectionState,
    documents: list[dict[str, Any]],
    questions: list[Question],
    outcome: Outcome,
    bars: Progress,
) -> None:
    held_out = [question for question in questions if question.held_out]
    feedback = [question for question in questions if not question.held_out]
    with _step(outcome, bars, "encode and index documents", len(documents)) as advance:
        for start in range(0, len(documents), BATCH):
            accepted = accept(runtime, state, documents[start : start + BATCH])
            make_searchable(runtime, state, accepted.sequences, advance)
    with _step(outcome, bars, "measure words, dense, hybrid", 3 * len(held_out)) as advance:
        outcome.runs["words (BM25)"] = _run(runtime, state, held_out, Mode.WORDS, advance)
        outcome.runs["dense (MiniLM)"] = _run(runtime, state, held_out, Mode.DENSE, advance)
        outcome.runs[UNTRAINED] = _run(runtime, state, held_out, Mode.HYBRID, advance)
    with _step(outcome, bars, "post feedback", len(feedback)) as advance:
        _judge(runtime, state, feedback, advance)
    with _step(outcome, bars, "measure with feedback as memory", len(held_out)) as advance:
        outcome.runs["+ feedback as memory"] = _run(runtime, state, held_out, Mode.HYBRID, advance)
    with _step(outcome, bars, "train", 100) as advance:
        outcome.run_record = _train(runtime, state, advance)
    with _step(outcome, bars, "measure after training", len(held_out)) as advance:
        head = state.serving.head
        version = outcome.run_record["model_version"]
        if version is not None:  # the new model is measured even if it was not promoted; the table marks it
            with runtime.database.read() as connection:
                head = load_version(connection, state.id, state.initial, version)
        outcome.runs[TRAINED] = _run(runtime, state, held_out, Mode.HYBRID, advance, head)


@contextmanager
def _step(outcome: Outcome, bars: Progress, name: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show and time a step; yields a function that advances its bar. The bar is complete at the end of the step."""
    task = bars.add_task(name, total=total)
    started = time.perf_counter()
    yield lambda count: bars.advance(task, count)
    outcome.seconds[name] = round(time.perf_counter() - started, 2)
    bars.update(task, completed=total)


def _new_collection(runtime: Runtime) -> CollectionState:
    if COLLECTION in runtime.collections:
        runtime.jobs.wait(remove(runtime, COLLECTION), 60)
    return runtime.create_collection(COLLECTION, CollectionSettings(filterable=["module", "kind"]))


def _run(
    runtime: Runtime,
    state: CollectionState,
    questions: list[Question],
    mode: Mode,
    advance: Callable[[int], None],
    head: AttentionHead | None = None,
) -> dict[str, list[str]]:
    """Return the ids of the first 100 documents for each question."""
    run = {}
    for question in questions:
        generation = state.generation
        query = Query(question.text, np.zeros(generation.dim, np.float32), mode)
        query = as_searched(generation, query, runtime.encoded_query)
        ranking = search(generation, head or state.serving.head, query)
        run[question.text] = [int(row) for row in generation.rows[ranking.doc_indices[:100]]]
        advance(1)
    with runtime.database.read() as connection:
        ids = ids_by_row(connection, state.id)
    return {text: [ids[row] for row in rows] for text, rows in run.items()}


def _judge(runtime: Runtime, state: CollectionState, questions: list[Question], advance: Callable[[int], None]) -> None:
    """Post a judgment for each answer of the questions."""
    for start in range(0, len(questions), BATCH):
        part = questions[start : start + BATCH]
        judgments = [
            {"query": question.text, "document_id": answer, "rating": 3, "rater": "demo"}
            for question in part
            for answer in question.answers
        ]
        for first in range(0, len(judgments), MAX_ITEMS):
            take_judgments(runtime, state, judgments[first : first + MAX_ITEMS])
        advance(len(part))


def _train(runtime: Runtime, state: CollectionState, advance: Callable[[int], None]) -> dict[str, Any]:
    """Return the record of a training run when it has ended."""
    record = training.start(runtime, state, TrainingIn())
    shown = 0
    while record["status"] not in training.ENDED:
        time.sleep(0.3)
        record = training.show(runtime, state, record["id"])
        # the number of phases is unknown: the bar approaches 100 % and does not exceed it
        percent = max(shown, int(100 * (1 - 0.97 ** len(record["steps"]))))
        advance(percent - shown)
        shown = percent
    return record
