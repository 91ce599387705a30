"""One and three searchers on one PostgreSQL database, beside the service on SQLite.

    python -m benchmarks.searchers --documents 3000 --out benchmarks/results/searchers.json

All processes, PostgreSQL and the clients share this machine, so three searchers have no more processors than one.
Every process answers the same queries, and the answers are compared: documents and logits exactly, and the weights by
their largest difference: another last candidate would change the weights of all a little. For the delay, a client puts
a document, and asks a searcher with the watermark of the answer until it has an answer. Then searchers are killed and
started again under load, and every answer is compared with the writer's.
"""

import argparse
import math
import random
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson

from benchmarks.made_texts import document
from benchmarks.postgres import SMALL, running_server
from benchmarks.result_file import add_out, publish
from benchmarks.searchers_tables import delays, kills, rates
from benchmarks.servers.http1 import HOST, request
from benchmarks.servers.load import NO_CONNECTION, ask, percentile
from benchmarks.service_process import COLLECTION, ServiceProcess, fill, started

HEADER = "X-Softseek-Watermark"
SEED = 7
SEARCHERS = 3
CLIENTS = 9
LOAD_SECONDS = 5.0
QUERIES = 300
WRITES = 300
KILLS = 10
KILLING_SECONDS = 30.0
NOT_YET = 503


def main() -> None:
    """Measure rates, delays and kills; print tables and a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--documents", type=int, default=3000)
    parser.add_argument("--encoder", default="hashing")
    add_out(parser)
    options = parser.parse_args()
    rng = random.Random(SEED)
    queries = [document(rng, at)["text"][:40] for at in range(QUERIES)]
    with tempfile.TemporaryDirectory() as made, running_server(SMALL) as server:
        folder, address = Path(made), server.database("shop")
        with process(folder, "sqlite", options.encoder, None) as one:
            expected = filled(one[0], options.documents, queries)
            rows = {"sqlite": rate([one[0]], queries)}
        with process(folder, "writer", options.encoder, address, "--role", "writer") as (writer, _):
            answers = {"writer": compared(filled(writer, options.documents, queries), expected)}
            rows["writer"] = rate([writer], queries)
            with ExitStack() as running:
                searchers = []
                for number in range(1, SEARCHERS + 1):
                    searchers.append(running.enter_context(searcher(folder, number, options.encoder, address)))
                    if number == 1:
                        rows["1"] = rate([searchers[0][0]], queries)
                ports = [port for port, _ in searchers]
                rows["3"] = rate(ports, queries)
                answers |= {str(at): compared(rankings(port, queries), expected) for at, port in enumerate(ports, 1)}
                lag = {"1": delay(writer, ports[:1], "one"), "3": delay(writer, ports, "three")}
                expected = rankings(writer, queries)
            killed = killed_at_random(folder, options.encoder, address, queries, expected)
    figures = {
        "documents": options.documents,
        "encoder": options.encoder,
        "clients": CLIENTS,
        "rates": rows,
        "compared": answers,
        "delays": lag,
        "kills": killed,
    }
    print(rates(figures), delays(figures), kills(figures), sep="\n")
    publish(figures, [SEED], options.out)


@contextmanager
def process(
    folder: Path, name: str, encoder: str | None, database: str | None, *more: str
) -> Iterator[tuple[int, ServiceProcess]]:
    """Yield the port of a service of one process, and its process."""
    options = ("--port", "0", "--workers", "1", *more)
    with started(folder / name, encoder, folder / f"{name}.log", *options, database=database) as one:
        yield one.port(), one


def searcher(folder: Path, number: int, encoder: str, address: str) -> Any:
    """Return the context of a searcher on its own data directory."""
    return process(folder, f"searcher-{number}", encoder, address, "--role", "searcher")


def filled(port: int, documents: int, queries: Sequence[str]) -> list[Any]:
    """Post the documents and return the rankings of the queries."""
    with httpx.Client(base_url=f"http://{HOST}:{port}", timeout=600) as client:
        fill(client, documents, SEED)
    return rankings(port, queries)


def rankings(port: int, queries: Sequence[str]) -> list[Any]:
    """Return the rankings of the queries."""
    with httpx.Client(base_url=f"http://{HOST}:{port}", timeout=60) as client:
        bodies = [client.post(f"{COLLECTION}/search", json={"q": query, "log": False}).content for query in queries]
    return [ranking(body) for body in bodies]


def ranking(body: bytes) -> list[Any]:
    """Return the ranking in an answer: ids, logits and weights."""
    return [(hit["id"], hit["logit"], hit["score"]) for hit in orjson.loads(body)["hits"]]


def difference(one: Sequence[Any], other: Sequence[Any]) -> float:
    """Return the largest difference of a weight, relative; infinity where documents or logits differ."""
    if [hit[:2] for hit in one] != [hit[:2] for hit in other]:
        return math.inf
    return max((abs(a - b) / max(a, b) for (_, _, a), (_, _, b) in zip(one, other, strict=True) if a != b), default=0.0)


def compared(ones: Sequence[Any], others: Sequence[Any]) -> dict[str, float]:
    """Return how many rankings have other documents or logits, and the largest difference of a weight in the others."""
    found = [difference(one, other) for one, other in zip(ones, others, strict=True)]
    return {"wrong": found.count(math.inf), "weights": max((one for one in found if one < math.inf), default=0.0)}


def searches(queries: Sequence[str], count: int) -> list[bytes]:
    """Return requests that repeat the queries."""
    return [
        request("POST", f"{COLLECTION}/search", {"q": queries[at % len(queries)], "log": False}) for at in range(count)
    ]


def rate(ports: Sequence[int], queries: Sequence[str]) -> dict[str, float]:
    """Return searches in a second with CLIENTS clients, and the times of a single client."""
    asked = searches(queries, 40_000)
    ask(ports, asked[: 3 * QUERIES], CLIENTS, LOAD_SECONDS)  # a first pass, which is not counted
    alone = ask(ports, asked[:QUERIES], 1, 60.0)
    load = ask(ports, asked, CLIENTS, LOAD_SECONDS)
    assert {one.status for one in (*alone.asked, *load.asked)} == {200}
    times = [1000 * one.seconds for one in alone.asked]
    return {
        "per_second": len(load.asked) / load.seconds,
        "p50_ms": percentile(times, 50),
        "p99_ms": percentile(times, 99),
    }


def delay(writer: int, ports: Sequence[int], name: str) -> dict[str, float]:
    """Return the times from the answer to a write to the end of a search that requires it. Searchers take turns."""
    times, repeated = [], 0
    with ExitStack() as opened:
        to, *others = [
            opened.enter_context(httpx.Client(base_url=f"http://{HOST}:{port}", timeout=60))
            for port in (writer, *ports)
        ]
        for number in range(WRITES):
            body = {"text": f"a lamp of {name} {number}"}
            seen = to.put(f"{COLLECTION}/documents/{name}-{number}", json=body).raise_for_status().headers[HEADER]
            begun, asked = time.perf_counter(), {"q": body["text"], "log": False}
            client = others[number % len(others)]
            while (
                answer := client.post(f"{COLLECTION}/search", json=asked, headers={HEADER: seen})
            ).status_code == NOT_YET:
                repeated += 1
            times.append(1000 * (time.perf_counter() - begun))
            assert answer.json()["hits"][0]["id"] == f"{name}-{number}"
    return {
        "p50_ms": percentile(times, 50),
        "p99_ms": percentile(times, 99),
        "most_ms": max(times),
        "repeated": repeated,
    }


def killed_at_random(
    folder: Path, encoder: str, address: str, queries: Sequence[str], expected: Sequence[Any]
) -> dict[str, Any]:
    """Kill searchers in turn under load and start them again; return the answers, and those that are wrong."""
    with ExitStack() as running:
        ports: list[int] = []
        processes: list[ServiceProcess] = []
        for number in range(1, SEARCHERS + 1):
            port, one = running.enter_context(searcher(folder, number, encoder, address))
            ports.append(port)
            processes.append(one)
        done = threading.Event()
        deaths: list[int] = []

        def kill() -> None:
            chance = random.Random(SEED)
            while not done.wait(chance.uniform(1.0, 3.0)) and len(deaths) < KILLS:
                at = chance.randrange(SEARCHERS)
                processes[at].process.send_signal(signal.SIGKILL)
                processes[at].process.wait()
                again = process(
                    folder, f"searcher-{at + 1}", encoder, address, "--role", "searcher", "--port", str(ports[at])
                )
                _, processes[at] = running.enter_context(again)
                deaths.append(at)

        killer = threading.Thread(target=kill)
        killer.start()
        load = ask(ports, searches(queries, 400_000), CLIENTS, KILLING_SECONDS)
        done.set()
        killer.join()
    answered = [one for one in load.asked if one.status == 200]
    pairs = [(ranking(one.body), expected[one.place % len(queries)]) for one in answered]
    return {
        "kills": len(deaths),
        "answers": len(answered),
        **compared([one for one, _ in pairs], [other for _, other in pairs]),
        "refused": sum(one.status == NO_CONNECTION for one in load.asked),
        "other": sum(one.status not in (NO_CONNECTION, 200) for one in load.asked),
    }


if __name__ == "__main__":
    main()
