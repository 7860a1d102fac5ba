"""The catalog: what a database names beside its tables (Functions, GPU classes, jobs, events, proofs) and the store.

`models` are frozen values that any room may read; `store` alone speaks SQL, through SQLAlchemy, which nothing here
loads before a catalog is opened. What a job or a Function *does* belongs to its own room.
"""
