"""Writes recordings in the formats of other tools, one file here for each. See docs/formats.md."""
