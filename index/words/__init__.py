"""Words: BM25 candidates, and how closely a document matches the words of a query."""
