SELECT id FROM t WHERE p(id) AND f(a) > 1
