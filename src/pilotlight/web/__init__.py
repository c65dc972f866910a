"""The page: what the browser asks for, and the built page itself."""
