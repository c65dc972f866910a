"""What the node's devices say of themselves, once a second: a file a source (docs/counters.md)."""
