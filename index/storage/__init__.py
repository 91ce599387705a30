"""Storage: files with checksums, memory-mapped vectors, growable arrays, background tasks."""
