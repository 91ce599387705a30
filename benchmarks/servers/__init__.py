"""Softseek and other search servers side by side: `python -m benchmarks.serving --peers --data ../shared/data`.

Every system is a separate server on 127.0.0.1, in its own environment, with the same weights. The same load generator
sends the same texts to each over HTTP. Systems take text and return hits with text, so encoding is part of both loading
and searching.
"""
