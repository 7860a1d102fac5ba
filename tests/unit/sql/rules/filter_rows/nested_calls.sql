SELECT id FROM t WHERE p(f(a))
