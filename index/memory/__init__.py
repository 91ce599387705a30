"""Memory: past queries that confirm documents."""
