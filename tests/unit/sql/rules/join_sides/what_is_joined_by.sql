SELECT t.id FROM t JOIN u ON f(t.id) = g(u.a) WHERE t.b > 0
