"""One and four partitions on a Ray cluster beside the service that has all documents, and a million keys in four parts.

    python -m benchmarks.partitions --documents 3000 --keys 1M --out benchmarks/results/partitions.json

All processes, PostgreSQL and the clients share this machine, so four partitions have no more processors than one. Ray
listens on all addresses: run it in a network namespace (`benchmarks.ray_process`). The coordinator's answers are
compared with the writer's: documents and logits, and all members but times and ids. For the delay, a client puts a
document, and asks a coordinator with the watermark of the answer. Then processes of partitions are killed under load:
an answer is whole, or says that a partition is away, or is wrong.

The keys are those of `benchmarks.growth`, in this process and without Ray: they show how the work of a search is split.
"""

import argparse
import os
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson

from benchmarks.growth import parse_sizes
from benchmarks.made_texts import document
from benchmarks.parted_keys import measure_parts
from benchmarks.partitions_tables import delays, kills, rates, split
from benchmarks.postgres import SMALL, running_server
from benchmarks.ray_process import deployed, replicas_of
from benchmarks.result_file import add_out, publish
from benchmarks.searchers import CLIENTS, delay, filled, process, rate, searches
from benchmarks.servers.http1 import HOST
from benchmarks.servers.load import NO_CONNECTION, ask
from benchmarks.service_process import COLLECTION
from benchmarks.workers import proportional_mib

SEED = 7
COUNTS = (1, 4)
PARTS = 4
QUERIES = 300
KILLS = 5
KILLING_SECONDS = 40.0
VOLATILE = ("query_id", "took_ms", "timings_ms")


def main() -> None:
    """Measure rates, rounds, delays, kills and keys in parts; print tables and a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--documents", type=int, default=3000)
    parser.add_argument("--encoder", default="hashing")
    parser.add_argument("--keys", type=parse_sizes, default=[1_000_000])
    add_out(parser)
    options = parser.parse_args()
    figures: dict[str, Any] = {"documents": options.documents, "encoder": options.encoder, "clients": CLIENTS}
    figures["keys"] = [measure_parts(count, PARTS) for count in options.keys]
    figures |= on_ray(options.documents, options.encoder)
    print(split(figures), rates(figures), delays(figures), kills(figures), sep="\n")
    publish(figures, [SEED], options.out)


def on_ray(documents: int, encoder: str) -> dict[str, Any]:
    """Return the figures of a writer on PostgreSQL and of coordinators over partitions."""
    rng = random.Random(SEED)
    queries = [document(rng, at)["text"][:40] for at in range(QUERIES)]
    found: dict[str, Any] = {"rates": {}, "compared": {}, "rounds": {}, "delays": {}, "mib": {}}
    with tempfile.TemporaryDirectory() as made, running_server(SMALL) as server:
        folder, address = Path(made), server.database("shop")
        with process(folder, "writer", encoder, address, "--role", "writer") as (writer, _):
            filled(writer, documents, queries)
            found["rates"]["writer"] = rate([writer], queries)
            for count in COUNTS:
                expected = answers(writer, queries)
                with coordinator(folder, address, encoder, count) as port:
                    found["compared"][str(count)] = different(answers(port, queries), expected)
                    found["rates"][str(count)] = rate([port], queries)
                    found["rounds"][str(count)] = timings(port, queries)
                    found["mib"][str(count)] = [proportional_mib(replicas_of(part)[0]) for part in range(count)]
                    found["delays"][str(count)] = delay(writer, [port], f"of{count}")
                    if count == COUNTS[-1]:
                        found["kills"] = killed(port, queries, answers(writer, queries), count)
    return found


@contextmanager
def coordinator(folder: Path, address: str, encoder: str | None, count: int) -> Any:
    """Yield the port of a coordinator over partitions on Ray."""
    with (
        deployed(folder, address, encoder, count),
        process(folder, f"coordinator-{count}", encoder, address, "--role", "coordinator") as (port, _),
    ):
        yield port


def answers(port: int, queries: Sequence[str]) -> list[dict[str, Any]]:
    """Return the answers to the queries, without what differs between equal searches."""
    with httpx.Client(base_url=f"http://{HOST}:{port}", timeout=60) as client:
        found = [client.post(f"{COLLECTION}/search", json={"q": query, "log": False}).json() for query in queries]
    return [{"hits": [], **kept(one)} for one in found]  # a problem has no hits


def kept(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer without what differs between equal searches."""
    return {name: value for name, value in answer.items() if name not in VOLATILE}


def ranking(answer: dict[str, Any]) -> list[tuple[str, float]]:
    """Return the documents of an answer with their logits."""
    return [(hit["id"], hit["logit"]) for hit in answer["hits"]]


def different(ones: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Return how many answers have other documents or logits, and how many differ in anything."""
    return {
        "documents": sum(ranking(one) != ranking(other) for one, other in zip(ones, others, strict=True)),
        "anything": sum(one != other for one, other in zip(ones, others, strict=True)),
    }


def timings(port: int, queries: Sequence[str]) -> dict[str, float]:
    """Return the median times of the parts of a search."""
    with httpx.Client(base_url=f"http://{HOST}:{port}", timeout=60) as client:
        found = [
            client.post(f"{COLLECTION}/search", json={"q": query, "log": False}).json()["timings_ms"]
            for query in queries
        ]
    return {name: sorted(one[name] for one in found)[len(found) // 2] for name in found[0]}


def killed(port: int, queries: Sequence[str], expected: Sequence[dict[str, Any]], count: int) -> dict[str, Any]:
    """Kill processes of partitions in turn under load; return how many answers were whole, partial, wrong and other."""
    done, deaths, chance = threading.Event(), [], random.Random(SEED)

    def kill() -> None:
        while not done.wait(chance.uniform(4.0, 8.0)) and len(deaths) < KILLS:
            for pid in replicas_of(chance.randrange(count))[:1]:
                os.kill(pid, signal.SIGKILL)
                deaths.append(pid)

    killer = threading.Thread(target=kill)
    killer.start()
    load = ask([port], searches(queries, 400_000), CLIENTS, KILLING_SECONDS)
    done.set()
    killer.join()
    counted = Counter(judged(one, expected[one.place % len(queries)]) for one in load.asked)
    begun = time.monotonic()
    while different(answers(port, queries[:20]), expected[:20])["documents"] and time.monotonic() < begun + 60:
        time.sleep(0.5)
    back = not different(answers(port, queries), expected)["documents"]
    return {"kills": len(deaths), "back": back, **counted}


def judged(asked: Any, wanted: dict[str, Any]) -> str:
    """Return whether an answer is `whole`, `partial`, which it says, `wrong`, or `refused`."""
    if asked.status == NO_CONNECTION or asked.status != 200:
        return "refused"
    answer = orjson.loads(asked.body)
    if "partition_away" in answer["degraded"]:
        return "partial"
    return "whole" if ranking(answer) == ranking(wanted) else "wrong"


if __name__ == "__main__":
    main()
