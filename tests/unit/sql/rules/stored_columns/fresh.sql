SELECT f(a), f(a) + 1 FROM docs WHERE f(a) > 1
