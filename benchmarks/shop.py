"""A shop written for benchmarks: products, queries, and the products that its customers prefer.

The texts are combinations of our own lists; brands are invented. Customers prefer some products by popularity, and some
by their fit for a purpose ("for wide feet"). No text shows either, so only clicks can teach them. The same seed gives
the same shop.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product as combinations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.collections import TestSet

PRODUCTS_PER_KIND = 36
BRANDS = (
    "Alvera", "Bornholt", "Cadenza", "Dunmoor", "Elvarn", "Fjellik", "Gorvane", "Halvito", "Istrano", "Jorvell",
    "Kestavo", "Lumarin", "Morvane", "Nordbek", "Ostrella", "Pellworth",
)  # fmt: skip
LINES = ("Active", "Basic", "City", "Comfort", "Edge", "Pro", "Prime", "Studio")
COLOURS = ("black", "blue", "green", "grey", "red", "white")
FITTING = 4
"""One in so many products of a kind fits a purpose."""
BEST = (0.08, 0.25, 0.55)
"""Shares of the matching products, by popularity, that have at least grade 3, 2 and 1."""
BEST_GRADE = 3
SOLD, SOLD_NOISE = 6.0, 0.8
"""The logarithm of a product's sales is SOLD times its popularity, with a noise of this standard deviation."""
SEEN = 400
"""Number of query texts that a log draws from."""
TESTED = 200
"""Number of test queries that are among the texts of the log, and of test queries that are not."""
SEEN_PREFIX, UNSEEN_PREFIX = "seen", "unseen"
"""Prefixes of the ids of test queries."""


@dataclass(frozen=True)
class Kind:
    """A kind of product: its name, other names that customers use, features, purposes and sizes."""

    name: str
    synonyms: tuple[str, ...]
    features: tuple[str, ...]
    purposes: tuple[str, ...]
    sizes: tuple[str, ...]


KINDS_FILE = Path(__file__).with_name("shop_kinds.tsv")


def read_kinds() -> tuple[Kind, ...]:
    """Return the kinds of products; the entries of a list are separated by semicolons."""
    with KINDS_FILE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    lists = ("synonyms", "features", "purposes", "sizes")
    return tuple(Kind(row["kind"], *(tuple(row[name].split("; ")) for name in lists)) for row in rows)


KINDS = read_kinds()


@dataclass(frozen=True)
class Product:
    """A product. popularity and fits, the purposes that it fits, are the customers' knowledge: no text shows them."""

    id: str
    kind: Kind
    brand: str
    line: str
    colour: str
    size: str
    feature: str
    code: str
    popularity: float
    fits: frozenset[str]

    def as_document(self) -> dict[str, Any]:
        """Return the product as a document of a collection."""
        title = f"{self.brand} {self.line} {self.kind.name}, {self.colour}, {self.size}"
        text = (
            f"{self.feature.capitalize()} {self.kind.name} of the series {self.line} by {self.brand}. Item {self.code}."
        )
        return {"id": self.id, "title": title, "text": text}

    def fields(self, random: np.random.Generator) -> dict[str, Any]:
        """Return the metadata of the product: `sold` grows with its popularity, and `price` says nothing."""
        sold = round(float(np.exp(SOLD * self.popularity + SOLD_NOISE * random.standard_normal())))
        return {
            "brand": self.brand,
            "colour": self.colour,
            "price": round(float(random.random()) * 90, 2),
            "sold": sold,
        }


@dataclass(frozen=True)
class Wish:
    """The product that a query asks for; an empty field asks for nothing."""

    kind: Kind
    brand: str = ""
    colour: str = ""
    size: str = ""
    feature: str = ""
    purpose: str = ""
    code: str = ""

    def is_met(self, product: Product) -> bool:
        """Whether the product is what the query asks for."""
        if product.kind is not self.kind:
            return False  # first, because it is true of most products
        asked = (self.brand, self.colour, self.size, self.feature, self.code)
        given = (product.brand, product.colour, product.size, product.feature, product.code)
        same = all(not one or one == other for one, other in zip(asked, given, strict=True))
        return same and (not self.purpose or self.purpose in product.fits)


def products(random: np.random.Generator) -> list[Product]:
    """Return the catalogue: PRODUCTS_PER_KIND products of each kind, no two with the same brand, line and colour."""
    found = []
    for number, kind in enumerate(KINDS):
        names = list(combinations(BRANDS, LINES, COLOURS))
        for at in random.choice(len(names), PRODUCTS_PER_KIND, replace=False).tolist():
            brand, line, colour = names[at]
            name = f"{number:02d}{len(found) % PRODUCTS_PER_KIND:02d}"
            code = f"{brand[:2].upper()}-{random.integers(10)}{name}"
            size, feature = (one[int(random.integers(len(one)))] for one in (kind.sizes, kind.features))
            fits = frozenset(purpose for purpose in kind.purposes if random.integers(FITTING) == 0)
            popularity = float(random.random())
            found.append(Product(name, kind, brand, line, colour, size, feature, code, popularity, fits))
    return found


def wishes(catalogue: Sequence[Product], random: np.random.Generator) -> dict[str, Wish]:
    """Return query text -> its wish, in random order. Every wish is met by a product."""
    found = dict(pair for kind in KINDS for pair in _wishes_for(kind, catalogue, random))
    met = {text: wish for text, wish in found.items() if any(wish.is_met(one) for one in catalogue)}
    texts = list(met)
    return {texts[at]: met[texts[at]] for at in random.permutation(len(texts)).tolist()}


def _wishes_for(kind: Kind, catalogue: Sequence[Product], random: np.random.Generator) -> Iterator[tuple[str, Wish]]:
    own = [one for one in catalogue if one.kind is kind]
    for name in (kind.name, *kind.synonyms):
        yield name, Wish(kind)
        yield from ((f"{name} for {purpose}", Wish(kind, purpose=purpose)) for purpose in kind.purposes)
        yield from ((f"{feature} {name}", Wish(kind, feature=feature)) for feature in kind.features)
        yield from ((f"{colour} {name}", Wish(kind, colour=colour)) for colour in COLOURS)
        yield from ((f"{name} {size}", Wish(kind, size=size)) for size in kind.sizes)
        for brand in sorted({one.brand for one in own}):
            yield f"{brand} {name}".lower(), Wish(kind, brand=brand)
    for at in random.choice(len(own), 6, replace=False).tolist():
        yield own[at].code.lower(), Wish(kind, code=own[at].code)


def grades(wish: Wish, catalogue: Sequence[Product]) -> dict[str, int]:
    """Return product id -> grade from 1 to 3, for the most popular of the products that meet the wish."""
    met = sorted((one for one in catalogue if wish.is_met(one)), key=lambda one: -one.popularity)
    shares = [(rank + 0.5) / len(met) for rank in range(len(met))]
    graded = {one.id: sum(share <= limit for limit in BEST) for one, share in zip(met, shares, strict=True)}
    best = {met[0].id: BEST_GRADE} if met else {}
    return {name: grade for name, grade in (graded | best).items() if grade}


def shop(seed: int, with_fields: bool = False) -> TestSet:
    """Return a shop as a test set. A log consists of train queries; half of the test queries have the same texts.

    with_fields: whether the documents have metadata.
    """
    random = np.random.default_rng(seed)
    catalogue = products(random)
    wanted = wishes(catalogue, random)
    texts = list(wanted)[: SEEN + TESTED]
    train = {f"train-{at:04d}": texts[at] for at in range(SEEN)}
    chosen = sorted(random.choice(SEEN, TESTED, replace=False).tolist())
    test = {f"{SEEN_PREFIX}-{at:04d}": texts[at] for at in chosen}
    test |= {f"{UNSEEN_PREFIX}-{at:04d}": texts[at] for at in range(SEEN, SEEN + TESTED)}
    train_qrels, test_qrels = (
        {query: grades(wanted[text], catalogue) for query, text in one.items()} for one in (train, test)
    )
    documents = [one.as_document() for one in catalogue]
    if with_fields:
        documents = [one | {"metadata": of.fields(random)} for one, of in zip(documents, catalogue, strict=True)]
    return TestSet("shop", documents, train | test, train_qrels, test_qrels)
