"""The balance of words and meaning: a factor on the weights of the word parts that depends on the query."""

from index.ranking.array_api import Array, namespace
from index.ranking.normalisers import masked


def word_factor(balance: Array, passage: Array, coverage: Array, length: Array, mask: Array) -> Array:
    """Return the factor (B,) exp tanh(b_0 + b_1 p + b_2 c + b_3 l), between 1/e and e, for N > 0 candidates.

    balance (4,): b. passage (B, N): the scores of the passages, p is the best of them; coverage (B, N): c is the best.
    length (B,): l, the fact. mask (B, N) is False in empty slots. Without dense evidence, as in a search by words
    alone, the factor is 1.
    """
    xp = namespace(passage)
    best = xp.max(masked(passage, mask), axis=1)
    covered = xp.max(xp.where(mask, coverage, 0.0), axis=1)
    known = xp.isfinite(best) & xp.any(passage != 0, axis=1)
    constant, by_passage, by_coverage, by_length = (balance[at] for at in range(4))
    best = xp.where(known, best, 0.0)
    odds = constant + by_passage * best + by_coverage * covered + by_length * length
    return xp.exp(xp.tanh(xp.where(known, odds, 0.0)))
