"""How many seconds does a start take, after a clean stop and after SIGKILL?

    python -m benchmarks.restart --keys 100000 --out benchmarks/results/restart.json

A data directory gets made documents until it has this many keys, vectors of titles and passages. It is filled in this
process, not through HTTP. Then a service starts on it in a process of its own. The time runs from the start of the
process to the first good answer of a search: status 200, with hits, and `degraded` empty. A client asks every twentieth
of a second. After a clean stop the index is read from its files. Before SIGKILL a document is put, so that the index is
not saved and the next start rebuilds it from the database. Both in turn; median and range of the repeats. The files are
in the page cache of the system.
"""

import argparse
import random
import signal
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from benchmarks.made_texts import document, query
from benchmarks.restart_tables import starts
from benchmarks.result_file import add_out, publish
from benchmarks.servers.http1 import HOST
from benchmarks.servers.ports import free_port
from benchmarks.service_process import COLLECTION, ServiceProcess, logged, started
from index.encoding.encoder import load_encoder
from service.documents.acceptance import accept
from service.documents.indexing import make_searchable
from service.runtime.runtime import Runtime
from service.settings import Settings

BATCH = 1000
POLL_SECONDS = 0.05
START_SECONDS = 600
"""The longest wait for a good answer."""
REBUILT = "warning: index_rebuilt"
"""The event of the log of a start that rebuilds the index."""


def main() -> None:
    """Measure; print a table and a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--encoder", default="hashing", help="another encoder has wider vectors and fills slower")
    parser.add_argument("--seed", type=int, default=0)
    add_out(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        figures = fill(data, options.keys, options.encoder, options.seed)
        figures["encoder"] = options.encoder
        measured = [measure(data, options.encoder, Path(folder)) for _ in range(options.repeats)]
    for kind in ("clean", "killed"):
        figures[kind] = summary([pair[kind] for pair in measured])
    print(starts(figures))
    publish(figures, [options.seed], options.out)


def fill(data: Path, keys: int, encoder: str, seed: int) -> dict[str, Any]:
    """Make a data directory with at least this many keys; return the numbers of documents and keys."""
    rng = random.Random(seed)
    runtime = Runtime.open(Settings(encoder=encoder, data=data, log_level="error"), load_encoder(encoder))
    try:
        state = runtime.collection("default")
        count = 0
        while len(state.generation.key_doc_index) < keys:
            batch = [document(rng, count + at) for at in range(min(BATCH, keys))]
            make_searchable(runtime, state, accept(runtime, state, batch).sequences)
            count += len(batch)
        return {"documents": count, "keys": len(state.generation.key_doc_index)}
    finally:
        runtime.close()


def measure(data: Path, encoder: str, folder: Path) -> dict[str, dict[str, Any]]:
    """Return the figures of a start after a clean stop, and of one after SIGKILL."""
    found = {}
    port = free_port()
    for kind in ("clean", "killed"):
        log = folder / "log"
        log.unlink(missing_ok=True)
        begun = time.perf_counter()
        with started(data, encoder, log, "--port", str(port)) as service:
            first_answer(port, service, begun)
            found[kind] = {"seconds": time.perf_counter() - begun}
            found[kind] |= {"rss_mib": service.resident_mib(), "rss_max_mib": service.resident_mib("VmHWM")}
            if kind == "clean":
                kill(port, service)
        with log.open(encoding="utf-8") as lines:
            found[kind]["rebuilt"] = REBUILT in logged(lines)
    return found


def first_answer(port: int, service: ServiceProcess, begun: float) -> None:
    """Wait for the first good answer of a search. Raises RuntimeError where none comes."""
    text, _ = query(random.Random(0))
    with httpx.Client(base_url=f"http://{HOST}:{port}", timeout=START_SECONDS) as client:
        while time.perf_counter() - begun < START_SECONDS and service.process.poll() is None:
            try:
                answer = client.post(f"{COLLECTION}/search", json={"q": text, "log": False})
            except httpx.TransportError:
                time.sleep(POLL_SECONDS)
                continue
            if is_good(answer.status_code, answer.json()):
                return
            time.sleep(POLL_SECONDS)
    raise RuntimeError("the service gave no good answer")


def is_good(status: int, body: Mapping[str, Any]) -> bool:
    """Return whether an answer has hits and lacks nothing."""
    return status == 200 and bool(body["hits"]) and not body["degraded"]


def kill(port: int, service: ServiceProcess) -> None:
    """Put a document, so that the index is not saved, and end the process with SIGKILL."""
    made = document(random.Random(1), 0, "restart")
    url = f"http://{HOST}:{port}{COLLECTION}/documents/{made['id']}"
    httpx.put(url, json=made | {"url": f"https://example.org/{time.time()}"}, timeout=60).raise_for_status()
    service.process.send_signal(signal.SIGKILL)
    service.process.wait()


def summary(repeats: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the median and the range of the seconds, the highest memory, and the number of rebuilt indexes."""
    seconds = [one["seconds"] for one in repeats]
    return {
        "starts": len(repeats),
        "seconds": statistics.median(seconds),
        "least_seconds": min(seconds),
        "greatest_seconds": max(seconds),
        "rss_mib": max(one["rss_mib"] for one in repeats),
        "rss_max_mib": max(one["rss_max_mib"] for one in repeats),
        "rebuilt": sum(one["rebuilt"] for one in repeats),
    }


if __name__ == "__main__":
    main()
