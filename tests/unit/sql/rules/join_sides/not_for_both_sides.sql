SELECT t.id FROM t JOIN u ON h(t.id, u.id) = 3
