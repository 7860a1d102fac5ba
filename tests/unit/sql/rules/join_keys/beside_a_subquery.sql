SELECT t.id, u.c FROM t, u WHERE t.id IN (SELECT id FROM u WHERE c > 10) AND f(t.id) = u.id
