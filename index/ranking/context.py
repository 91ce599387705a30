"""The context of a query: the documents of its session draw the query towards them, by attention.

    e' = e + g sum_c softmax(tau e . v_c) v_c

e is the query, v_c are the values of the documents of the session, tau is the sharpness of passages, and g is the
parameter `context` of a head, initially 0. Like the second hop, e' is not normalised: its length belongs to g. Only the
dense evidence and the candidates by keys read e'; words and memory read the query as it is.

Source: Rocchio 1971 (a query moves towards documents); Bahdanau et al. 2015 (soft attention). Letters: B queries, C
documents of the context, V value width, which is D.
"""

from index.ranking.array_api import Array, softmax

MOST_DOCUMENTS = 20
"""Documents of a context, at most."""


def drawn(query: Array, context: Array, amount: Array, sharpness: Array) -> Array:
    """Return e' (B, D) for queries (B, D) and the values (C, V) of a context, C > 0. amount: g; sharpness: tau."""
    return query + amount * (softmax(sharpness * (query @ context.T)) @ context)
