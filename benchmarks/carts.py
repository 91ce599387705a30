"""Carts of the shop: each customer buys for a purpose, such as camping, in a favourite colour and of favourite brands.

A cart has products of several kinds. No text names the purpose; only the kinds go together. A cart is a list of product
ids in the order of buying. The same seed gives the same carts.
"""

from collections.abc import Sequence

import numpy as np

from benchmarks.shop import Product

PURPOSES = {
    "camping": ("tent", "sleeping bag", "hiking boots", "backpack", "water bottle", "rain jacket", "power bank"),
    "cycling": ("bicycle helmet", "bicycle lock", "rain jacket", "water bottle", "backpack"),
    "kitchen": ("frying pan", "kitchen knife", "coffee machine", "electric kettle"),
    "home office": ("office chair", "desk lamp", "monitor", "headphones", "coffee machine"),
    "travel": ("suitcase", "backpack", "phone case", "power bank", "headphones", "wool jumper"),
    "training": ("running shoes", "yoga mat", "dumbbell", "water bottle", "headphones"),
}
"""Purpose of a customer -> the kinds of products that serve it."""
LEAST, MOST = 3, 6
"""Products of a cart."""
FAVOURITE_BRANDS = 3
COLOUR_FACTOR, BRAND_FACTOR = 4.0, 3.0
"""How much more often a customer takes a product of the favourite colour, and of a favourite brand."""


def carts(catalogue: Sequence[Product], count: int, random: np.random.Generator) -> list[list[str]]:
    """Return the carts of `count` customers; each has LEAST to MOST different products of the customer's purpose."""
    return [_cart(catalogue, random) for _ in range(count)]


def _cart(catalogue: Sequence[Product], random: np.random.Generator) -> list[str]:
    kinds = PURPOSES[list(PURPOSES)[int(random.integers(len(PURPOSES)))]]
    own = [one for one in catalogue if one.kind.name in kinds]
    colours, brands = sorted({one.colour for one in own}), sorted({one.brand for one in own})
    colour = colours[int(random.integers(len(colours)))]
    favourites = {brands[at] for at in random.choice(len(brands), FAVOURITE_BRANDS, replace=False).tolist()}
    wanted = np.asarray(
        [
            one.popularity
            * (COLOUR_FACTOR if one.colour == colour else 1)
            * (BRAND_FACTOR if one.brand in favourites else 1)
            for one in own
        ]
    )
    size = int(random.integers(LEAST, MOST + 1))
    bought = random.choice(len(own), size, replace=False, p=wanted / wanted.sum()).tolist()
    return [own[at].id for at in bought]
