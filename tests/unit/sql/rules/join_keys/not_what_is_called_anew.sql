SELECT t.id FROM t, u WHERE nd(t.id) = u.id
