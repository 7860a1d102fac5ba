SELECT p(a) FROM docs
