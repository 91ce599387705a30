"""A kill before or inside any write, and a power cut at any moment, lose nothing that was acknowledged.

The short run takes evenly spaced points; `make soak` takes every one. docs/faults.md explains the method.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path

import pytest

from tests.faults.disk import Disk, written
from tests.faults.replay import Point, kills, loss_after_start, loss_at, power_cuts
from tests.faults.sqlite_vfs import find_library
from tests.faults.tally import SOAK, tell
from tests.faults.truth import read_truth
from tests.faults.workloads import WORKLOADS, Recording, directory_of_an_earlier_release, ingest, record

pytestmark = [
    pytest.mark.sqlite,
    pytest.mark.skipif(find_library() is None, reason="this Python hides the functions of its SQLite"),
]
SHORT = ("ingest", "feedback", "promotion", "administration", "snapshot", "migration")
"""The workloads of the short run. Training takes seconds by itself."""
every_workload = pytest.mark.parametrize("name", WORKLOADS if SOAK else SHORT)
EACH, STARTS = (1, 20) if SOAK else (29, 1000)
"""Every point whose number is a multiple of these is checked, in the tables and after a start of the service."""
SEEDS = 3 if SOAK else 1
"""Power cuts at each moment."""


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """Return the recording of a workload, made once."""

    @lru_cache
    def recording(name: str) -> Recording:
        data = tmp_path_factory.mktemp(name) / "data"
        if name == "migration":
            directory_of_an_earlier_release(data)
        return record(WORKLOADS[name], data)

    yield recording
    recording.cache_clear()


Points = Callable[[Callable[[int], bool]], Iterator[tuple[int, Point]]]


def losses(kind: str, points: Points, directory: Path) -> list[str]:
    """Return what is lost at the points: in the tables at every EACH, after a start at every STARTS."""
    found = []
    for number, point in points(lambda number: number % EACH == 0 or number % STARTS == STARTS // 2):
        if number % EACH == 0:
            found.append(tell(kind, loss_at(point, directory)))
        if number % STARTS == STARTS // 2:
            found.append(tell(f"{kind}, service started", loss_after_start(point, directory)))
    return [loss for loss in found if loss is not None]


@every_workload
def test_a_kill_at_any_write_loses_nothing(name: str, recordings: object, tmp_path: Path) -> None:
    recording = recordings(name)  # type: ignore[operator]
    assert losses(f"kill: {name}", partial(kills, recording), tmp_path / "killed") == []


@every_workload
def test_a_power_cut_at_any_moment_loses_nothing(name: str, recordings: object, tmp_path: Path) -> None:
    recording = recordings(name)  # type: ignore[operator]
    assert losses(f"power cut: {name}", partial(power_cuts, recording, SEEDS), tmp_path / "cut") == []


def test_without_syncs_a_power_cut_loses_what_was_acknowledged(tmp_path: Path) -> None:
    """The control: the same test finds the loss where there is one."""
    recording = record(ingest, tmp_path / "data", synchronous=False)
    points = power_cuts(recording, 1, lambda number: number % EACH == 0)
    found = [loss_at(point, tmp_path / "cut") for _, point in points]
    assert sum(loss is not None for loss in found) > len(found) // 4


def test_every_answer_changed_the_truth_or_left_it(recordings: object) -> None:
    """The truths that the points are compared with hold what the workload sent."""
    truths = recordings("ingest").truths  # type: ignore[operator]
    assert len(truths) == 13
    assert "default/alder" not in truths[2]["documents"]
    assert truths[3]["documents"]["default/alder"][1] == "alder is a tree"
    assert truths[-1]["documents"]["default/alder"][1] == "the wood of the alder lasts under water"
    assert "default/aspen" not in truths[-1]["documents"]
    assert {"default/oak", "default/willow", "default/yew"} <= set(truths[-1]["documents"])
    feedback = recordings("feedback").truths[-1]  # type: ignore[operator]
    assert [client for client, *_ in feedback["events"]].count("client-3") == 0
    assert feedback["judgments"] == [["soft wood", "aspen", "ada", 2]]
    assert [document for query, document, _ in feedback["memory"] if query == "soft wood"] == ["aspen"]


def test_every_act_of_administration_has_one_record(recordings: object) -> None:
    """The truths of the kills have each act once: a repeated request is no further act."""
    acts = [act for act, _ in recordings("administration").truths[-1]["acts"]]  # type: ignore[operator]
    assert acts == [
        *("set_collection",) * 3,
        *("swap_collections", "set_alias", "set_alias", "delete_alias", "delete_collection", "delete_by_filter"),
        *("force_promotion", "roll_back", "promote", "create_snapshot", "delete_snapshot", "export", "import"),
        *("erase", "create_key", "create_key", "rotate_key", "delete_key"),
    ]


def test_a_kill_after_the_file_of_a_snapshot_was_deleted_leaves_the_record(recordings: object, tmp_path: Path) -> None:
    disk, recording = Disk(), recordings("administration")  # type: ignore[operator]
    deletion = next(at for at, one in enumerate(recording.steps) if one.kind == "delete" and one.path.endswith(".tar"))
    for step in recording.steps[: deletion + 1]:
        if step.is_change:
            disk.apply(step)
    acts = [act for act, _ in read_truth(written(disk.image(), tmp_path / "killed"))["acts"]]
    assert acts[-2:] == ["create_snapshot", "delete_snapshot"]
