SELECT g(a) FROM docs
