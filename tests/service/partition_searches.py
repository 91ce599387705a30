"""Searches that a collection in partitions has to answer as a single service does."""

from typing import Any

SEARCHES: list[dict[str, Any]] = [
    {"q": "old oak", "explain": True},
    {"q": "a garden with an elm", "limit": 50, "explain": True},
    {"q": "grean ash"},
    {"q": "very old be", "prefix": "last"},
    {"q": "very old t", "prefix": "last", "explain": True, "context": ["tree-03"]},
    {"q": "t", "prefix": "last", "explain": "matrix", "snippet": True, "answer": True},
    {"q": "the old t", "prefix": "last", "mode": "dense"},
    {"q": "old oak", "mode": "words", "snippet": True, "answer": True},
    {"q": "old oak", "mode": "dense"},
    {"q": "old oak", "mode": "words", "explain": True},
    {"q": "nothing of it"},
    {"q": "old", "filter": "colour = 'red' AND n > 5", "facets": ["colour", "tags", "n"]},
    {"q": "tree", "facets": ["tall"], "sort": ["colour:desc", "n:asc"], "limit": 7, "offset": 5},
    {"q": "old", "sort": ["colour:asc"], "distinct": "colour"},
    {"q": "fir", "distinct": "tags"},
    {"q": "*", "limit": 12, "offset": 3, "explain": True},
    {"q": "*", "sort": ["tall:desc", "n:desc"], "facets": ["colour"], "filter": "n <= 20"},
    {"q": '"very old" -elm colour:brown', "operators": True},
    {"q": "yew", "predict": ["colour", "n"], "pooled": True},
    {"q": "which tree is very old", "answer": True, "snippet": True},
    {"q": "beech", "fields": ["title", "n"], "min_logit": 2.0},
    {"q": "beech", "max_null_weight": 0.0},
    {"q": "old oak", "limit": 3, "offset": 9, "candidates": 2000},
    {"q": "garden", "context": ["tree-03", "tree-04", "unknown"]},
    {"q": "a very old oak", "explain": "matrix", "limit": 12},
    {"q": "grean ash", "explain": "matrix", "limit": 4, "offset": 2},
    {"q": "old elm", "explain": "matrix", "mode": "words"},
]
