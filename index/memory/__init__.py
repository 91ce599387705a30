"""Memory: past queries whose searchers confirmed a document."""
