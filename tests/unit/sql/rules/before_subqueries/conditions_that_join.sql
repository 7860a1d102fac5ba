SELECT t.id FROM t, v WHERE t.id = v.k AND t.b > (SELECT min(f(c)) FROM u WHERE u.id = t.id)
