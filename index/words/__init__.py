"""Words: the BM25 index, and term matching between a query and documents."""
