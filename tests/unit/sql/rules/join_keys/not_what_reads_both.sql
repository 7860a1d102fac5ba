SELECT t.id FROM t, u WHERE h(t.id, u.id) = 3
