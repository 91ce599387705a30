"""The library by itself: its public names, the script of docs/library.md, and a collection in memory."""

import contextlib
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import index
from index import Collection, Document, FitConfig, HeadConfig, NotEnoughFeedback, SearchError, load_encoder
from index.errors import InvalidArgument
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

    def fit(_generation: object, feedback: list[Feedback], *_: object, **_more: object) -> Iterator[None]:
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


@pytest.mark.parametrize(
    "refused",
    [
        Document(7, "x"),  # type: ignore[arg-type]
        Document(None, "x"),  # type: ignore[arg-type]
        Document("fox", None),  # type: ignore[arg-type]
        Document("fox", "x", title=b"Fox"),  # type: ignore[arg-type]
        Document("fox", "\ud800"),
    ],
)
def test_a_refused_document_changes_nothing(animals: Collection, refused: Document) -> None:
    before = animals.search("a cat on a mat")
    with pytest.raises(SearchError, match=r"documents\[1\]\.(id|text|title) must be a string"):
        animals.add([Document("cat", "A lynx."), refused])
    assert animals.search("a cat on a mat") == before
    assert len(animals) == 3
    with pytest.raises(KeyError):
        animals.judge("pet", refused.id, 3)
    animals.add([Document("fox", "A fox digs.")])
    assert ids(animals, "a fox digs")[0] == "fox"


def test_a_change_that_the_index_refuses_changes_nothing(animals: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    def apply(*_: object) -> None:
        raise OSError("no space left on device")

    before = animals.search("a cat on a mat")
    with monkeypatch.context() as disk:
        disk.setattr(animals._store, "apply", apply)
        for change in (lambda: animals.add([Document("cat", "A lynx.")]), lambda: animals.remove(["cat"])):
            with pytest.raises(OSError, match="no space"):
                change()
    assert animals.search("a cat on a mat") == before
    animals.remove(["cat"])
    assert "cat" not in ids(animals, "a cat on a mat")


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


@pytest.mark.parametrize("grade", [float("nan"), float("inf"), 7, -5, "3"])
def test_a_grade_beyond_the_scale_is_refused_and_the_judgment_stays(animals: Collection, grade: float) -> None:
    animals.judge("pet", "cat", 3)
    before = animals.search("pet")
    with pytest.raises(SearchError, match="from -4 to 4"):
        animals.judge("pet", "cat", grade)
    assert animals.search("pet") == before


@pytest.mark.parametrize("grade", [0.2, 4, -4])
def test_a_grade_is_any_number_of_the_scale(animals: Collection, grade: float) -> None:
    def logit() -> float:
        return next(hit.logit for hit in animals.search("pet") if hit.document.id == "cat")

    before = logit()
    animals.judge("pet", "cat", grade)
    assert (logit() > before, logit() < before) == (grade > 0, grade < 0)


def test_a_judgment_of_a_blank_query_is_refused(animals: Collection) -> None:
    with pytest.raises(SearchError, match="white space"):
        animals.judge(" \n", "cat", 3)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"language": "klingon"}, "none or one of arabic"),
        ({"kinds": ["paragraph"]}, "one of title, passage, sentence"),
        ({"kinds": ["query"]}, "one of title, passage, sentence"),
        ({"config": HeadConfig(7)}, "config.dim is 7"),
    ],
)
def test_a_collection_refuses_options_that_it_does_not_have(options: dict[str, Any], wanted: str) -> None:
    with pytest.raises(SearchError, match=wanted):
        Collection(load_encoder("hashing"), **options)


def test_the_kinds_of_keys_are_named() -> None:
    keys = []
    for kinds in ([], ["sentence"], ["title", "sentence"]):
        collection = Collection(load_encoder("hashing"), kinds=kinds)
        collection.add([Document("cat", "A cat sleeps. It dreams.", title="Cat")])
        keys.append(len(collection._store.current.keys))
        collection.close()
    assert keys == [1, 2, 3]


def test_a_folder_without_a_model_is_an_error_of_the_library(tmp_path: Path) -> None:
    with pytest.raises(SearchError, match=r"modules\.json"):
        load_encoder(str(tmp_path), cache=tmp_path / "converted")
    assert not (tmp_path / "converted").exists()


def test_too_little_feedback_is_an_error_that_says_how_much_is_needed(animals: Collection) -> None:
    animals.judge("pet", "cat", 3)
    with pytest.raises(NotEnoughFeedback) as caught:
        animals.fit()
    assert (caught.value.have, caught.value.need) == (1, 20)


@pytest.mark.parametrize("measure", ["nonsense", "ERR@10"])
def test_evaluation_refuses_a_measure_that_cannot_be_computed(animals: Collection, measure: str) -> None:
    with pytest.raises(SearchError, match=measure):
        animals.evaluate({"good pet": {"dog": 1}}, [measure])


def test_evaluation_does_not_see_the_judgments_of_its_own_queries(animals: Collection) -> None:
    qrels = {"good pet": {"dog": 1}}
    before = animals.evaluate(qrels, ["RR"])
    animals.judge("good pet", "dog", 4)
    assert animals.evaluate(qrels, ["RR"]) == before
    assert ids(animals, "good pet")[0] == "dog"


def test_removing_wants_several_ids(animals: Collection) -> None:
    before = len(animals)
    for wrong in ("cat", None, 3, [1]):
        with pytest.raises(InvalidArgument):
            animals.remove(wrong)  # type: ignore[arg-type]
    assert len(animals) == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit": -1},
        {"limit": 1.5},
        {"limit": "3"},
        {"limit": True},
        {"text": None},
        {"text": b"cat"},
        {"text": "\ud800"},
    ],
)
def test_a_search_refuses_what_it_does_not_take(animals: Collection, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        animals.search(**{"text": "cat", **wrong})


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        [1],
        {3: "x"},
        {"\ud800": "x"},
        {"a": float("nan")},
        {"a": 10**400},
        {"a": None},
        {"a": {"b": 1}},
        {"a": [None]},
        {"a": [[1]]},
        {"a": [float("nan")]},
    ],
)
def test_metadata_has_texts_and_finite_numbers(animals: Collection, metadata: Any) -> None:
    before = len(animals)
    with pytest.raises(InvalidArgument, match=r"documents\[0\].metadata|in documents\[0\].metadata"):
        animals.add([Document("new", "text", metadata=metadata)])
    assert len(animals) == before
    animals.add(
        [
            Document(
                "new",
                "text",
                metadata={"a": [], "l": ["x", 1, True], "b": np.float32(3), "c": np.int64(2), "d": True, "e": "x"},
            )
        ]
    )


@pytest.mark.parametrize("qrels", [None, [("a",)], {3: {"cat": 1}}, {"cat": ["cat"]}, {"cat": {3: 1}}])
def test_judgments_to_evaluate_have_texts(animals: Collection, qrels: Any) -> None:
    with pytest.raises(InvalidArgument):
        animals.evaluate(qrels)


@pytest.mark.parametrize("measures", ["nDCG@10", [], None, [3]])
def test_measures_are_a_list_of_names(animals: Collection, measures: Any) -> None:
    with pytest.raises(InvalidArgument, match="measure"):
        animals.evaluate({"cat": {"cat": 1}}, measures)


@pytest.mark.parametrize(
    "wrong",
    [
        {"form": "x"},
        {"normaliser": "y"},
        {"heads": 0},
        {"rank": 0},
        {"inverse_temperature": -1.0},
        {"sharpness": 0.0},
        {"memory_gain": float("nan")},
        {"beta": (1.0,)},
        {"beta": None},
        {"form": []},
        {"heads": True},
        {"beta": (float("nan"),) * 10},
    ],
)
def test_a_head_refuses_settings_that_it_cannot_have(wrong: dict[str, Any]) -> None:
    encoder = load_encoder("hashing")
    with pytest.raises(InvalidArgument, match=f"config.{next(iter(wrong))}"):
        Collection(encoder, HeadConfig(**{"dim": encoder.dim, **wrong}))


@pytest.mark.parametrize(
    "wrong",
    [
        {"recipes": ("foo",)},
        {"interpretations": ("foo",)},
        {"epochs": 0},
        {"folds": 1},
        {"hops": (-1.0,)},
        {"priors": (float("nan"),)},
        {"trees": None},
        {"recipes": None},
        {"epochs": True},
        {"scalar_learning_rate": float("nan")},
        {"scalar_learning_rate": -1.0},
        {"cost_budget": "x"},
    ],
)
def test_a_fit_refuses_settings_that_it_cannot_have(animals: Collection, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=f"config.{next(iter(wrong))}"):
        animals.fit(FitConfig(**wrong))
    with pytest.raises(InvalidArgument, match="must be a FitConfig"):
        animals.fit("x")  # type: ignore[arg-type]


def test_a_judgment_in_another_spelling_replaces_the_earlier_one(animals: Collection) -> None:
    animals.judge("Cats!", "cat", 4)
    animals.judge("cats", "cat", 0)
    assert all(hit.parts["memory"] == 0 for hit in animals.search("cats"))


def test_one_document_is_not_several(animals: Collection) -> None:
    for wrong in (Document("new", "text"), "new", None):
        with pytest.raises(InvalidArgument, match="documents must be several"):
            animals.add(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="kinds must be several"):
        Collection(load_encoder("hashing"), kinds="title")
    with pytest.raises(KeyError):
        animals.judge("cat", ["cat"], 3)  # type: ignore[arg-type]
