"""What a recording says: pure functions from its columns to a Report, and three ways to show it."""
