"""Runs SQL over the tables of a database, and predicates over one table; the only importer of duckdb.

What a statement says is read in `sql`; what a table holds comes from `tables`, through a relation that scans a Lance
dataset at one version. duckdb loads with the first session, and its errors become ours in `engine`.
"""
