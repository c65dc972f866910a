"""What recording costs a job of the user's own, measured against itself."""
