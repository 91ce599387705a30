"""The processor time of each part of one search, in microseconds, in the process that searches.

    python -m benchmarks.microseconds --data ../shared/data --out benchmarks/results/microseconds.json

The parts are functions on the path of a query, wrapped during the run. The time of a part includes the parts that it
calls, and the table indents them. Searches run sequentially on one thread, and every text is new. The converted encoder
and the 10,000 documents are the same as in `benchmarks.serving`. The cost of HTTP is the processor time of a separate
service, with all its processes, under the same searches.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import faiss
import orjson
from rich.console import Console
from rich.table import Table

import index.generation.generation
import index.ranking.retrieval
import index.ranking.search
from benchmarks.loading import one_by_one
from benchmarks.result_file import add_out, publish
from benchmarks.servers.corpus import endless
from benchmarks.service_process import processor_seconds
from benchmarks.serving import SEARCH_SECONDS, prepare, query_texts, serving
from benchmarks.vectors import converted_encoder
from index.encoding.model_files import DEFAULT_MODEL
from index.generation.generation import Generation
from index.ranking.attention import AttentionHead
from index.words.word_search import WordSearcher
from service.runtime.runtime import Runtime
from service.search import actions, repository
from service.search.schemas import SearchIn
from service.settings import Settings
from service.storage.owner_lock import LOCK_FILE

PARTS: tuple[tuple[int, str, Any, str], ...] = (
    (0, "the answer", actions, "answer"),
    (1, "encode the query", Runtime, "encoded_query"),
    (1, "search", actions, "search"),
    (2, "candidates", index.ranking.search, "retrieve"),
    (3, "by keys: scan and refine", Generation, "nearest"),
    (3, "by words: tantivy", WordSearcher, "find"),
    (3, "words of all candidates", Generation, "match"),
    (4, "find them", index.generation.generation, "find_words"),
    (4, "BM25", index.generation.generation, "bm25"),
    (4, "coverage, proximity, phrase", index.generation.generation, "match"),
    (2, "gather keys", index.ranking.search, "assemble"),
    (2, "match and pool keys", AttentionHead, "dense"),
    (2, "weigh, softmax", AttentionHead, "attend"),
    (1, "stored fields, highlights", actions, "page_of_hits"),
    (2, "stored fields", repository, "stored_fields"),
    (1, "impression", actions, "impression"),
)
"""Depth, name, owner and attribute of each function."""
WARM = 400


def main() -> None:
    """Measure, print the table, and one last line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with one folder per test set")
    parser.add_argument("--searches", type=int, default=600, help="number of counted searches")
    add_out(parser)
    options = parser.parse_args()
    texts = list(islice(endless(query_texts(options.data)), WARM + options.searches))
    with tempfile.TemporaryDirectory() as folder:
        prepare(options.data, Path(folder), converted_encoder(DEFAULT_MODEL))
        figures = measure_parts(Settings(data=Path(folder), log_level="error"), texts)
        figures["one request over HTTP"] = measure_requests(Path(folder), texts)
    show(figures)
    publish({"parts": [[depth, name, figures[name]] for depth, name in rows()]}, [], options.out)


def measure_parts(settings: Settings, texts: list[str]) -> dict[str, float]:
    """Return name -> mean microseconds of the processor per search; the first WARM texts do not count."""
    spent: dict[str, int] = {name: 0 for _, name, _, _ in PARTS} | {"JSON": 0}
    faiss.omp_set_num_threads(1)
    runtime = Runtime.open(settings)
    state = runtime.collection("default")
    with ExitStack() as wrapped:
        for _, name, owner, attribute in PARTS:
            wrapped.enter_context(_timed(owner, attribute, name, spent))
        for at, text in enumerate(texts):
            if at == WARM:
                spent.update(dict.fromkeys(spent, 0))
            body = actions.answer(runtime, state, SearchIn(q=text))
            started = time.thread_time_ns()
            orjson.dumps(body)
            spent["JSON"] += time.thread_time_ns() - started
    runtime.close()
    return {name: round(total / 1000 / (len(texts) - WARM), 1) for name, total in spent.items()}


def measure_requests(data: Path, texts: list[str]) -> float:
    """Return processor microseconds per search of a service: all its processes, HTTP and impressions included."""
    with serving(data) as client:
        one_by_one(client, texts[:WARM], SEARCH_SECONDS)
        pid = int((data / LOCK_FILE).read_text().split()[0])
        before = processor_seconds(pid)
        answers = one_by_one(client, texts[WARM:], SEARCH_SECONDS)
        return round(1e6 * (processor_seconds(pid) - before) / len(answers), 1)


def rows() -> list[tuple[int, str]]:
    """Return depth and name of every row of the table."""
    return [*((depth, name) for depth, name, _, _ in PARTS), (0, "JSON"), (0, "one request over HTTP")]


def show(figures: dict[str, float]) -> None:
    """Print the figures for people."""
    table = Table(title="microseconds of the processor, mean of a search")
    table.add_column("part")
    table.add_column("µs", justify="right")
    for depth, name in rows():
        table.add_row("  " * depth + name, f"{figures[name]:.0f}")
    Console(width=100).print(table)


@contextmanager
def _timed(owner: Any, attribute: str, name: str, spent: dict[str, int]) -> Iterator[None]:
    """Add the thread's processor time of every call of a function to `spent[name]`, in nanoseconds."""
    function: Callable[..., Any] = getattr(owner, attribute)

    def timed(*arguments: Any, **named: Any) -> Any:
        started = time.thread_time_ns()
        try:
            return function(*arguments, **named)
        finally:
            spent[name] += time.thread_time_ns() - started

    setattr(owner, attribute, timed)
    try:
        yield
    finally:
        setattr(owner, attribute, function)


if __name__ == "__main__":
    main()
