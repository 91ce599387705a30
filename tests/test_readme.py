"""The first steps of README.md give what README.md says, typed in a shell as they are printed."""

import importlib.util
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import service.runtime.runtime
from index.encoding.model_files import DEFAULT_MODEL, OFFLINE_PACKAGE
from index.encoding.reference_encoder import SentenceTransformerEncoder
from service.app import create_app
from service.settings import Settings

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
SHARE, LOGIT = 0.025, 0.5
"""Allowed differences of shares of the attention and of logits: those of the encoder's precisions, and of rounding."""
ARGUMENTS = "curl() { printf '%s\\0' \"$@\"; }\n"
"""Makes a shell print the arguments of curl in place of a call."""

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec(OFFLINE_PACKAGE) is None, reason="the weights are not installed: pip extra `offline`"
)


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """A service with the encoder of README.md in float32, not converted, as that takes a minute."""
    encoder = SentenceTransformerEncoder(DEFAULT_MODEL, "fp32")
    monkeypatch.setattr(service.runtime.runtime, "load_encoder", lambda *_: encoder)
    with TestClient(create_app(Settings(data=tmp_path / "data", log_level="warning"))) as client:
        yield client


def step(name: str) -> tuple[str, str]:
    """Return the first command of a step, and the text from there to the next step."""
    text = README.split(f"**{name}**", 1)[1].split("\n**", 1)[0]
    command, after = re.split(r"\n\s*\n", text.strip("\n"), maxsplit=1)
    return re.sub(r"^    ", "", command, flags=re.MULTILINE), after


def typed(client: TestClient, command: str) -> Any:
    """Return the JSON of the answer to a command of curl, whose arguments are made by a shell."""
    done = subprocess.run(["bash", "-c", ARGUMENTS + command], capture_output=True, text=True, check=True)
    address, option, body, _ = done.stdout.split("\0")
    assert option == "-d"
    answer = client.post(address.removeprefix("127.0.0.1:8080"), content=body)
    assert answer.is_success, answer.text
    return answer.json()


def numbers(name: str, text: str) -> list[float]:
    """Return the numbers that a text gives for a name."""
    return [float(found) for found in re.findall(rf"{name}\D{{0,24}}?(\d+\.\d+)", text)]


def test_the_first_steps_give_what_they_say(client: TestClient) -> None:
    stored = typed(client, step("Ingest documents")[0])
    expected = json.loads(re.findall(r'\{"task_id": .*\}', step("Ingest documents")[1])[0].replace("[…]", "[]"))
    assert {**stored, "task_id": "", "items": []}.items() >= {**expected, "task_id": ""}.items()

    search, said = step("Search")
    found = typed(client, search)
    assert [hit["id"] for hit in found["hits"]] == re.findall(r'"id": "(\w)"', said)
    assert [hit["score"] for hit in found["hits"]] == pytest.approx(numbers('"score"', said), abs=SHARE)
    assert [hit["logit"] for hit in found["hits"]] == pytest.approx(numbers('"logit"', said), abs=LOGIT)
    assert [found["attention"]["null_weight"]] == pytest.approx(numbers('"null_weight"', said), abs=SHARE)

    click, said = step("Feed back")
    accepted = typed(client, click.replace("<from the answer>", found["query_id"]))
    assert json.dumps(accepted) in said
    again = typed(client, search)
    assert [again["hits"][0]["score"]] == pytest.approx(numbers("score", said), abs=SHARE)
    assert [again["hits"][0]["logit"]] == pytest.approx(numbers("logit", said), abs=LOGIT)
    assert [again["attention"]["null_weight"]] == pytest.approx(numbers("null_weight", said), abs=SHARE)
