"""A `reencode` or `reindex` that is killed after its switch: the repeated command says and does what is left."""

from pathlib import Path

import pytest

from service.operations import reencoding as operation
from service.operations.reencoding import reencode
from tests.service import test_reencoding as reencoding
from tests.service.client import good
from tests.service.test_reencoding import Command, running, served

pytestmark = pytest.mark.usefixtures("forked_training")

trained, data, command = reencoding.trained, reencoding.data, reencoding.command


@pytest.fixture
def killed(data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data directory after a reencoding that was killed behind its switch."""

    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    with running(data) as runtime, monkeypatch.context() as patched:
        patched.setattr(operation, "reload", kill)
        with pytest.raises(KeyboardInterrupt):
            reencode(runtime, runtime.collection("wood"))
    return data


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
