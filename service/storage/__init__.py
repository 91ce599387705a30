"""Storage: the database, its tables, and the codecs between rows and the library."""
