"""Whether "probably no document answers" is said only when it is true, before and after training, on the test split.

    python -m benchmarks.null --data ../shared/data --out benchmarks/results/null.json

Every test query is searched twice: in the whole collection, and without its relevant documents. Train queries of the
other sets are searched too: no document answers them. An alarm is a null weight of one half or more where the first hit
lacks a word of the query, as for `answered` in an answer. It is false for a query with a relevant document among its
first ten hits. Reported are the shares of false alarms, of queries without their documents and of foreign queries that
are caught, and the share caught where a threshold chosen on the test queries gives 1, 2, 5 and 10 % false alarms. The
expected calibration error has one unanswered query for four answered.

`untrained` is version 0 with the null slot calibrated on queries made of the collection's own texts. `trained` is a
training run on at most `--train` queries. `version 0` is the null slot of version 0, which is the same for all
collections. `top cosine` is calibrated on the same queries in the same way, with the largest cosine of a key as its
only evidence. `--resume` keeps the evidence of the sets that are finished. Vectors come from a cache after the first
run (benchmarks/vectors.py).
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from benchmarks.collections import TestSet, document_ids, opened, post_train_judgments, read_set
from benchmarks.ours import train
from benchmarks.result_file import add_out, publish
from benchmarks.vectors import CachedEncoder, converted_encoder
from benchmarks.workbench import KEYS, add_resume
from index.encoding.encoder import Encoder
from index.generation.generation import Generation
from index.learning.held_out import sample
from index.learning.made_queries import MadeQuery, SourceText, make_queries
from index.learning.null_calibration import (
    CONFIDENCE,
    NullFit,
    auroc,
    expected_calibration_error,
    fit_cautious,
    null_evidence,
)
from index.learning.null_slot import ANSWERED_DEPTH, MADE_CONFIDENCE, made_evidence
from index.memory.query_key import as_query_key
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.retrieval import Query, read_query
from index.ranking.search import has_all_words, search
from index.records import Floats, Ints
from service.runtime.collection import CollectionState
from service.runtime.model_files import load_version
from service.runtime.runtime import Runtime
from service.settings import Settings

Array = NDArray[np.float64]
FALSE_ALARM_SHARES = (0.01, 0.02, 0.05, 0.1)
ANSWERED_PER_UNANSWERED = 4
FOREIGN = 20
"""Train queries of each other set."""
MADE_FROM = 400
COSINE_SCALE = 25.0
"""Factor of the top cosine, so that the prior of `fit_null` on the slope suits it."""


@dataclass(frozen=True)
class Asked:
    """n queries with their vectors (n, D) and the doc indices that answer each; none answer a foreign query."""

    texts: Sequence[str]
    vectors: Floats
    relevant: Sequence[Ints]


def main() -> None:
    """Run the benchmark on the chosen sets; print the figures of each, and one last line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with one folder per test set")
    parser.add_argument("--sets", default="", help="comma-separated; default: all")
    parser.add_argument("--queries", type=int, default=150, help="number of test queries, at most")
    parser.add_argument("--train", type=int, default=400, help="number of train queries, at most")
    parser.add_argument("--seed", type=int, default=0)
    add_resume(parser)
    add_out(parser)
    options = parser.parse_args()
    folders = sorted(folder for folder in options.data.iterdir() if (folder / "corpus.jsonl").is_file())
    every = [read_set(folder) for folder in folders]
    encoder = CachedEncoder(converted_encoder(Settings().encoder))
    console = Console(width=140)
    found: dict[str, Any] = {}
    if options.resume and options.resume.is_file():
        found = json.loads(options.resume.read_bytes())
    for one in sorted(every, key=lambda each: len(each.documents)):
        if one.name in found or (options.sets and one.name not in options.sets.split(",")):
            continue
        foreign = [text for other in every if other.name != one.name for text in _foreign(other)]
        found[one.name] = collect(one, encoder, foreign, options.queries, options.train, options.seed)
        if options.resume:
            options.resume.write_text(json.dumps(found), encoding="utf-8")
        console.print(one.name, json.dumps(figures(found[one.name])), highlight=False)
    publish({"sets": {name: figures(found[name]) for name in sorted(found)}}, [options.seed], options.out)


def collect(
    one: TestSet, encoder: Encoder, foreign: Sequence[str], queries: int, train_queries: int, seed: int
) -> dict[str, Any]:
    """Return the evidence of all searches of a set, as lists, and the null slot that training fitted."""
    learn = {query: one.train[query] for query in sample(sorted(one.train), train_queries, seed)}
    tested = {query: one.test[query] for query in sample(sorted(one.test), queries, seed)}
    with opened(one, encoder, KEYS) as (runtime, state):
        generation, head = state.generation, state.serving.head
        rows = document_ids(runtime, state)
        made = make_queries(_sources(one, rows, seed))
        vectors = encoder.encode_queries([each.text for each in made])
        test, labelled = (_asked(one, part, generation, rows, encoder) for part in (tested, learn))
        strangers = Asked(foreign, encoder.encode_queries(foreign), [np.empty(0, np.int64)] * len(foreign))
        own = made_evidence(generation, head, made, vectors)
        found: dict[str, Any] = {
            "made": {"answered": own.answered.tolist(), "unanswered": own.unanswered.tolist()},
            "made_cosine": _made_cosines(generation, made, vectors),
            "untrained": _searched(generation, head, test, strangers),
            "cosine": {name: _cosines(generation, each) for name, each in (("test", test), ("foreign", strangers))},
            "labelled_cosine": _cosines(generation, labelled),
        }
        post_train_judgments(runtime, state, replace(one, train=learn))
        trained = _trained(runtime, state, seed)
        found["trained"] = _searched(state.generation, trained, test, strangers)
        return found | {"null": [float(value) for value in trained.null], "calibrated": trained.is_null_calibrated}


def figures(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the measures of every system from the evidence of a set."""
    own, cosine = found["made"], found["cosine"]
    hits = {state: np.asarray(found[state]["answered"], bool) for state in ("untrained", "trained")}
    made_fit = fit_cautious(own["answered"], own["unanswered"], usual=True, confidence=MADE_CONFIDENCE)
    assert made_fit is not None
    cosine_before, cosine_after = (
        fit_cautious(_scaled(found[name]["present"]), _scaled(found[name]["removed"]), confidence=confidence)
        for name, confidence in (("made_cosine", MADE_CONFIDENCE), ("labelled_cosine", CONFIDENCE))
    )
    by_cosine = {
        name: _scaled(values) for name, values in (cosine["test"] | {"foreign": cosine["foreign"]["present"]}).items()
    }
    measured = {
        "version 0": _measures(NullFit(*HeadConfig.null), found["untrained"], hits["untrained"]),
        "untrained": _measures(made_fit, found["untrained"], hits["untrained"]),
        "untrained, top cosine": _measures(cosine_before, by_cosine, hits["untrained"]),
        "trained": _measures(NullFit(*found["null"]), found["trained"], hits["trained"]),
        "trained, top cosine": _measures(cosine_after, by_cosine, hits["trained"]),
    }
    return {
        "queries": len(hits["untrained"]),
        "foreign": len(found["untrained"]["foreign"]),
        "made_queries": len(own["unanswered"]),
        "measured": measured,
    }


def _measures(fit: NullFit | None, evidence: Mapping[str, Any], answered: NDArray[np.bool_]) -> dict[str, Any]:
    """Return the measures of a fit for the evidence of test queries: `present`, `removed` and `foreign`."""
    assert fit is not None, "too few queries to calibrate on"
    weights = {name: fit.null_weight(evidence[name]) for name in ("present", "removed", "foreign")}
    present, without = weights["present"], weights["removed"]
    few = without[::ANSWERED_PER_UNANSWERED]
    claimed, missing = np.concatenate([present, few]), np.repeat([0, 1], [len(present), len(few)])
    # no alarm where the first hit has all words; the evidence by cosine sees no words
    alarms = {name: np.where(evidence.get(f"{name} whole", False), 0.0, weight) for name, weight in weights.items()}
    known, removed, foreign = alarms["present"][answered], alarms["removed"], alarms["foreign"]
    thresholds = [float(np.sort(known)[::-1][int(share * len(known) + 1e-9)]) for share in FALSE_ALARM_SHARES]
    return {
        "answered": len(known),
        "false_alarms": round(float((known >= 0.5).mean()), 4),
        "caught": round(float((removed >= 0.5).mean()), 4),
        "foreign_caught": round(float((foreign >= 0.5).mean()), 4),
        "curve": [round(float((removed > threshold).mean()), 4) for threshold in thresholds],
        "foreign_curve": [round(float((foreign > threshold).mean()), 4) for threshold in thresholds],
        "ECE": round(expected_calibration_error(claimed, missing), 4),
        "AUROC": round(float(auroc(np.concatenate([present, without]), np.repeat([0, 1], len(present)))), 4),
    }


def _searched(generation: Generation, head: AttentionHead, test: Asked, foreign: Asked) -> dict[str, Any]:
    """Return the evidence of the test queries' two searches, whether each is answered, and of the foreign queries."""
    found: dict[str, list[Any]] = {"present": [], "removed": [], "answered": [], "foreign": []}
    found |= {f"{name} whole": [] for name in ("present", "removed", "foreign")}
    for text, vector, relevant in zip(test.texts, test.vectors, test.relevant, strict=True):
        query = Query(text, vector, excluded_query=as_query_key(text))
        words = read_query(generation, query).words
        whole = search(generation, head, query)
        without = search(generation, head, replace(query, allowed=_without(generation, relevant)))
        found["present"].append(null_evidence(whole.logits).tolist())
        found["removed"].append(null_evidence(without.logits).tolist())
        found["present whole"].append(has_all_words(whole, words))
        found["removed whole"].append(has_all_words(without, words))
        found["answered"].append(bool(np.isin(whole.doc_indices[:ANSWERED_DEPTH], relevant).any()))
    for text, vector in zip(foreign.texts, foreign.vectors, strict=True):
        query = Query(text, vector)
        asked = search(generation, head, query)
        found["foreign"].append(null_evidence(asked.logits).tolist())
        found["foreign whole"].append(has_all_words(asked, read_query(generation, query).words))
    return found


def _cosines(generation: Generation, asked: Asked) -> dict[str, list[float]]:
    """Return the largest cosine of a key for each query, with and without the keys of the relevant documents."""
    found: dict[str, list[float]] = {"present": [], "removed": []}
    for vector, relevant in zip(asked.vectors, asked.relevant, strict=True):
        cosine = generation.keys @ vector
        found["present"].append(float(cosine.max()))
        cosine[np.isin(generation.key_doc_index, relevant)] = -1
        found["removed"].append(float(cosine.max()))
    return found


def _made_cosines(generation: Generation, made: Sequence[MadeQuery], vectors: Floats) -> dict[str, list[float]]:
    """Return the same of made queries, `present` without the key that the query is made of."""
    found: dict[str, list[float]] = {"present": [], "removed": []}
    kinds = generation.columns.key_kind.take(np.arange(len(generation.keys)))
    for one, vector in zip(made, vectors, strict=True):
        cosine = generation.keys @ vector
        own = generation.key_doc_index == generation.doc_indices(np.asarray([one.row]))[0]
        source = np.flatnonzero(own & (kinds == int(one.kind)))
        if len(source):
            cosine[source[np.argmax(cosine[source])]] = -1
        found["present"].append(float(cosine.max()))
        cosine[own] = -1
        found["removed"].append(float(cosine.max()))
    return found


def _scaled(cosines: Sequence[float]) -> Array:
    """Return cosines (n,) as evidence (n, 2) of a null slot without a peak."""
    scaled = COSINE_SCALE * np.asarray(cosines, np.float64)
    return np.column_stack([scaled, np.zeros(len(scaled))])


def _sources(one: TestSet, rows: Mapping[int, str], seed: int) -> list[SourceText]:
    documents = {each["id"]: each for each in one.documents}
    chosen = sample(sorted(rows), MADE_FROM, seed)
    return [SourceText(row, documents[rows[row]]["title"] or "", documents[rows[row]]["text"]) for row in chosen]


def _asked(
    one: TestSet,
    judged: Mapping[str, Mapping[str, int]],
    generation: Generation,
    rows: Mapping[int, str],
    encoder: Encoder,
) -> Asked:
    doc_index = {name: int(generation.doc_indices(np.asarray([row]))[0]) for row, name in rows.items()}
    texts = [one.queries[query] for query in judged]
    relevant = [
        np.asarray([doc_index[name] for name, grade in grades.items() if grade > 0 and name in doc_index], np.int64)
        for grades in judged.values()
    ]
    return Asked(texts, encoder.encode_queries(texts), relevant)


def _foreign(other: TestSet) -> list[str]:
    return [other.queries[query] for query in sample(sorted(other.train), FOREIGN, 0)]


def _without(generation: Generation, doc_indices: Ints) -> NDArray[np.bool_]:
    allowed: NDArray[np.bool_] = generation.alive.copy()
    allowed[doc_indices] = False
    return allowed


def _trained(runtime: Runtime, state: CollectionState, seed: int) -> AttentionHead:
    """Return the head of a training run, promoted or not."""
    record, _ = train(runtime, state, seed, promote="never")
    assert record["status"] == "succeeded", record["error"]
    with runtime.database.read() as connection:
        return load_version(connection, state.id, state.initial, record["model_version"])


if __name__ == "__main__":
    main()
