"""The whole loop on real text: index, measure, give feedback, measure, train, measure; then show what was learned.

The documents are the docstrings of this machine's Python. The questions were written by hand; a third of them, chosen
by a hash of their text, is never posted as feedback, and all that is printed is measured on that third.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sqlalchemy import select

from index.evaluation.measures import compare_runs, measure_run
from index.evaluation.significance import Comparison, interval
from index.ranking.attention import AttentionHead
from index.ranking.retrieval import Mode
from index.ranking.search import Query, search
from service.collections.actions import remove
from service.demo.documents import gather_documents
from service.documents.actions import accept, make_searchable
from service.feedback.actions import take_judgments
from service.runtime.collection import CollectionState
from service.runtime.collection_settings import CollectionSettings
from service.runtime.model_files import load_version
from service.runtime.runtime import Runtime
from service.settings import load_settings
from service.storage.tables import Document
from service.training import actions as training
from service.training.schemas import TrainingIn

COLLECTION = "stdlib"
MEASURES = ("nDCG@10", "R@100")
BATCH = 512
EXAMPLES = 3


@dataclass(frozen=True)
class Question:
    """A question in a user's words, and the ids of the documents that answer it."""

    text: str
    answers: tuple[str, ...]

    @property
    def held_out(self) -> bool:
        """Whether it belongs to the third that feedback never shows."""
        return hashlib.sha256(self.text.encode()).digest()[0] % 3 == 0


@dataclass
class Outcome:
    """What the demo found: a ranked list of ids per system and held-out question, and the seconds of each step."""

    runs: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    run_record: dict[str, Any] = field(default_factory=dict)


def read_questions() -> list[Question]:
    """Return the committed questions."""
    lines = files("service.demo").joinpath("questions.jsonl").read_text("utf-8").splitlines()
    return [Question(one["question"], tuple(one["answers"])) for one in map(json.loads, lines)]


def run_demo(data: Path | None, console: Console, quiet: bool = False) -> dict[str, Any]:
    """Run the loop in a data directory and print what was learned; return the figures.

    The collection `stdlib` is made anew; other collections of the directory stay as they are.
    """
    outcome = Outcome()
    questions = read_questions()
    held_out = [question for question in questions if question.held_out]
    bars = Progress(
        TextColumn("{task.description:<34}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )
    with bars:
        with _step(outcome, bars, "gather docstrings", 1) as done:
            documents = gather_documents()
            done(1)
        with _step(outcome, bars, "start, load the encoder", 1) as done:
            settings = load_settings(data=data)
            runtime = Runtime.open(settings)
            done(1)
        try:
            state = _fresh_collection(runtime)
            _learn(runtime, state, documents, questions, outcome, bars)
        finally:
            with _step(outcome, bars, "save", 1) as done:
                runtime.close()
                done(1)
    figures = _figures(outcome, held_out)
    if not quiet:
        _print(console, figures, outcome, documents, questions, settings.data)
    return figures | {"documents": len(documents), "questions": len(questions), "held_out": len(held_out)}


def _learn(
    runtime: Runtime,
    state: CollectionState,
    documents: list[dict[str, Any]],
    questions: list[Question],
    outcome: Outcome,
    bars: Progress,
) -> None:
    held_out = [question for question in questions if question.held_out]
    shown = [question for question in questions if not question.held_out]
    with _step(outcome, bars, "encode and index documents", len(documents)) as done:
        for start in range(0, len(documents), BATCH):
            accepted = accept(runtime, state, documents[start : start + BATCH])
            make_searchable(runtime, state, accepted.sequences, done)
    with _step(outcome, bars, "measure words, dense, hybrid", 3 * len(held_out)) as done:
        outcome.runs["words (BM25)"] = _run(runtime, state, held_out, Mode.WORDS, done)
        outcome.runs["dense (MiniLM)"] = _run(runtime, state, held_out, Mode.DENSE, done)
        outcome.runs["hybrid, day one"] = _run(runtime, state, held_out, Mode.HYBRID, done)
    with _step(outcome, bars, "post feedback", len(shown)) as done:
        for start in range(0, len(shown), BATCH):
            part = shown[start : start + BATCH]
            judgments = [
                {"query": question.text, "document_id": answer, "rating": 3, "rater": "demo"}
                for question in part
                for answer in question.answers
            ]
            for first in range(0, len(judgments), 1000):
                take_judgments(runtime, state, judgments[first : first + 1000])
            done(len(part))
    with _step(outcome, bars, "measure with feedback as memory", len(held_out)) as done:
        outcome.runs["+ feedback as memory"] = _run(runtime, state, held_out, Mode.HYBRID, done)
    with _step(outcome, bars, "train", 100) as done:
        outcome.run_record = _train(runtime, state, done)
    with _step(outcome, bars, "measure after training", len(held_out)) as done:
        head = state.serving.head
        version = outcome.run_record["model_version"]
        if version is not None:  # also when the gate kept it from going live: the table says so
            head = load_version(state.id, state.initial, version, runtime.settings.data)
        outcome.runs["+ training"] = _run(runtime, state, held_out, Mode.HYBRID, done, head)


@contextmanager
def _step(outcome: Outcome, bars: Progress, name: str, total: int) -> Iterator[Callable[[int], None]]:
    task = bars.add_task(name, total=total)
    started = time.perf_counter()
    yield lambda count: bars.advance(task, count)
    outcome.seconds[name] = round(time.perf_counter() - started, 2)
    bars.update(task, completed=total)


def _fresh_collection(runtime: Runtime) -> CollectionState:
    if COLLECTION in runtime.collections:
        runtime.jobs.wait(remove(runtime, COLLECTION), 60)
    return runtime.create_collection(COLLECTION, CollectionSettings(filterable=["module", "kind"]))


def _run(
    runtime: Runtime,
    state: CollectionState,
    questions: list[Question],
    mode: Mode,
    done: Callable[[int], None],
    head: AttentionHead | None = None,
) -> dict[str, list[str]]:
    run = {}
    for question in questions:
        generation = state.generation
        query = Query(question.text, runtime.query_vector(question.text), mode)
        ranking = search(generation, head or state.serving.head, query)
        run[question.text] = [str(row) for row in generation.rows[ranking.doc_indices[:100]]]
        done(1)
    ids = _ids(runtime, state)
    return {text: [ids[row] for row in rows] for text, rows in run.items()}


def _ids(runtime: Runtime, state: CollectionState) -> dict[str, str]:
    with runtime.database.read() as connection:
        found = connection.execute(select(Document.row, Document.id).where(Document.collection_id == state.id))
        return {str(row.row): row.id for row in found}


def _train(runtime: Runtime, state: CollectionState, done: Callable[[int], None]) -> dict[str, Any]:
    record = training.start(runtime, state, TrainingIn())
    told = 0
    while record["status"] not in training.ENDED:
        time.sleep(0.3)
        record = training.show(runtime, state, record["id"])
        # phases follow each other and their number is not known beforehand: approach the end, never pass it
        reached = int(100 * (1 - 0.97 ** len(record["steps"])))
        done(max(0, reached - told))
        told = max(told, reached)
    return record


def _figures(outcome: Outcome, held_out: list[Question]) -> dict[str, Any]:
    qrels = {question.text: dict.fromkeys(question.answers, 1) for question in held_out}
    systems: dict[str, Any] = {}
    for name, run in outcome.runs.items():
        systems[name] = {}
        for measure, values in measure_run(run, qrels, MEASURES).items():
            array = np.asarray(list(values.values()), float)
            low, high = interval(array)
            systems[name][measure] = {"mean": float(array.mean()), "low": low, "high": high}
    gain = compare_runs(outcome.runs["hybrid, day one"], outcome.runs["+ training"], qrels, MEASURES)
    record = outcome.run_record
    return {
        "systems": systems,
        "gain": {name: comparison.as_dict() for name, comparison in gain.items()},
        "decision": record["decision"] | {"status": record["status"], "error": record["error"]},
        "train_seconds": record["report"].get("train_seconds"),
        "seconds": outcome.seconds,
        "seconds_total": round(sum(outcome.seconds.values()), 1),
        "examples": _examples(outcome, held_out),
    }


def _examples(outcome: Outcome, held_out: list[Question]) -> list[dict[str, Any]]:
    """Return the held-out questions whose first right answer climbed most."""
    before, after = outcome.runs["hybrid, day one"], outcome.runs["+ training"]
    climbs = []
    for question in held_out:
        ranks = [_rank(run[question.text], question.answers) for run in (before, after)]
        climbs.append((1 / ranks[1] - 1 / ranks[0], question, ranks))
    climbs.sort(key=lambda climb: (-climb[0], climb[1].text))
    return [
        {
            "question": question.text,
            "answers": list(question.answers),
            "rank_before": ranks[0],
            "rank_after": ranks[1],
            "before": before[question.text][:3],
            "after": after[question.text][:3],
        }
        for _, question, ranks in climbs[:EXAMPLES]
    ]


def _rank(run: list[str], answers: tuple[str, ...]) -> int:
    places = [place for place, document in enumerate(run, 1) if document in answers]
    return min(places, default=1000)


def _print(
    console: Console,
    figures: dict[str, Any],
    outcome: Outcome,
    documents: list[dict[str, Any]],
    questions: list[Question],
    data: Path,
) -> None:
    held_out = sum(question.held_out for question in questions)
    console.print(
        f"\n{len(documents)} docstrings, {len(questions)} questions; measured on the {held_out} that feedback never "
        "showed, with 95 % intervals:"
    )
    table = Table()
    for column in ("", *MEASURES):
        table.add_column(column)
    for name, measures in figures["systems"].items():
        cells = [f"{one['mean']:.3f} [{one['low']:.3f}, {one['high']:.3f}]" for one in measures.values()]
        waiting = name == "+ training" and not figures["decision"].get("promoted")
        table.add_row(f"{name} (not live)" if waiting else name, *cells)
    console.print(table)
    gain = Comparison(**figures["gain"]["nDCG@10"])
    console.print(
        f"gained over day one: nDCG@10 {gain.difference:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}], "
        f"p = {gain.p_value:.2g}"
    )
    decision = figures["decision"]
    console.print(f"training {decision['status']}, " + ("promoted:" if decision.get("promoted") else "not promoted:"))
    for reason in decision.get("reasons", []):
        console.print(f"  {reason}", highlight=False)
    _print_examples(console, figures["examples"])
    console.print("\nseconds: " + ", ".join(f"{name} {value:.1f}" for name, value in outcome.seconds.items()))
    console.print(f"in all {figures['seconds_total']:.0f} seconds")
    option = "" if data == Path("data") else f" --data {data}"
    console.print(
        f"\nOpen the service on the same data:  .venv/bin/softseek serve{option}\n"
        f"then look at http://127.0.0.1:8080/?c={COLLECTION}, or\n"
        f'  curl http://127.0.0.1:8080/v1/collections/{COLLECTION}/search -d \'{{"q": "copy a whole folder"}}\'',
        highlight=False,
        markup=False,
    )


def _print_examples(console: Console, examples: list[dict[str, Any]]) -> None:
    for one in examples:
        console.print(f"\n[bold]{one['question']}[/bold]  (right: {', '.join(one['answers'])})")
        for when in ("before", "after"):
            rank = one[f"rank_{when}"]
            place = f"right at {rank}" if rank <= 100 else "not in the first 100"
            console.print(f"  {when:<7} {place:<22} {', '.join(one[when])}", highlight=False)
