"""From an agent to a collector: batches of windows, kept on disk until they are acknowledged."""
