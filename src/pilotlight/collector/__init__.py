"""The collector: takes batches of many agents, watches over the jobs, answers questions."""
