"""A query taken apart into blocks (a SELECT with its clauses), and a block cut in two around a stage.

What a block is made of, what its names mean and how it is cut; where to cut is said in `rules`.
"""
