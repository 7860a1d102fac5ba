SELECT t.id, u.c FROM t, u WHERE f(t.id) = u.id AND t.b > 0
