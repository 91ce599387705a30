"""Recommendation by attention beside simpler recommenders: a document of a session is held out and searched for.

    python -m benchmarks.recommend --data ../shared/data --out benchmarks/results/recommend.json

A session is the documents that are relevant to one query (train: to choose the constants; test: to report), a cart
of the shop (benchmarks/carts.py), or the documents that a customer of the shop clicked on several searches, read from
the log of the service by `session_id` (benchmarks/logged_sessions.py). At most SIZE documents of a session are used,
from a log in the order of time, otherwise in a random order. Each of at most HELD_OUT documents is held out in
turn, and the others are liked. Reported are the share of held-out documents among the first ten (hit rate) and nDCG@10.
Sets in which every query has one relevant document have no sessions.

Compared systems: attention over the liked documents as `POST .../recommend` answers; the mean of the liked values;
the nearest to any liked document; the nearest to the last document; and popularity, the documents in most train
sessions. tau and f are chosen on the train sessions of CHOSEN_ON. For f, documents with grade 0 for the query are
disliked. No system recommends a liked or a disliked document. Vectors come from a cache after the first run
(benchmarks/vectors.py).
"""

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.carts import carts
from benchmarks.collections import TestSet, document_ids, opened, read_set
from benchmarks.logged_sessions import logged_sessions
from benchmarks.result_file import add_out, publish
from benchmarks.shop import products, shop
from benchmarks.vectors import CachedEncoder, converted_encoder
from benchmarks.workbench import mean_over_sets
from index.encoding.encoder import Encoder
from index.generation.generation import Generation
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.recommendation import AVERSION, SHARPNESS, Taste, pooled, recommend
from index.records import Floats
from service.settings import Settings

KEYS = ("title", "passage")
DEPTH = 10
CANDIDATES = 200
SIZE, HELD_OUT, DISLIKED = 11, 5, 5
"""Most documents of a session, most documents that are held out in turn, and most disliked documents."""
CHOSEN_ON = ("cranfield", "crowdflower", "chorus")
SHARPNESSES = (0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 1000.0)
AVERSIONS = (0.0, 0.25, 0.5, 1.0, 2.0)
SHOP_SEED = 0
LOGGED = "shop, log"
MOST_BOUGHT = "popularity"
Scores = Callable[[Floats, Floats], Floats]
"""(cosines (N, L) to the liked documents in their order, cosines (N, M) to the disliked) -> score (N,) of all."""


@dataclass(frozen=True)
class Session:
    """The doc indices of a session in its order, and of the documents that are disliked in it."""

    documents: tuple[int, ...]
    disliked: tuple[int, ...] = ()


@dataclass(frozen=True)
class Shelf:
    """A collection with its values (N, V), and its train and test sessions."""

    name: str
    generation: Generation
    values: Floats
    train: Sequence[Session]
    test: Sequence[Session]


def main() -> None:
    """Run the benchmark on the sets asked for; print the figures, and one last line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with one folder per test set")
    parser.add_argument("--sets", default="cranfield,crowdflower,chorus", help="comma-separated")
    parser.add_argument("--sessions", type=int, default=150, help="number of sessions of a set and part, at most")
    parser.add_argument("--seed", type=int, default=0)
    add_out(parser)
    options = parser.parse_args()
    encoder = CachedEncoder(converted_encoder(Settings().encoder))
    shelves = [
        judged_shelf(read_set(options.data / name), encoder, options.sessions, options.seed)
        for name in options.sets.split(",")
    ]
    shelves.append(cart_shelf(encoder, options.sessions, options.seed))
    shelves.append(log_shelf(shop(SHOP_SEED), encoder, options.sessions, options.seed))
    figures = measured(shelves)
    Console(width=140).print_json(data=figures)
    publish(figures, [options.seed], options.out)


def judged_shelf(one: TestSet, encoder: Encoder, most: int, seed: int) -> Shelf:
    """Return a set with a session for each query that has two relevant documents."""
    random = np.random.default_rng(seed)

    def sessions(qrels: dict[str, dict[str, int]], doc_index: dict[str, int]) -> list[Session]:
        found = []
        for query in sorted(qrels):
            grades = {doc_index[id]: grade for id, grade in qrels[query].items() if id in doc_index}
            liked = _drawn([at for at, grade in grades.items() if grade > 0], SIZE, random)
            if len(liked) > 1:
                found.append(
                    Session(liked, _drawn([at for at, grade in grades.items() if grade == 0], DISLIKED, random))
                )
        return [found[at] for at in _drawn(list(range(len(found))), most, random)]

    return _shelf(one, encoder, lambda doc_index: (sessions(one.train, doc_index), sessions(one.test, doc_index)))


def cart_shelf(encoder: Encoder, most: int, seed: int) -> Shelf:
    """Return the shop with its carts."""
    random = np.random.default_rng(seed)
    bought = carts(products(np.random.default_rng(SHOP_SEED)), 2 * most, random)

    def sessions(doc_index: dict[str, int]) -> tuple[list[Session], list[Session]]:
        every = [Session(tuple(doc_index[id] for id in cart)) for cart in bought]
        return every[:most], every[most:]

    return _shelf(shop(SHOP_SEED), encoder, sessions)


def log_shelf(one: TestSet, encoder: Encoder, most: int, seed: int) -> Shelf:
    """Return the shop with sessions that are read from its log by session id, at most `most` for each part."""
    random = np.random.default_rng(seed)
    with opened(one, encoder, KEYS) as (runtime, state):
        read = logged_sessions(runtime, state, 2 * most, random)
        every = [Session(documents[-SIZE:]) for documents in read]
        half = len(every) // 2
        return Shelf(LOGGED, state.generation, np.array(state.generation.values), every[:half], every[half:])


def _shelf(
    one: TestSet, encoder: Encoder, sessions: Callable[[dict[str, int]], tuple[list[Session], list[Session]]]
) -> Shelf:
    with opened(one, encoder, KEYS) as (runtime, state):
        generation = state.generation
        rows = generation.rows.tolist()
        ids = document_ids(runtime, state)
        train, test = sessions({ids[row]: at for at, row in enumerate(rows)})
        return Shelf(one.name, generation, np.array(generation.values), train, test)


def _drawn(items: Sequence[int], most: int, random: np.random.Generator) -> tuple[int, ...]:
    """Return at most `most` of the items, in a random order."""
    return tuple(items[at] for at in random.permutation(len(items))[:most].tolist())


def measured(shelves: Sequence[Shelf]) -> dict[str, Any]:
    """Return the choice of tau and f on train sessions, and the figures of every system on test sessions."""
    chosen_on = [one for one in shelves if one.name in CHOSEN_ON]
    disliking = {one.name: (one, [each for each in one.train if each.disliked]) for one in chosen_on}
    disliking = {name: (one, train) for name, (one, train) in disliking.items() if train}
    by_sharpness = {str(tau): [_mean(one, one.train, attention(tau)) for one in chosen_on] for tau in SHARPNESSES}
    by_aversion = {
        str(f): [_mean(one, train, attention(SHARPNESS, f)) for one, train in disliking.values()] for f in AVERSIONS
    }
    return {
        "sharpness": {"used": SHARPNESS, "sets": [one.name for one in chosen_on], "ndcg": _means(by_sharpness)},
        "aversion": {"used": AVERSION, "sets": list(disliking), "ndcg": _means(by_aversion)},
        "sets": {one.name: systems(one) for one in shelves},
        "dislikes": {one.name: found for one in shelves if (found := dislikes(one))},
    }


def systems(one: Shelf) -> dict[str, Any]:
    """Return hit rate and nDCG@10 of every system on the test sessions, and the gap of attention to the mean."""
    counts = Counter(at for session in one.train for at in session.documents)
    popularity = np.asarray([counts[at] for at in range(len(one.values))], np.float32)
    found = {
        "attention": served(one, [Session(each.documents) for each in one.test]),
        "mean of the liked": gains(one, one.test, attention(0.0), with_dislikes=False),
        "nearest to any liked": gains(one, one.test, lambda liked, _: liked.max(axis=1), with_dislikes=False),
        "nearest to the last": gains(one, one.test, lambda liked, _: liked[:, -1], with_dislikes=False),
        MOST_BOUGHT: gains(one, one.test, lambda *_: popularity, with_dislikes=False),
    }
    gap = found["attention"][:, 1] - found["mean of the liked"][:, 1]
    return {
        "documents": len(one.values),
        "sessions": len(one.test),
        "liked": round(float(np.mean([len(each.documents) - 1 for each in one.test])), 1),
        "systems": {
            name: {"hit_rate": round(float(hits), 4), "ndcg": round(float(ndcg), 4)}
            for name, (hits, ndcg) in ((name, values.mean(axis=0)) for name, values in found.items())
        },
        "attention_minus_mean": mean_over_sets([gap]),
    }


def dislikes(one: Shelf) -> dict[str, Any] | None:
    """Return the effect of dislikes on the test sessions that have them: nDCG@10 and the rank of their neighbours."""
    test = [each for each in one.test if each.disliked]
    if not test:
        return None
    without, with_them = (gains(one, test, attention(SHARPNESS, f))[:, 1] for f in (0.0, AVERSION))
    ranks = np.asarray([_neighbour_ranks(one, each) for each in test])
    return {
        "sessions": len(test),
        "ndcg_without": round(float(without.mean()), 4),
        "ndcg_with": round(float(with_them.mean()), 4),
        "gain": mean_over_sets([with_them - without]),
        "neighbour_rank_without": float(np.median(ranks[:, 0])),
        "neighbour_rank_with": float(np.median(ranks[:, 1])),
    }


def _neighbour_ranks(one: Shelf, session: Session) -> tuple[int, int]:
    """Return the rank, without and with dislikes, of the document that is nearest to a disliked document."""
    left_out = [*session.documents, *session.disliked]
    disliked = one.values @ one.values[list(session.disliked)].T
    nearest = disliked.max(axis=1)
    nearest[left_out] = -np.inf
    neighbour = int(nearest.argmax())
    liked = one.values @ one.values[list(session.documents)].T
    ranks = []
    for aversion in (0.0, AVERSION):
        scores = attention(SHARPNESS, aversion)(liked, disliked)
        scores[left_out] = -np.inf
        ranks.append(1 + int((scores > scores[neighbour]).sum()))
    return ranks[0], ranks[1]


def attention(sharpness: float, aversion: float = 0.0) -> Scores:
    """Return attention with this tau and f, over all documents. tau = 0 ranks by the cosine to the mean."""

    def scores(liked: Floats, disliked: Floats) -> Floats:
        like = pooled(liked, sharpness)[0]
        if not disliked.shape[1]:
            return like
        nearer = np.maximum(pooled(disliked, sharpness)[0] - like, 0)
        return like - np.float32(aversion) * nearer

    return scores


def gains(one: Shelf, sessions: Sequence[Session], scores: Scores, with_dislikes: bool = True) -> Floats:
    """Return hit rate and nDCG@10 (sessions, 2) of the held-out documents, in the mean of each session."""
    return np.asarray([_gain(one, session, scores, with_dislikes) for session in sessions])


def _gain(one: Shelf, session: Session, scores: Scores, with_dislikes: bool) -> Floats:
    disliked = list(session.disliked) if with_dislikes else []
    cosines = one.values @ one.values[list(session.documents)].T
    away = one.values @ one.values[disliked].T
    found = []
    for at in range(min(HELD_OUT, len(session.documents))):
        liked = [place for place in range(len(session.documents)) if place != at]
        ranked = np.array(scores(cosines[:, liked], away), np.float32)
        ranked[[session.documents[place] for place in liked] + disliked] = -np.inf
        held_out = session.documents[at]
        before = (ranked > ranked[held_out]) | ((ranked == ranked[held_out]) & (np.arange(len(ranked)) < held_out))
        found.append(_measures(int(before.sum())))
    return np.mean(found, axis=0)


def served(one: Shelf, sessions: Sequence[Session]) -> Floats:
    """Return hit rate and nDCG@10 (sessions, 2) of the recommendations of the service, with its candidates."""
    head = AttentionHead(HeadConfig(dim=one.values.shape[1]))
    found = []
    for session in sessions:
        of_session = []
        for held_out in session.documents[:HELD_OUT]:
            liked = np.asarray([at for at in session.documents if at != held_out], np.int64)
            shown = recommend(one.generation, head, Taste(liked), CANDIDATES).doc_indices[:DEPTH].tolist()
            of_session.append(_measures(shown.index(held_out) if held_out in shown else DEPTH))
        found.append(np.mean(of_session, axis=0))
    return np.asarray(found)


def _measures(before: int) -> tuple[float, float]:
    """Return hit and nDCG@10 of one relevant document with this number of documents before it."""
    return (1.0, float(1 / np.log2(2 + before))) if before < DEPTH else (0.0, 0.0)


def _mean(one: Shelf, sessions: Sequence[Session], scores: Scores) -> float:
    return float(gains(one, sessions, scores)[:, 1].mean())


def _means(values: dict[str, list[float]]) -> dict[str, float | None]:
    return {name: round(float(np.mean(one)), 4) if one else None for name, one in values.items()}


if __name__ == "__main__":
    main()
