"""SQL as text: names, predicates and statements, read and rewritten without running anything.

Pure: no table is opened and no engine is asked. The one importer of sqlglot.
"""
