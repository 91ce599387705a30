"""The Softseek application: HTTP, SQL, settings, tasks and the command line, around the library in `index`."""
