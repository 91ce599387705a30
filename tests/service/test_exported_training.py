"""A training run on a cluster makes, from its exported state, the model that it makes on the machine of the service.

The cluster is a stand-in here: it runs the task in the process that asks for it.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from index.encoding.encoder import load_encoder
from index.errors import EncoderMismatch
from service.cluster import training
from service.training import child_process
from service.training.exported_state import write_files
from service.training.inputs import encoder_of_keys
from tests.service.client import CollectionClient, create, opened, runtime_of
from tests.service.stored_models import stored_model
from tests.service.training_processes import Spawn

BIRDS = "wren robin owl heron crane stork finch lark swift raven eagle gull tern duck goose swan dove jay rook kite"
ASKED = {"seed": 3, "click_reading": "naive"}
PROGRAM = """
import sys
from contextlib import contextmanager
from service.cluster import training
from service.cluster.connection import NoCluster, WorkLost

class Cluster:
    losses = {losses}

    def put(self, value):
        return value

    def streamed(self, function, *arguments):
        if self.losses:
            self.losses -= 1
            raise WorkLost("its machine is gone")
        yield from function(*arguments)

@contextmanager
def connected(address):
    yield Cluster()

training.connected = connected
sys.exit(training.main(sys.argv[1:]))
"""
Losing = Callable[[int], None]


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> Losing:
    """Gives the service a cluster that loses a task some times before it runs it."""
    start = subprocess.Popen

    def use(losses: int) -> None:
        def started(command: list[str], **options: Any) -> Any:
            if command[1:3] == ["-m", "service.cluster.training"]:
                command = [sys.executable, "-c", PROGRAM.format(losses=losses), command[3]]
            return start(command, **options)

        monkeypatch.setattr(child_process.subprocess, "Popen", started)

    return use


@pytest.fixture
def birds(tmp_path: Path) -> Iterator[CollectionClient]:
    """A collection with feedback, of a service whose runs are fitted on a cluster."""
    with opened(tmp_path / "data", ray_training=True) as client:
        birds, names = create(client, "birds"), BIRDS.split()
        birds.add(*({"id": bird, "title": bird, "text": f"feather {at}"} for at, bird in enumerate(names)))
        birds.add(*({"id": f"{bird}-1", "title": "nest", "text": f"{bird} {bird}"} for bird in names))
        judgments = [{"query": bird, "document_id": bird, "rating": 4} for bird in names]
        birds.post("judgments", {"judgments": judgments})
        yield birds


def weights(birds: CollectionClient, run: dict[str, Any]) -> bytes:
    """Return the tensors of the model that a run has made."""
    assert run["status"] == "succeeded", run["error"]
    return stored_model(runtime_of(birds.client).settings.data, run["model_version"], birds.id)["head.safetensors"]


def test_the_model_of_a_cluster_is_that_of_the_machine_to_the_bit(
    losing: Losing, birds: CollectionClient, spawn_forked: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    losing(1)
    far = birds.train(**ASKED, promote="never")
    assert "exported" in [step["phase"] for step in far["steps"]]
    monkeypatch.setattr(child_process, "_spawn", spawn_forked)
    near = birds.train(**ASKED, promote="never")
    assert "exported" not in [step["phase"] for step in near["steps"]]
    assert weights(birds, far) == weights(birds, near)
    assert far["decision"]["checks"] == near["decision"]["checks"]


def test_a_run_that_the_cluster_loses_again_and_again_fails(losing: Losing, birds: CollectionClient) -> None:
    losing(3)
    run = birds.train(**ASKED)
    assert run["status"] == "failed"
    assert run["error"]["code"] == "no_cluster"
    assert "its machine is gone" in run["error"]["detail"]


def test_a_run_without_a_cluster_says_so(birds: CollectionClient) -> None:
    run = birds.train(**ASKED)
    assert run["status"] == "failed"
    assert run["error"]["code"] == "no_cluster"


def test_the_folders_of_killed_fits_are_deleted_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with training._own_folder() as going:
        left = going.parent / "left"
        left.mkdir()
        (left / "inputs").write_bytes(b"texts")
        with training._own_folder() as own:
            assert sorted(path for path in going.parent.iterdir() if path.is_dir()) == sorted([going, own])
        assert not own.exists()
    assert not going.exists()


def test_weights_that_the_collection_was_not_encoded_with_are_refused() -> None:
    with pytest.raises(EncoderMismatch):
        encoder_of_keys(load_encoder, "hashing", "another")


@pytest.mark.parametrize("name", ["../outside", "/tmp/outside", "model/../../outside"])
def test_files_of_a_cluster_stay_in_the_folder_of_the_run(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not a path below"):
        write_files(tmp_path / "run", {name: b""})
