SELECT t.id FROM t, u WHERE t.id = u.id AND f(t.a) = u.a
