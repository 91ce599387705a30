"""Random sequences of requests, restarts and kills, compared after each step with a plain model in memory."""

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from index.filters.evaluation import matches
from index.filters.parser import parse_filter
from service.runtime.runtime import Runtime
from tests.faults.recording import DATABASE
from tests.faults.tally import SOAK, tell
from tests.faults.workloads import put_model_file
from tests.service.client import CollectionClient, event, good, opened, runtime_of

FILTERABLE = ["year", "lang"]
IDS = st.sampled_from([f"d{number}" for number in range(6)])
WORDS = st.sampled_from(["owl", "kite", "crane", "heron", "raven"])
METADATA = st.fixed_dictionaries({}, optional={"year": st.integers(2018, 2022), "lang": st.sampled_from(["en", "de"])})
FILTERS = st.sampled_from(
    [
        "year >= 2020",
        "lang = en",
        "lang != en",
        "year 2019 TO 2021 AND lang = de",
        "year EXISTS OR lang = de",
        "NOT year = 2020",
    ]
)


def copy_of_killed(runtime: Runtime, data: Path, target: Path) -> None:
    """Copy a directory as a kill leaves it: the files as they are now, without an orderly end."""
    with ExitStack() as held:  # nothing is halfway through while files are copied: no saving, transaction or checkpoint
        for state in runtime.collections.values():
            held.enter_context(state.lock)
        held.enter_context(runtime.database.write())
        shutil.copytree(data, target, ignore=shutil.ignore_patterns(DATABASE[2], "*.lock"))


class Service(RuleBasedStateMachine):
    """The service, and what it must answer: documents by id, confirmations, the champion and its predecessors."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = Path(tempfile.mkdtemp(prefix="states-"))
        self._starts = 0
        self._stack = ExitStack()
        self.documents: dict[str, dict[str, Any]] = {}
        self.events: list[tuple[str, str, str]] = []
        """Client, query text, document id."""
        self.memory: list[tuple[str, str, str]] = []
        """The events that still act: a deleted document loses its memory, also if its id comes back."""
        self.champions = [0]
        self.versions = 1

    @initialize()
    def first_start(self) -> None:
        self._start(self._folder / "data-0")
        good(self.client.put(self.birds.path, json={"filterable": FILTERABLE}))

    def _start(self, data: Path) -> None:
        self.data = data
        self.client = self._stack.enter_context(opened(data))
        self.birds = CollectionClient(self.client)
        self.birds.until_indexed()

    def teardown(self) -> None:
        self._stack.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    # --- requests ---

    @rule(id=IDS, words=st.lists(WORDS, min_size=1, max_size=3), metadata=METADATA)
    def put_document(self, id: str, words: list[str], metadata: dict[str, Any]) -> None:
        body = {"text": " ".join(words), "metadata": metadata}
        answer = self.client.put(f"{self.birds.path}/documents/{id}", json=body)
        assert answer.status_code == (200 if id in self.documents else 201)
        self.documents[id] = body

    @rule(ids=st.lists(IDS, min_size=1, max_size=4, unique=True), word=WORDS)
    def post_documents(self, ids: list[str], word: str) -> None:
        self.birds.add(*({"id": id, "text": f"{word} {id}", "metadata": {}} for id in ids))
        self.documents |= {id: {"text": f"{word} {id}", "metadata": {}} for id in ids}

    @rule(id=IDS)
    def delete_document(self, id: str) -> None:
        answer = self.client.delete(f"{self.birds.path}/documents/{id}")
        assert answer.status_code == (204 if id in self.documents else 404)
        self._forget({id})

    @rule(condition=FILTERS)
    def delete_by_filter(self, condition: str) -> None:
        good(self.client.post(f"{self.birds.path}/documents/delete", json={"filter": condition}))
        self._forget(self._matching(condition))

    def _forget(self, ids: set[str]) -> None:
        self.documents = {id: one for id, one in self.documents.items() if id not in ids}
        self.memory = [one for one in self.memory if one[2] not in ids]

    @rule(id=IDS, word=WORDS, client=st.sampled_from(["ada", "ben"]))
    def click(self, id: str, word: str, client: str) -> None:
        answer = self.birds.post("events", event(id, client_id=client, user_query=f"the {word}"))
        assert answer["accepted"] == (id in self.documents)
        if id in self.documents:
            self.events.append((client, f"the {word}", id))
            self.memory.append((client, f"the {word}", id))

    @rule(client=st.sampled_from(["ada", "ben"]))
    def take_back(self, client: str) -> None:
        assert self.birds.post("events/delete", {"client_id": client})["deleted"] == len(
            [one for one in self.events if one[0] == client]
        )
        self.events = [one for one in self.events if one[0] != client]
        self.memory = [one for one in self.memory if one[0] != client]

    @precondition(lambda self: self.versions < 4)
    @rule()
    def register_model(self) -> None:
        assert put_model_file(self.client, 1.0 + self.versions) == self.versions
        self.versions += 1

    @rule(data=st.data())
    def promote(self, data: st.DataObject) -> None:
        version = data.draw(st.integers(0, self.versions - 1))
        body = {"version": version, "force": True, "reason": "drawn"}
        good(self.client.put(f"{self.birds.path}/models/aliases/champion", json=body))
        if version != self.champions[-1]:
            self.champions.append(version)

    @precondition(lambda self: len(self.champions) > 1)
    @rule()
    def roll_back(self) -> None:
        self.champions.pop()
        answer = self.birds.post("models/aliases/champion/rollback")
        assert answer["version"] == self.champions[-1]

    # --- ends of the process ---

    @rule()
    def restart(self) -> None:
        self._stack.close()
        self._start(self.data)

    @rule()
    def kill(self) -> None:
        self._starts += 1
        target = self._folder / f"data-{self._starts}"
        runtime_of(self.client).impressions.flush()
        copy_of_killed(runtime_of(self.client), self.data, target)
        self._stack.close()  # the process that was killed; its directory is not used any more
        shutil.rmtree(self.data)
        self._start(target)

    @rule()
    def save(self) -> None:
        runtime_of(self.client).save()

    # --- what must hold after every step ---

    @invariant()
    def documents_are_those_that_were_posted(self) -> None:
        if not hasattr(self, "birds"):
            return
        listed = {one["id"]: one for one in self.birds.get("documents", limit=100)["documents"]}
        assert {id: {"text": one["text"], "metadata": one["metadata"]} for id, one in listed.items()} == self.documents
        assert set(self.birds.ids("*", limit=100)) == set(self.documents)

    @invariant()
    def words_find_exactly_the_documents_that_contain_them(self) -> None:
        if hasattr(self, "birds"):
            for word in ("owl", "raven"):
                found = set(self.birds.ids(word, mode="words", limit=100, typos=False))
                assert found == {id for id, one in self.documents.items() if word in one["text"].split()}

    @invariant()
    def filters_and_memory_and_champion_are_as_the_model_has_them(self) -> None:
        if not hasattr(self, "birds"):
            return
        for condition in ("year >= 2020", "lang != en"):
            assert set(self.birds.ids("*", limit=100, filter=condition)) == self._matching(condition)
        answer = self.birds.search("the owl", explain=True, log=False, limit=100)
        remembered = {hit["id"] for hit in answer["hits"] if hit["explain"]["parts"].get("memory", 0) > 1e-3}
        assert {id for _, text, id in self.memory if text == "the owl"} <= remembered
        assert remembered <= {id for _, _, id in self.memory}
        assert answer["model"]["version"] == self.champions[-1]
        assert answer["degraded"] == []
        tell("state machine, steps", None)

    def _matching(self, condition: str) -> set[str]:
        node = parse_filter(condition, FILTERABLE)
        return {id for id, one in self.documents.items() if matches(node, one["metadata"])}


def test_the_service_agrees_with_a_plain_model() -> None:
    examples, steps = (300, 60) if SOAK else (3, 12)
    run_state_machine_as_test(
        Service,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=not SOAK,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
