"""Damaged files: a damaged write-ahead log is a shorter history, a damaged index or model file is noticed."""

import random
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.disk import SECTOR, Disk, written
from tests.faults.recording import DATABASE
from tests.faults.replay import Image
from tests.faults.sqlite_vfs import find_library
from tests.faults.tally import SOAK, tell
from tests.faults.truth import Truth, faults_of, read_truth
from tests.faults.workloads import TREES, feedback, put_model_file, record, tree
from tests.service.client import CollectionClient, good, opened
from tests.service.stored_models import set_file, stored_model

pytestmark = pytest.mark.sqlite

EACH_SECTOR = 1 if SOAK else 97
DAMAGES = 1000 if SOAK else 12
WAL = DATABASE[1]
VERSION = 1
"""The champion of the directory that is damaged."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Image, list[Truth]]:
    """The disk of a service that was killed after its last answer, with a long write-ahead log, and all truths."""
    recording = record(feedback, tmp_path_factory.mktemp("killed") / "data")
    disk = Disk()
    last = max(number for number, step in enumerate(recording.steps) if step.kind == "answer")
    for step in recording.steps[:last]:
        disk.apply(step)
    return disk.image(), recording.truths


def damaged_logs(log: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the log cut at each sector, and with a bit flipped in each sector."""
    for offset in range(0, len(log), SECTOR * EACH_SECTOR):
        yield f"cut at {offset}", log[:offset]
        yield f"flipped at {offset}", log[:offset] + bytes([log[offset] ^ 1]) + log[offset + 1 :]


@pytest.mark.skipif(find_library() is None, reason="this Python hides the functions of its SQLite")
def test_a_damaged_log_is_a_shorter_history(killed: tuple[Image, list[Truth]], tmp_path: Path) -> None:
    image, truths = killed
    log = image[WAL]
    assert log is not None
    assert len(log) > 100 * SECTOR
    losses = []
    for name, content in damaged_logs(log):
        shutil.rmtree(tmp_path / "data", ignore_errors=True)
        written(image | {WAL: content}, tmp_path / "data", DATABASE)
        try:
            loss = None if read_truth(tmp_path / "data") in truths else f"{name}: not a state of the past"
            loss = loss or ("; ".join(faults_of(tmp_path / "data")) or None)
        except sqlite3.DatabaseError as error:
            loss = f"{name}: {error!r}"
        losses.append(tell("write-ahead log cut or flipped", loss))
    assert [loss for loss in losses if loss] == []


@pytest.mark.skipif(find_library() is None, reason="this Python hides the functions of its SQLite")
def test_the_service_starts_on_a_damaged_log(killed: tuple[Image, list[Truth]], tmp_path: Path) -> None:
    image, truths = killed
    log = image[WAL]
    assert log is not None
    written(image | {WAL: log[: len(log) // 2]}, tmp_path / "data")
    with opened(tmp_path / "data") as client:
        collection = CollectionClient(client)
        collection.until_indexed()
        found = {f"default/{one['id']}" for one in collection.get("documents", limit=100)["documents"]}
    assert found in [set(truth["documents"]) for truth in truths]


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any], list[Any]]:
    """A closed directory with a promoted model, and the rankings by this model and by version 0."""
    data = tmp_path_factory.mktemp("closed") / "data"
    with opened(data) as client:
        forest = CollectionClient(client)
        forest.add(*map(tree, TREES))
        forest.judge("a tree for a boat", "oak", 4)
        untrained = rankings(forest)
        version = put_model_file(client, 3.0)
        good(client.put(f"{forest.path}/models/aliases/champion", json={"version": version, "force": True}))
        trained = rankings(forest)
    assert trained != untrained
    return data, trained, untrained


def rankings(forest: CollectionClient) -> list[Any]:
    """Return the hits of searches that read every kind of file: vectors, words and memory."""
    return [forest.ranking(q) for q in ("a tree for a boat", "the holly", "elm")]


def damage(path: Path, chance: random.Random) -> str:
    """Flip a bit, cut, fill a sector with zeros, or delete; return what was done."""
    content, kind = bytearray(path.read_bytes()), chance.choice(("flip", "cut", "zero", "append", "delete"))
    at = chance.randrange(len(content) or 1)
    if kind == "flip" and content:
        content[at] ^= 1 << chance.randrange(8)
    elif kind == "cut":
        del content[at:]
    elif kind == "zero":
        content[at : at + SECTOR] = bytes(len(content[at : at + SECTOR]))
    elif kind == "append":
        content += b"\0"
    path.write_bytes(content)
    if kind == "delete":
        path.unlink()
    return f"{kind} {path.name} at {at}"


def damage_model(data: Path, name: str, chance: random.Random) -> str:
    """Damage a stored file of the champion as `damage` does a file; return what was done."""
    path = data / name
    path.write_bytes(stored_model(data, VERSION)[name])
    done = damage(path, chance)
    set_file(data, VERSION, name, path.read_bytes() if path.exists() else None)
    path.unlink(missing_ok=True)
    return done


def test_a_damaged_index_or_model_file_is_noticed(closed: tuple[Path, list[Any], list[Any]], tmp_path: Path) -> None:
    data, trained, untrained = closed
    files = [path.relative_to(data) for path in sorted((data / "indexes").rglob("*"))]
    files = [name for name in files if (data / name).is_file() and name.suffix != ".lock"]
    names = [*files, *sorted(stored_model(data, VERSION))]
    for seed in range(DAMAGES):
        chance = random.Random(seed)
        copy = tmp_path / str(seed)  # a new folder: a file that is still mapped can keep the old one
        shutil.copytree(data, copy)
        name = chance.choice(names)
        done = damage(copy / name, chance) if isinstance(name, Path) else damage_model(copy, name, chance)
        with opened(copy) as client:
            forest = CollectionClient(client)
            degraded = forest.search("elm", log=False)["degraded"]
            expected = untrained if degraded == ["champion_damaged"] else trained
            loss = None if rankings(forest) == expected else f"{done}: another ranking, and nothing is said"
        assert tell("damaged index or model file", loss) is None
        shutil.rmtree(copy, ignore_errors=True)
