SELECT id FROM t WHERE EXISTS (FROM u WHERE u.id = t.id AND f(c) > 1) AND a = 1 AND g(b) > 2
