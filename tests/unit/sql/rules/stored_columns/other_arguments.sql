SELECT f(id), f(a + 0) FROM docs
