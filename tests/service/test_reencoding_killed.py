"""What `reencode` and `reindex` say and leave after a kill after the switch, and on a full disk."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import service.runtime.runtime as runtime_module
from index.encoding.hashing_encoder import HashingEncoder
from index.storage.full_disk import NotSynced
from service.cli import main
from service.documents.repository import insert_vectors
from service.operations import reencoding as operation
from service.operations import reencoding_repository, reindexing, rows_beside
from service.operations.encoded_blocks import FOLDER
from service.operations.reencoding import reencode
from service.operations.reindexing import reindex
from tests.service import test_reencoding as reencoding
from tests.service.client import create, good
from tests.service.test_reencoding import Command, running, served, tree

pytestmark = pytest.mark.usefixtures("forked_training")

trained, data, command = reencoding.trained, reencoding.data, reencoding.command


def kill(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.fixture
def killed(data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data directory after a reencoding that was killed after its switch."""
    with running(data) as runtime, monkeypatch.context() as patched:
        patched.setattr(operation, "reload", kill)
        with pytest.raises(KeyboardInterrupt):
            reencode(runtime, runtime.collection("wood"))
    return data


def folders(data: Path) -> set[str]:
    """Return the collections with vectors of unfinished attempts, by their numbers."""
    return {path.name.partition("-")[0] for path in (data / FOLDER).glob("*")}


@pytest.mark.usefixtures("killed")
def test_the_repeated_command_says_what_the_killed_command_did_not(command: Command) -> None:
    out, err = command("wood", "--encoder", "wide")
    assert "wood has the vectors of wide already" in out
    assert "champion: model 0 (untrained) instead of model 1, which is kept: train again" in out
    assert "set SOFTSEEK_ENCODER=wide" in err
    assert "champion" not in command("wood", "--encoder", "wide", "--json")[1]


def test_a_champion_of_after_the_switch_is_not_called_retired(killed: Path, command: Command) -> None:
    with served(killed) as wood:
        version = wood.train(promote="never", budget_seconds=1)["model_version"]
        good(wood.client.put(f"{wood.path}/models/aliases/champion", json={"version": version, "force": True}))
    out, err = command("wood", "--encoder", "wide")
    assert "champion" not in out
    assert "set SOFTSEEK_ENCODER=wide" in err


def test_the_repeated_attempt_deletes_its_vectors_and_keeps_those_of_others(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(data, HashingEncoder()) as wood:
        oaks = create(wood.client, "oaks")
        oaks.add(tree(1))
        numbers = {str(wood.id), str(oaks.id)}
    for name, owner, step in (("oaks", reencoding_repository, "switch_encoder"), ("wood", operation, "reload")):
        with running(data) as runtime, monkeypatch.context() as patched:
            patched.setattr(owner, step, kill)
            with pytest.raises(KeyboardInterrupt):
                reencode(runtime, runtime.collection(name))
    assert folders(data) == numbers
    with running(data) as runtime:
        assert reindex(runtime, runtime.collection("oaks"), {"language": "english"}) is None
        assert folders(data) == numbers, "the reencoding of oaks can go on"
        assert reencode(runtime, runtime.collection("wood")) is None
        assert folders(data) == {str(runtime.collection("oaks").id)}
        assert reencode(runtime, runtime.collection("oaks")) is not None
    assert not (data / FOLDER).exists()


def test_a_repeated_reindexing_deletes_its_vectors(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = {"keys": ["title", "passage", "sentence"]}
    with running(data, HashingEncoder()) as runtime, monkeypatch.context() as patched:
        patched.setattr(reindexing, "reload", kill)
        with pytest.raises(KeyboardInterrupt):
            reindex(runtime, runtime.collection("wood"), more)
    assert (data / FOLDER).exists()
    with running(data, HashingEncoder()) as runtime:
        assert reindex(runtime, runtime.collection("wood"), more) is None
    assert not (data / FOLDER).exists()


class Full:
    """Fails as a full disk does at one call, in place of a function that is called before."""

    def __init__(self, function: Callable[..., Any], error: OSError) -> None:
        self._function, self._error = function, error

    def __call__(self, *arguments: Any, **more: Any) -> Any:
        self._function(*arguments, **more)
        raise self._error


FULL = OSError(errno.ENOSPC, "No space left on device")
NOT_SYNCED = NotSynced(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("step", "error", "standing"),
    [
        ((rows_beside, "insert_vectors"), FULL, "nothing was switched"),
        ((reencoding_repository, "switch_encoder"), FULL, "nothing was switched"),
        ((reencoding_repository, "switch_encoder"), NOT_SYNCED, "wood may have been switched"),
        ((operation, "reload"), FULL, "wood was switched"),
    ],
)
def test_a_full_disk_ends_the_command_with_what_it_left(
    command: Command, monkeypatch: pytest.MonkeyPatch, step: tuple[Any, str], error: OSError, standing: str
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(*step, Full(getattr(*step), error))
        _, err = command("wood", "--encoder", "wide", code=1)
    repeat = "repeat the command when there is space, and it goes on"
    assert err.splitlines()[-1] == f"insufficient_storage: the disk is full: {standing}; {repeat}"
    out, _ = command("wood", "--encoder", "wide")
    assert "champion: model 0 (untrained) instead of model 1" in out


def test_a_full_disk_ends_reindex_too(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runtime_module, "load_encoder", lambda *_: HashingEncoder())
    arguments = ["reindex", "wood", "--keys", "passage", "--data", str(data)]
    with monkeypatch.context() as patched:
        patched.setattr(rows_beside, "insert_vectors", Full(insert_vectors, FULL))
        with pytest.raises(SystemExit) as ended:
            main(arguments)
    assert ended.value.code == 1
    assert "insufficient_storage: the disk is full: nothing was switched;" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert not ended.value.code
