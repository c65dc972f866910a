"""One per node and user: drains the rings, keeps the recordings, answers clients."""
