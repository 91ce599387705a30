"""Computes and prints the results of the demonstration."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from index.evaluation.measures import compare_runs, measure_run
from index.evaluation.significance import Comparison, interval
from service.demo.questions import Question

COLLECTION = "stdlib"
MEASURES = ("nDCG@10", "R@100")
UNTRAINED = "hybrid, day one"
TRAINED = "+ training"
"""Names of two systems: before feedback, and after training."""
EXAMPLES = 3


@dataclass
class Outcome:
    """A ranked list of ids per system and held-out question, the seconds of each step, and the training run."""

    runs: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    run_record: dict[str, Any] = field(default_factory=dict)


def figures(outcome: Outcome, held_out: list[Question]) -> dict[str, Any]:
    """Return the measures of each system, the gain by learning, the decision of the gate, times and examples."""
    qrels = {question.text: dict.fromkeys(question.answers, 1) for question in held_out}
    systems: dict[str, Any] = {}
    for name, run in outcome.runs.items():
        systems[name] = {}
        for measure, values in measure_run(run, qrels, MEASURES).items():
            array = np.asarray(list(values.values()), float)
            low, high = interval(array)
            systems[name][measure] = {"mean": float(array.mean()), "low": low, "high": high}
    gain = compare_runs(outcome.runs[UNTRAINED], outcome.runs[TRAINED], qrels, MEASURES)
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
    """Return the held-out questions with the largest gain in reciprocal rank of the first right answer."""
    before, after = outcome.runs[UNTRAINED], outcome.runs[TRAINED]
    gains = []
    for question in held_out:
        old, new = (_rank(run[question.text], question.answers) for run in (before, after))
        gains.append((1 / new - 1 / old, question, old, new))
    gains.sort(key=lambda gain: (-gain[0], gain[1].text))
    return [
        {
            "question": question.text,
            "answers": list(question.answers),
            "rank_before": old,
            "rank_after": new,
            "before": before[question.text][:3],
            "after": after[question.text][:3],
        }
        for _, question, old, new in gains[:EXAMPLES]
    ]


def _rank(run: list[str], answers: tuple[str, ...]) -> int:
    """Return the rank of the first right answer, 1000 if there is none."""
    return min((rank for rank, document in enumerate(run, 1) if document in answers), default=1000)


def show_results(console: Console, results: dict[str, Any], data: Path) -> None:
    """Print the results for people. results: the `figures`, with the counts of documents and questions."""
    console.print(
        f"\n{results['documents']} docstrings, {results['questions']} questions. Measured on the {results['held_out']} "
        "held-out questions, with 95 % intervals:"
    )
    console.print(_table(results))
    gain = Comparison(**results["gain"]["nDCG@10"])
    console.print(
        f"gain over the untrained model: nDCG@10 {gain.difference:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}], "
        f"p = {gain.p_value:.2g}"
    )
    decision = results["decision"]
    console.print(f"training {decision['status']}, " + ("promoted:" if decision.get("promoted") else "not promoted:"))
    for reason in decision.get("reasons", []):
        console.print(f"  {reason}", highlight=False)
    _show_examples(console, results["examples"])
    console.print("\nseconds: " + ", ".join(f"{name} {value:.1f}" for name, value in results["seconds"].items()))
    console.print(f"total: {results['seconds_total']:.0f} seconds")
    option = "" if data == Path("data") else f" --data {data}"
    console.print(
        f"\nStart the service on the same data:  .venv/bin/softseek serve{option}\n"
        f"then open http://127.0.0.1:8080/?c={COLLECTION}, or\n"
        f'  curl http://127.0.0.1:8080/v1/collections/{COLLECTION}/search -d \'{{"q": "copy a whole folder"}}\'',
        highlight=False,
        markup=False,
    )


def _table(results: dict[str, Any]) -> Table:
    table = Table()
    for column in ("", *MEASURES):
        table.add_column(column)
    for name, measures in results["systems"].items():
        cells = [f"{value['mean']:.3f} [{value['low']:.3f}, {value['high']:.3f}]" for value in measures.values()]
        not_live = name == TRAINED and not results["decision"].get("promoted")
        table.add_row(f"{name} (not live)" if not_live else name, *cells)
    return table


def _show_examples(console: Console, examples: list[dict[str, Any]]) -> None:
    for example in examples:
        console.print(f"\n[bold]{example['question']}[/bold]  (right: {', '.join(example['answers'])})")
        for when in ("before", "after"):
            rank = example[f"rank_{when}"]
            found = f"right at rank {rank}" if rank <= 100 else "not in the first 100"
            console.print(f"  {when:<7} {found:<22} {', '.join(example[when])}", highlight=False)
