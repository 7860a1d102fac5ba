SELECT t.id FROM t, u, v WHERE u.id = v.k AND f(t.id) = g(u.id) AND f(t.a) = g(v.k) AND t.b <= f(2) + f(t.b)
