SELECT *, u.* FROM t, u WHERE f(t.id) = u.id
