"""A `reencode` or `reindex` that is killed after its switch: the repeated command says and does what is left."""

from pathlib import Path

import pytest

from index.encoding.hashing_encoder import HashingEncoder
from service.operations import reencoding as operation
from service.operations import reencoding_repository, reindexing
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
    """The data directory after a reencoding that was killed behind its switch."""
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
