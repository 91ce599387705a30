"""Sources of documents: files and folders of any known format, and stdin."""
