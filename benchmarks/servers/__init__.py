"""Softseek and other search servers side by side: `python -m benchmarks.serving --peers --data ../shared/data`.

Every system is a server of its own on 127.0.0.1, in an environment of its own, with the same weights, and is asked the
same texts over HTTP by the same load generator. Text goes in and hits with their text come out; embedding is part of
both.
"""
