SELECT * FROM t JOIN u ON f(t.id) = u.id
