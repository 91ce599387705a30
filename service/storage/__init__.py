"""Storage: the database, its tables, filters in SQL, and the codec of vectors."""
