"""The library by itself: its public names, the script of docs/library.md, and a collection in memory."""

import contextlib
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import index
from index import Collection, Document, NotEnoughFeedback, load_encoder
from index.learning.examples import Feedback

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
ANIMALS = [
    Document("cat", "A cat sleeps on the mat.", title="Cat"),
    Document("dog", "A dog barks at the gate.", title="Dog"),
    Document("owl", "An owl hunts at night."),
]


@pytest.fixture
def animals() -> Iterator[Collection]:
    collection = Collection(load_encoder("hashing"))
    collection.add(ANIMALS)
    yield collection
    collection.close()


def ids(collection: Collection, text: str) -> list[str]:
    return [hit.document.id for hit in collection.search(text)]


def test_a_first_letter_is_not_encoded_and_half_a_word_is(animals: Collection) -> None:
    asked: list[str] = []
    encode = animals.encoder.encode_queries
    animals.encoder.encode_queries = lambda texts: asked.extend(texts) or encode(texts)  # type: ignore[method-assign]
    animals.add([Document(f"word-{at}", f"s{chr(97 + at)}lver") for at in range(20)])
    assert len(animals.search("s", limit=50, prefix=True)) == 21, "sleeps too"
    assert asked == []
    assert animals.search("cat slee", prefix=True)[0].document.id == "cat"
    assert asked == ["cat sleeps"]


def test_a_fit_reads_a_misspelled_query_as_a_search_does(animals: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    taught = []

    def fit(_generation: object, feedback: list[Feedback], *_: object) -> Iterator[None]:
        taught.extend(feedback)
        raise NotEnoughFeedback(1, 20)
        yield  # a generator, as the fit is

    monkeypatch.setattr("index.learning.fit.fit", fit)
    animals.judge("a dogg barks", "dog", 3)
    with pytest.raises(NotEnoughFeedback):
        animals.fit()
    (one,) = taught
    assert one.memory_vector is not None
    assert one.vector.tobytes() == animals.encoder.encode_queries(["a dog barks"])[0].tobytes()


# --- The public names ---


def test_at_most_ten_names_are_public_and_all_are_documented() -> None:
    assert len(index.__all__) <= 10
    for name in index.__all__:
        assert f"`{name}`" in PAGE
        documented = getattr(index, name)
        assert documented.__doc__, name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Collections'"):
        index.Collections  # noqa: B018  # ty: the access is what is tested


def test_importing_the_library_imports_no_torch() -> None:
    program = "import index, sys; index.Collection; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_script_of_the_page_runs_and_has_twenty_lines() -> None:
    (script,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len([line for line in script.splitlines() if line.strip()]) <= 20
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(script, "docs/library.md", "exec"), {})
    found, *_ = printed.getvalue().split()
    assert found == "saw"
    assert "nDCG@10" in printed.getvalue()


# --- A collection in memory ---


def test_documents_are_found_and_explained(animals: Collection) -> None:
    best, *others = animals.search("a cat on a mat")
    assert best.document == ANIMALS[0]
    assert sum(best.parts.values()) == pytest.approx(best.logit, abs=1e-4)
    assert best.weight > max(hit.weight for hit in others)
    assert len(animals) == 3


def test_a_document_posted_again_replaces_the_earlier_one_and_keeps_its_feedback(animals: Collection) -> None:
    animals.judge("pet", "cat", 3)
    animals.add([Document("cat", "A lynx.", title="Lynx")])
    assert len(animals) == 3
    assert animals.search("lynx")[0].document.text == "A lynx."
    assert animals.search("pet")[0].parts["memory"] > 0


def test_a_removed_document_is_gone_with_its_feedback(animals: Collection) -> None:
    animals.judge("pet", "cat", 3)
    animals.remove(["cat", "unknown"])
    assert "cat" not in ids(animals, "cat")
    assert all(hit.parts["memory"] == 0 for hit in animals.search("pet"))


def test_a_judgment_works_at_once_and_can_be_taken_back(animals: Collection) -> None:
    before = [(hit.document.id, hit.logit) for hit in animals.search("good pet")]
    animals.judge("Good  PET", "dog", 4)
    assert ids(animals, "good pet")[0] == "dog"
    animals.judge("good pet", "dog", 0)
    assert [(hit.document.id, hit.logit) for hit in animals.search("good pet")] == before


def test_a_judgment_of_an_unknown_document_is_refused(animals: Collection) -> None:
    with pytest.raises(KeyError):
        animals.judge("pet", "unknown", 3)


def test_too_little_feedback_is_an_error_that_says_how_much_is_needed(animals: Collection) -> None:
    animals.judge("pet", "cat", 3)
    with pytest.raises(NotEnoughFeedback) as caught:
        animals.fit()
    assert (caught.value.have, caught.value.need) == (1, 20)


def test_evaluation_does_not_see_the_judgments_of_its_own_queries(animals: Collection) -> None:
    qrels = {"good pet": {"dog": 1}}
    before = animals.evaluate(qrels, ["RR"])
    animals.judge("good pet", "dog", 4)
    assert animals.evaluate(qrels, ["RR"]) == before
    assert ids(animals, "good pet")[0] == "dog"
