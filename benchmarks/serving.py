"""The speed of ingestion and search over HTTP, beside the encoder alone in the same run.

    python -m benchmarks.serving --data ../shared/data --out benchmarks/results/serving.json
    python -m benchmarks.serving --peers --data ../shared/data --out benchmarks/results/servers.json
    python -m benchmarks.serving --peers --data ../shared/data --sets cranfield,squad_dev \
        --out benchmarks/results/long_texts.json
    python -m benchmarks.serving --keys 10k,100k,1M --out benchmarks/results/growth.json

Ingestion: documents of one set are posted to a running service in batches. Beside it, sentence-transformers and our
encoder encode the same passages in process. Search: one client searches 10,000 documents over HTTP, encoding included;
every query text is new, so the query cache never answers. The service is a separate process on 127.0.0.1. Load: the
same searches while another connection posts documents, and the delay until a trained model answers
(benchmarks/loading.py). `--keys` measures candidates against the number of keys (benchmarks/growth.py). `--peers`
measures other servers beside ours (benchmarks/servers).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.collections import ingest, read_set
from benchmarks.growth import measure_growth, parse_sizes
from benchmarks.loading import measure_live, measure_under_load, one_by_one
from benchmarks.result_file import add_out, publish
from benchmarks.servers import launch as servers
from benchmarks.servers.launch import chosen, measure_servers
from benchmarks.servers.measure import Plan
from benchmarks.servers.report import goals
from benchmarks.servers.report import show as show_servers
from benchmarks.vectors import CachedEncoder, converted_encoder
from index.encoding.documents import encode_documents
from index.encoding.encoder import Encoder
from index.encoding.model_files import DEFAULT_MODEL, locate_model
from index.records import Document, KeyKind
from service.runtime.runtime import Runtime
from service.settings import Settings

INGEST_SET = "cranfield"
SEARCH_SETS = ("crowdflower", "cosqa")
SEARCH_DOCUMENTS = 10_000
LEARNED_SET = "cosqa"
BATCH = 200
SEARCH_SECONDS = 120
FIRST = 8
"""The first documents after a start, timed separately."""
START_SECONDS = 120


def main() -> None:
    """Measure ingestion and search; print tables, and one last line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with one folder per test set")
    parser.add_argument("--keys", type=parse_sizes, help="sizes, such as 10k,100k,1M: see benchmarks/growth.py")
    parser.add_argument("--documents", type=int, default=800, help="number of documents of the ingestion part")
    parser.add_argument("--searches", type=int, default=400, help="number of searches of the search part")
    servers.add_options(parser, SEARCH_SETS)
    add_out(parser)
    options = parser.parse_args()
    if options.peers and not options.data:
        parser.error("--peers requires --data")
    if bool(options.data) == bool(options.keys):
        parser.error("either --data or --keys is required")
    figures: dict[str, Any] = {}
    if options.keys:
        figures["sizes"] = measure_growth(options.keys)
        show_growth(figures["sizes"])
    elif options.peers:
        plan = Plan(timed=options.timed, seconds=options.seconds)
        sets = tuple(options.sets.split(","))
        figures |= measure_servers(options.data, sets, options.size, chosen(options.only), plan)
        show_servers(figures)
        figures["goals"] = [asdict(goal) for goal in goals(figures)]
    else:
        encoder = converted_encoder(DEFAULT_MODEL)
        figures = {
            "ingest": measure_ingest(options.data, options.documents, encoder),
            "search": measure_search(options.data, options.searches, encoder),
            "load": measure_load(options.data, encoder),
        }
        show(figures)
    publish(figures, [], options.out)


def measure_ingest(data: Path, count: int, encoder: Encoder) -> dict[str, Any]:
    """Return documents per second through the service, and of encoders alone on the same passages."""
    documents = read_set(data / INGEST_SET).documents[:count]
    rates = {}
    for name, keys in (
        ("title,passage", ["title", "passage"]),
        ("with sentence keys", ["title", "passage", "sentence"]),
    ):
        with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as client:
            client.put("/v1/collections/timed", json={"keys": keys}).raise_for_status()
            first_seconds = _first_documents(client, documents[:FIRST])
            started = time.perf_counter()
            for first in range(0, len(documents), BATCH):
                body = {"documents": documents[first : first + BATCH]}
                client.post("/v1/collections/timed/documents?wait=600", json=body).raise_for_status()
            rates[f"service, {name}"] = len(documents) / (time.perf_counter() - started)
    records = [Document(one["id"], one["text"], one["title"]) for one in documents]
    encode_documents(encoder, records[:FIRST], {KeyKind.TITLE, KeyKind.PASSAGE})
    started = time.perf_counter()
    encode_documents(encoder, records, {KeyKind.TITLE, KeyKind.PASSAGE})
    rates["our encoder alone, same texts"] = len(documents) / (time.perf_counter() - started)
    rates["sentence-transformers encode, passages"] = _sentence_transformers(records, encoder)
    facts = {"first documents, seconds": round(first_seconds, 2), "documents": len(documents), "set": INGEST_SET}
    return {name: round(rate, 1) for name, rate in rates.items()} | facts


def _first_documents(client: httpx.Client, documents: list[dict[str, Any]]) -> float:
    """Return the seconds of the first documents after a start. They include the opening of the encoder's runtime."""
    started = time.perf_counter()
    client.post("/v1/collections/default/documents?wait=600", json={"documents": documents}).raise_for_status()
    return time.perf_counter() - started


def _sentence_transformers(records: list[Document], encoder: Encoder) -> float:
    """Return documents per second of SentenceTransformer.encode with its defaults, on the same passages."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(locate_model(DEFAULT_MODEL)), device="cpu", local_files_only=True)
    passages = [span.encoded_text for one in records for span in encoder.cutter.passages(one.text, one.title)]
    model.encode(passages[:32], show_progress_bar=False)
    started = time.perf_counter()
    model.encode(passages, show_progress_bar=False)
    return len(records) / (time.perf_counter() - started)


def measure_search(data: Path, searches: int, encoder: Encoder) -> dict[str, Any]:
    """Return p50 and p99 milliseconds of a text search over HTTP at concurrency 1 on SEARCH_DOCUMENTS documents."""
    texts = query_texts(data)[:searches]
    with tempfile.TemporaryDirectory() as folder:
        count = prepare(data, Path(folder), encoder)
        started = time.perf_counter()
        with serving(Path(folder)) as client:
            ready = time.perf_counter() - started
            answers = one_by_one(client, texts, SEARCH_SECONDS)
    milliseconds = np.asarray([1000 * one.seconds for one in answers])
    warm, timings = milliseconds[20:], [json.loads(one.body)["timings_ms"] for one in answers[20:]]
    parts = {name: [one[name] for one in timings] for name in timings[0]}
    return {
        "documents": count,
        "searches": len(warm),
        "p50_ms": round(float(np.percentile(warm, 50)), 2),
        "p99_ms": round(float(np.percentile(warm, 99)), 2),
        "first_ms": round(float(milliseconds[0]), 1),
        "start_seconds": round(ready, 2),
        "p50_parts_ms": {name: round(float(np.median(values)), 2) for name, values in parts.items()},
    }


def measure_load(data: Path, encoder: Encoder) -> dict[str, Any]:
    """Return search times on SEARCH_DOCUMENTS documents during a load, and the delay until a trained model answers."""
    with tempfile.TemporaryDirectory() as folder:
        prepare(data, Path(folder), encoder)
        with serving(Path(folder)) as client:
            figures = measure_under_load(client, query_texts(data), read_set(data / INGEST_SET).documents)
    with tempfile.TemporaryDirectory() as folder:
        prepare(data, Path(folder), encoder, (LEARNED_SET,))
        with serving(Path(folder)) as client:
            return figures | measure_live(client, Path(folder), _judgments(data))


def _judgments(data: Path) -> list[dict[str, Any]]:
    """Return the train split of LEARNED_SET as judgments of the prepared documents."""
    one = read_set(data / LEARNED_SET)
    return [
        {"query": one.queries[query], "document_id": f"{one.name}-{document}", "rating": grade}
        for query, grades in one.train.items()
        for document, grade in grades.items()
    ]


def prepare(data: Path, folder: Path, encoder: Encoder, names: Sequence[str] = SEARCH_SETS) -> int:
    """Fill a data directory with SEARCH_DOCUMENTS documents from cached vectors; return their number."""
    sets = [read_set(data / name) for name in names]
    documents = [one | {"id": f"{part.name}-{one['id']}"} for part in sets for one in part.documents][:SEARCH_DOCUMENTS]
    runtime = Runtime.open(Settings(data=folder), CachedEncoder(encoder))
    ingest(runtime, runtime.collection("default"), documents)
    runtime.close()
    return len(documents)


def query_texts(data: Path) -> list[str]:
    """Return the distinct query texts of SEARCH_SETS, sorted."""
    return sorted({text for name in SEARCH_SETS for text in read_set(data / name).queries.values()})


@contextmanager
def serving(folder: Path) -> Iterator[httpx.Client]:
    """Run the service on a directory in a separate process; end it by its PID."""
    command = [sys.executable, "-c", "from service.cli import main; main()", "serve"]
    process = subprocess.Popen(
        [*command, "--data", str(folder), "--port", "0", "--json"],
        env=os.environ | {"SOFTSEEK_RESULT_CACHE_MIB": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        with httpx.Client(base_url=url, timeout=600) as client:
            deadline = time.monotonic() + START_SECONDS
            while client.get("/readyz").status_code != 200 and time.monotonic() < deadline:
                time.sleep(0.05)
            yield client
    finally:
        process.terminate()
        process.wait(60)


def show_growth(growth: list[dict[str, Any]]) -> None:
    """Print a column for each number of keys."""
    table = Table("", *(f"{one['keys']:,}" for one in growth), title="growth")
    for name in growth[0]:
        table.add_row(name, *(str(one[name]) for one in growth))
    Console(width=120).print(table)


def show(figures: dict[str, Any]) -> None:
    """Print the figures for people."""
    console = Console(width=120)
    for name in ("ingest", "search", "load"):
        table = Table(title=name, show_header=False)
        for key, value in figures[name].items():
            table.add_row(key, str(value))
        console.print(table)


if __name__ == "__main__":
    main()
