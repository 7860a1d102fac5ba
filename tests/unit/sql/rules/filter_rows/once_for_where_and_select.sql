SELECT f(a) FROM t WHERE f(a) > 1
