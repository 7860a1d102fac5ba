SELECT f(1), f(a) FROM t
