SELECT id, nul(b) FROM docs WHERE nul(b) > 1
