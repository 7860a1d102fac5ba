SELECT *, nul(b) FROM docs
