"""The speed of the encoder's runtimes beside sentence-transformers, and the effect of their precisions on a ranking.

    python -m benchmarks.encoding --data ../shared/data --out benchmarks/results/encoding.json
    python -m benchmarks.encoding --data ../shared/data --quality cranfield,cosqa \\
        --out benchmarks/results/precisions.json

Speed: passages of cranfield as documents, and test queries of cosqa, encoded singly. All runtimes get the same texts
and truncation. They alternate over many short rounds; the best round counts. Queries are then timed again while
documents are encoded. Quality: exact dense search by the nearest passage; nDCG@10 on test queries for every pair of
document and query precision, with the paired interval of its difference to float32.
"""

import argparse
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.collections import TestSet, read_set
from benchmarks.result_file import add_out, publish
from benchmarks.vectors import CACHE
from index.encoding.chunking import PassageCutter
from index.encoding.conversion import converted_model
from index.encoding.converted_encoder import ConvertedEncoder
from index.encoding.encoder import Encoder
from index.encoding.model_files import DEFAULT_MODEL, fingerprint_of, locate_model
from index.encoding.precision import Precision
from index.encoding.reference_encoder import SentenceTransformerEncoder, load_reference
from index.evaluation.measures import compare_runs
from index.records import Floats

DOCUMENTS_OF, QUERIES_OF = "cranfield", "cosqa"
DEPTH = 10
BASE = ("fp32", "fp32")
PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16", "int8")


def main() -> None:
    """Measure speed, or quality where sets are named; print tables, and one last line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with one folder per test set")
    parser.add_argument("--documents", type=int, default=32, help="documents encoded in a round")
    parser.add_argument("--queries", type=int, default=100, help="queries encoded in a round")
    parser.add_argument("--rounds", type=int, default=8, help="rounds; a busy machine needs more of them")
    parser.add_argument("--quality", default="", help="compare precisions on these test sets instead, comma-separated")
    add_out(parser)
    options = parser.parse_args()
    if options.quality:
        kind = "sets"
        figures = {name: measure_quality(read_set(options.data / name)) for name in options.quality.split(",")}
    else:
        kind = "runtimes"
        figures = measure_speed(options.data, options.documents, options.queries, options.rounds)
    show(figures)
    publish({kind: figures}, [], options.out)


def converted(precision: Precision) -> ConvertedEncoder:
    """Return the default model at a precision, converted into the cache of the benchmarks."""
    path = locate_model(DEFAULT_MODEL)
    fingerprint = fingerprint_of(path)
    return ConvertedEncoder(converted_model(path, fingerprint, CACHE / "encoders"), fingerprint, precision)


class Wrapper:
    """SentenceTransformer.encode with its defaults, which most peers use."""

    def __init__(self) -> None:
        self._model = load_reference(locate_model(DEFAULT_MODEL))

    def encode(self, texts: Sequence[str]) -> Floats:
        """Return vectors (len(texts), D)."""
        vectors: Floats = self._model.encode(list(texts), show_progress_bar=False)
        return vectors

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Return vectors (len(texts), D), one call per text."""
        return np.stack([self.encode([text])[0] for text in texts])


def measure_speed(data: Path, documents: int, queries: int, rounds: int) -> dict[str, dict[str, Any]]:
    """Return per runtime: documents per second; p50 and p99 of a query, alone and while documents are encoded."""
    ours = [converted(name) for name in ("fp32", "int8", "auto")]
    systems: dict[str, Any] = {"sentence-transformers, fp32": Wrapper()}
    systems["torch, bf16 where it is faster"] = SentenceTransformerEncoder(DEFAULT_MODEL)
    systems |= {encoder.precision: encoder for encoder in ours}
    texts = [text for _, text in passages(read_set(data / DOCUMENTS_OF), ours[0].cutter)][:documents]
    found = read_set(data / QUERIES_OF)
    asked = [found.queries[query] for query in sorted(found.test)][:queries]
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in systems}
    for _ in range(rounds):
        for name, system in systems.items():
            measured[name].append(_round(system, texts, asked))
    return {name: _best(of) for name, of in measured.items()}


def _round(system: Any, texts: list[str], asked: list[str]) -> dict[str, float]:
    system.encode(texts[:16])
    system.encode_queries(asked[:10])
    started = time.perf_counter()
    system.encode(texts)
    rate = len(texts) / (time.perf_counter() - started)
    alone = _milliseconds(system, asked)
    over = threading.Event()

    def load() -> None:
        while not over.is_set():
            system.encode(texts[:16])

    bulk = threading.Thread(target=load)
    bulk.start()
    beside = _milliseconds(system, asked)
    over.set()
    bulk.join()
    figures = {"documents/s": rate}
    for when, values in (("", alone), (" beside documents", beside)):
        figures |= {f"query p{part}{when}, ms": float(np.percentile(values, part)) for part in (50, 99)}
    return figures


def _milliseconds(system: Any, asked: list[str]) -> list[float]:
    measured = []
    for text in asked:
        started = time.perf_counter()
        system.encode_queries([text])
        measured.append(1000 * (time.perf_counter() - started))
    return measured


def _best(rounds: list[dict[str, float]]) -> dict[str, float]:
    better: dict[str, Callable[[list[float]], float]] = {"documents/s": max}
    return {name: round(better.get(name, min)([one[name] for one in rounds]), 2) for name in rounds[0]}


def measure_quality(one: TestSet) -> dict[str, dict[str, Any]]:
    """Return per pair of precisions (documents, queries): nDCG@10, and its paired difference to float32."""
    queries = sorted(one.test)
    asked = [one.queries[query] for query in queries]
    owners, texts = zip(*passages(one, converted("fp32").cutter), strict=True)
    documents, wanted = {}, {}
    for precision in PRECISIONS:
        encoder: Encoder = converted(precision)
        documents[precision] = encoder.encode(texts)
        wanted[precision] = encoder.encode_queries(asked)
    runs = {}
    for left in PRECISIONS:
        for right in ("fp32", "int8"):
            runs[left, right] = nearest(documents[left], list(owners), wanted[right], queries)
    compared = {pair: compare_runs(runs[BASE], run, one.test, ["nDCG@10"])["nDCG@10"] for pair, run in runs.items()}
    return {
        f"documents {left}, queries {right}": {
            "nDCG@10": round(found.b, 4),
            "minus fp32": round(found.difference, 4),
            "interval": [round(found.low, 4), round(found.high, 4)],
        }
        for (left, right), found in compared.items()
    }


def passages(one: TestSet, cutter: PassageCutter) -> list[tuple[str, str]]:
    """Return (document id, text for the encoder) of every passage of a set."""
    return [
        (document["id"], span.encoded_text)
        for document in one.documents
        for span in cutter.passages(document["text"], document["title"])
    ]


def nearest(keys: Floats, owners: list[str], asked: Floats, queries: list[str]) -> dict[str, list[str]]:
    """Return query -> the DEPTH documents with the nearest passages, best first."""
    run = {}
    for query, vector in zip(queries, asked, strict=True):
        by_score = np.argsort(-(keys @ vector), kind="stable")
        run[query] = list(dict.fromkeys(owners[at] for at in by_score[: DEPTH * 10]))[:DEPTH]
    return run


def show(figures: dict[str, dict[str, Any]]) -> None:
    """Print the figures for people."""
    console = Console(width=140)
    for name, rows in figures.items():
        table = Table(title=name, show_header=False)
        for key, value in rows.items():
            table.add_row(key, str(value))
        console.print(table)


if __name__ == "__main__":
    main()
