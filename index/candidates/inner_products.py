"""The one routine for exact inner products of stored vectors: each sum has the same order, whatever stands beside it.

A BLAS product sums a row in an order that depends on the number of rows and on the kernel chosen for the processor.
A score computed that way depends on how many other keys were scored in the same call, so equal keys get unequal scores
and a rebuilt index ranks differently. `np.einsum` without `optimize` calls no BLAS and sums every row in one order.
"""

import numpy as np

from index.records import Floats, Ints


def inner_products(vectors: Floats, query: Floats) -> Floats:
    """Return v . q (n,) for vectors (n, D) and one query (D,). A row's result does not depend on the other rows."""
    products: Floats = np.einsum("nd,d->n", np.ascontiguousarray(vectors), np.ascontiguousarray(query))
    return products


def row_products(left: Floats, right: Floats) -> Floats:
    """Return l_n . r_m (n, m) for rows left (n, D) and right (m, D), summed in the same order as `inner_products`."""
    products: Floats = np.einsum("nd,md->nm", np.ascontiguousarray(left), np.ascontiguousarray(right))
    return products


def pair_products(queries: Floats, keys: Floats, pair_query: Ints, pair_key: Ints) -> Floats:
    """Return q_h . k (P, H) for pairs of queries (B, H, D) and keys (K, D), in the same order as `inner_products`.

    pair_query (P,) and pair_key (P,) are rows of queries and of keys.
    """
    if len(queries) == 1:
        in_order = np.array_equal(pair_key, np.arange(len(keys)))  # so in a search: nothing is copied
        return row_products(keys if in_order else keys.take(pair_key, axis=0), queries[0])
    products = np.empty((len(pair_key), queries.shape[1]), np.result_type(queries, keys))
    for query, vectors in enumerate(queries):
        pairs = np.flatnonzero(pair_query == query)
        products[pairs] = row_products(keys.take(pair_key[pairs], axis=0), vectors)
    return products
