SELECT COLUMNS('b'), nul(b) FROM docs
