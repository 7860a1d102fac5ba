SELECT id FROM t WHERE EXISTS (FROM u WHERE f(u.id) = t.id AND u.c > 10)
