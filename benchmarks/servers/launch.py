"""Runs `python -m benchmarks.serving --peers`: all systems sequentially, and the encoders alone.

A system that cannot be installed or run is reported with the reason; the other systems continue.
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch

from benchmarks.collections import read_set
from benchmarks.servers.corpus import Corpus, cached_vectors, gather, recall
from benchmarks.servers.environments import ENVIRONMENTS, packages_of, python_of, versions
from benchmarks.servers.measure import Plan, measure, measure_ingest
from benchmarks.servers.systems import INGEST_ONLY, OURS, SYSTEMS
from benchmarks.vectors import CACHE, converted_encoder
from index.encoding.documents import encode_documents
from index.encoding.encoder import Encoder, load_encoder
from index.encoding.model_files import DEFAULT_MODEL, locate_model
from index.encoding.reference_encoder import load_reference
from index.records import Document, Floats, KeyKind
from service.runtime.runtime import Runtime
from service.settings import Settings

RECALL_QUERIES = 200
CANDIDATES = 100
ENCODED_QUERIES = 200
OUR_PACKAGES = [
    "torch",
    "sentence-transformers",
    "faiss-cpu",
    "openvino",
    "onnxruntime",
    "tantivy",
    "fastapi",
    "uvicorn",
]


def add_options(parser: argparse.ArgumentParser, sets: Sequence[str]) -> None:
    """Add the options that choose systems and sizes. sets: the default of `--sets`."""
    parser.add_argument(
        "--peers", action="store_true", help="measure other servers beside ours: see benchmarks/servers"
    )
    parser.add_argument("--only", default="", help=f"with --peers, only these systems: {', '.join(SYSTEMS)}")
    parser.add_argument("--sets", default=",".join(sets), help="with --peers, test sets of documents and queries")
    parser.add_argument("--size", type=int, default=10_000, help="with --peers, number of documents")
    parser.add_argument(
        "--timed", type=int, default=2000, help="with --peers, number of documents that are loaded as text and timed"
    )
    parser.add_argument("--seconds", type=float, default=15, help="with --peers, maximum seconds of a load")


def chosen(only: str) -> list[str]:
    """Return the systems in a comma-separated list, all for an empty one; raises SystemExit at an unknown name."""
    names = [name.strip() for name in only.split(",") if name.strip()] or list(SYSTEMS)
    unknown = set(names) - SYSTEMS.keys()
    if unknown:
        raise SystemExit(f"no such system: {', '.join(sorted(unknown))}; there are {', '.join(SYSTEMS)}")
    return names


def measure_servers(data: Path, sets: tuple[str, ...], count: int, names: list[str], plan: Plan) -> dict[str, Any]:
    """Return the figures of all systems, and of the encoders alone, on the first documents of the sets."""
    signal.signal(signal.SIGTERM, _stop)
    corpus, folder = gather([read_set(data / name) for name in sets], count), locate_model(DEFAULT_MODEL)
    reference, encoder = load_reference(folder), converted_encoder(DEFAULT_MODEL)
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    alone = encoders_alone(corpus, reference, encoder, plan)
    vectors = cached_vectors(corpus.texts, reference, folder / "model.safetensors", ENVIRONMENTS)
    queries = reference.encode(corpus.queries[:RECALL_QUERIES], normalize_embeddings=True, show_progress_bar=False)
    exact = queries @ vectors.T
    del reference
    systems = {}
    for name in names:
        systems[name] = _measured(name, corpus, vectors, exact, folder, plan, encoder)
        print(f"{name}: {systems[name]}", file=sys.stderr, flush=True)
    return {
        "documents": len(corpus.documents),
        "words_of_a_document": _mean_words(corpus.texts),
        "words_of_a_query": _mean_words(corpus.queries),
        "timed": plan.timed,
        "alone": alone,
        "systems": systems,
    }


def _mean_words(texts: Sequence[str]) -> float:
    return round(float(np.mean([len(text.split()) for text in texts])), 1)


def _stop(number: int, _frame: FrameType | None) -> None:
    """End in order, so that no system keeps running."""
    raise SystemExit(128 + number)


def _measured(
    name: str, corpus: Corpus, vectors: Floats, exact: Floats, model: Path, plan: Plan, encoder: Encoder
) -> dict[str, Any]:
    """Return the figures of a system with its versions, or the reason of its failure."""
    system = SYSTEMS[name]
    try:
        if name in INGEST_ONLY:
            return measure_ingest(system, corpus, model, plan)
        if name == OURS:
            checked = lambda data: {"candidates_recall_at_100": candidates_recall(data, corpus, encoder)}  # noqa: E731
            return measure(system, corpus, vectors, exact, model, plan, checked) | _versions(None)
        return measure(system, corpus, vectors, exact, model, plan) | _versions(system.requirements)
    except Exception as error:  # any error: the other systems continue
        return {"failed": f"{type(error).__name__}: {error}"[:1000]}


def _versions(requirements: str | None) -> dict[str, Any]:
    if requirements is None:
        return {"versions": versions(Path(sys.executable), OUR_PACKAGES)}
    return {"versions": versions(python_of(requirements), packages_of(requirements))}


def candidates_recall(data: Path, corpus: Corpus, encoder: Encoder, count: int = CANDIDATES) -> float:
    """Return the share of the `count` documents with the nearest keys that our index finds, for the first queries."""
    runtime = Runtime.open(Settings(data=data), encoder)
    try:
        generation = runtime.collection("default").generation
        asked = encoder.encode_queries(corpus.queries[:RECALL_QUERIES])
        keys = asked @ np.asarray(generation.keys, np.float32).T
        exact = np.maximum.reduceat(keys, generation.columns.first_key[:-1], axis=1)
        found = [generation.nearest(one[None], count, generation.alive)[0].tolist() for one in asked]
        return recall(exact, found, count)
    finally:
        runtime.close()


def encoders_alone(corpus: Corpus, reference: Any, encoder: Encoder, plan: Plan) -> dict[str, float]:
    """Return documents per second and milliseconds of one query, in this process, without any server."""
    timed = corpus.documents[: plan.timed]
    records = [Document(one["id"], one["text"], one["title"]) for one in timed]
    texts, kinds = corpus.texts[: plan.timed], {KeyKind.TITLE, KeyKind.PASSAGE}
    small = load_encoder(DEFAULT_MODEL, "int8", CACHE / "encoders")
    queries = corpus.queries[:ENCODED_QUERIES]

    def plain(text: str) -> Any:
        return reference.encode([text], normalize_embeddings=True, show_progress_bar=False)

    found = {
        "SentenceTransformer.encode, documents/s": len(timed)
        / _seconds(lambda: reference.encode(texts, normalize_embeddings=True, show_progress_bar=False)),
        "our encoder, documents/s": len(timed) / _seconds(lambda: encode_documents(encoder, records, kinds)),
        "our encoder, int8, documents/s": len(timed) / _seconds(lambda: encode_documents(small, records, kinds)),
        "our encoder, one query, p50 ms": _median_ms(lambda text: encoder.encode_queries([text]), queries),
    }
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the peers: a query is too small for two threads
    found["SentenceTransformer.encode, one query, p50 ms"] = _median_ms(plain, queries)
    torch.set_num_threads(threads)
    return found


def _seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _median_ms(work: Callable[[str], Any], texts: list[str]) -> float:
    work("warm up")
    return 1000 * float(np.median([_seconds(lambda text=text: work(text)) for text in texts]))  # type: ignore[misc]
