SELECT g(f(a)) + f(a) FROM t
