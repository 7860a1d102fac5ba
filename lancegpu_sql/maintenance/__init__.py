"""Upkeep of tables: small fragments, old versions, checkpoints and files that nobody needs any more.

What is to be done is decided here without a look at anything (`plan`), from what is known of a table (`facts`), and done in
one place (`optimizing`). What a refresh, a view, a query or a person still needs is never touched.
"""
