"""Hardware, the cost of operations, replay and what-if."""
