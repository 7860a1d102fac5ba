"""The catalog's history: one module a schema version, in order, each with `upgrade(connection)`.

A released migration is never edited: it describes its tables itself and reads nothing of `schema`, which moves on.
"""
