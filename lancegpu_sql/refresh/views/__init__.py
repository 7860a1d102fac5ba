"""Materialized views: what one is, what of it is out of date, and how a refresh brings it up to date in one commit.

A view is a Lance table whose schema carries its query and, since its last refresh, what its rows were made of. How a query
runs is `query`'s affair, how a commit is made that of `tables`.
"""
