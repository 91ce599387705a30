"""A small test set: documents about animals, and queries that share some of their words."""

from benchmarks.collections import TestSet

ANIMALS = ("cat", "dog", "horse", "owl", "trout", "bee")
DOINGS = ("sleeps", "hunts", "drinks", "hides", "wanders")


def animals() -> TestSet:
    """Return 30 documents, each with a title; every fifth query is a test query, the others are train queries."""
    documents, queries, train, test = [], {}, {}, {}
    for number, (animal, doing) in enumerate((animal, doing) for animal in ANIMALS for doing in DOINGS):
        name = f"{animal}-{doing}"
        text = f"The {animal} {doing} at night. Nobody knows where it {doing} by day."
        documents.append({"id": name, "title": f"{animal} at night", "text": text})
        queries[f"q-{name}"] = f"when the {animal} {doing}"
        (test if number % 5 == 0 else train)[f"q-{name}"] = {name: 1}
    return TestSet("animals", documents, queries, train, test)
