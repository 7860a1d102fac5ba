SELECT id FROM t WHERE b > (SELECT min(f(c)) FROM u WHERE u.id = t.id)
