"""What a refresh does: find the rows whose stored value no longer holds, compute them, publish them with their proofs.

Nothing here knows how a worker is placed or how Lance writes a file; it asks `apply` and `tables`.
"""
