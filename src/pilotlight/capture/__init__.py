"""Traces of running jobs on demand: asked for, aligned over the ranks, collected in one folder."""
