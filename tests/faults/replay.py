"""Replays a recording: compares the directory that a kill or a power cut leaves at any step with the truth.

The workload is not run again: a point costs milliseconds.
"""

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from index.errors import DamagedFile
from index.ranking.checkpoint import head_of_files
from tests.faults.disk import Disk, Step, change, written
from tests.faults.recording import DATABASE
from tests.faults.truth import Truth, agrees, difference, faults_of, read_truth
from tests.faults.workloads import Recording
from tests.service.client import CollectionClient, opened, runtime_of
from tests.service.stored_models import stored_model

ADMIN_KEY = "the-key-of-the-service-that-is-started"
Image = dict[str, bytes | None]
MODEL_FILES = ("manifest.json", "head.safetensors")


@dataclass(frozen=True)
class Point:
    """A moment of a recording: the number of steps before it, the image of the disk, and what may be found on it."""

    number: int
    image: Image
    before: Truth
    """The truth after the last answer."""
    after: Truth
    """The truth after the next answer: the request that was being answered may be complete."""
    kind: str


Choice = Callable[[int], bool]
"""Whether the point with this number is wanted. Others cost no image."""


def kills(recording: Recording, wanted: Choice) -> Iterator[tuple[int, Point]]:
    """Yield points before every step that changes the disk, and inside every write: half of its bytes are there."""
    count = -1
    for number, disk, step, before, after in _moments(recording):
        if wanted(count := count + 1):
            yield count, Point(number, disk.image(), before, after, "kill")
        if step.kind == "write" and wanted(count := count + 1):
            yield count, Point(number, _torn(disk.image(), step), before, after, "kill inside a write")


def power_cuts(recording: Recording, seeds: int, wanted: Choice) -> Iterator[tuple[int, Point]]:
    """Yield `seeds` points before every step that changes the disk: each without other changes that were not synced."""
    count = -1
    for number, disk, _, before, after in _moments(recording):
        for seed in range(seeds):
            if wanted(count := count + 1):
                image = disk.image_after_power_cut(random.Random(number * seeds + seed))
                yield count, Point(number, image, before, after, "power cut")


def _torn(image: Image, step: Step) -> Image:
    content = bytearray(image.get(step.path) or b"")
    change(content, replace(step, data=step.data[: len(step.data) // 2]))
    return image | {step.path: bytes(content)}


def _moments(recording: Recording) -> Iterator[tuple[int, Disk, Step, Truth, Truth]]:
    """Yield the number of every step, the disk before it, the step, and the truths after the last and next answer."""
    disk, answered, last = Disk(), -1, len(recording.truths) - 1
    for number, step in enumerate([*recording.steps, Step("end")]):
        if not step.is_change:
            answered = step.offset
            continue
        if answered >= 0:
            yield number, disk, step, recording.truths[answered], recording.truths[min(answered + 1, last)]
        disk.apply(step)


def loss_at(point: Point, directory: Path) -> str | None:
    """Return what is lost, half there or damaged in the tables and models at a point; None if nothing is."""
    shutil.rmtree(directory, ignore_errors=True)
    written(point.image, directory, DATABASE)
    try:
        found = read_truth(directory)
        if not agrees(found, point.before, point.after):
            return f"{point.kind} before step {point.number}: {difference(found, point.before)}"
        faults = faults_of(directory) if (directory / DATABASE[0]).exists() and point.number % 10 == 0 else []
        for collection_id, version in found["models"]:
            if version:
                head_of_files(stored_model(directory, version, collection_id))
    except (sqlite3.DatabaseError, DamagedFile) as error:
        return f"{point.kind} before step {point.number}: {error!r}"
    return f"{point.kind} before step {point.number}: {faults}" if faults else None


def loss_after_start(point: Point, directory: Path) -> str | None:
    """Start the service on the directory of a point; return what it does not serve as the tables have it, or None."""
    shutil.rmtree(directory, ignore_errors=True)
    written(point.image, directory)
    where = f"{point.kind} before step {point.number}"
    with opened(directory, admin_key=ADMIN_KEY) as client:
        client.headers["Authorization"] = f"Bearer {ADMIN_KEY}"
        collection = CollectionClient(client)
        collection.until_indexed()
        runtime_of(client).impressions.flush()
        documents = _all_documents(collection)
        allowed = [_texts(truth) for truth in (point.before, point.after)]
        if documents not in allowed:
            return f"{where}: serves {sorted(documents)} instead of {sorted(allowed[0])}"
        found = collection.search("*", limit=1000, log=False)
        if {hit["id"] for hit in found["hits"]} != set(documents):
            return f"{where}: finds {sorted(hit['id'] for hit in found['hits'])} of {sorted(documents)}"
        some = sorted(documents)[:: max(1, len(documents) // 4)]
        lost = [id for id in some if id not in collection.ids(documents[id], mode="words", limit=100)]
        if lost or found["degraded"]:
            return f"{where}: does not find {lost}, {found['degraded']}"
        champions = [dict(truth["champions"]).get("default", 0) for truth in (point.before, point.after)]
        if found["model"]["version"] not in champions:
            return f"{where}: serves model {found['model']['version']}, not one of {champions}"
    return None


def _texts(truth: Truth) -> dict[str, str]:
    return {key.split("/", 1)[1]: text for key, (_, text, _) in truth["documents"].items()}


def _all_documents(collection: CollectionClient) -> dict[str, str]:
    listed = collection.get("documents", limit=1000)["documents"]
    return {document["id"]: document["text"] for document in listed}
