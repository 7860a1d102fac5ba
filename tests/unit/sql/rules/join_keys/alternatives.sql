SELECT t.id FROM t, u WHERE (f(t.id) = u.id AND t.a = 1) OR (f(t.id) = u.id AND u.c > 20)
