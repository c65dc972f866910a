"""Pure functions from traces to answers: breakdowns, findings, hangs."""
