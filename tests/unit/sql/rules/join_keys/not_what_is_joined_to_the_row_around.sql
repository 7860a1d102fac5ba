SELECT id FROM t WHERE EXISTS (FROM u WHERE u.id = t.id AND f(u.c) > t.b)
