SELECT t.id FROM t, u, v WHERE f(t.id) = g(u.id) AND u.id = v.k AND p(v.k)
