"""One in-memory model of a trace, and a reader for each format."""
