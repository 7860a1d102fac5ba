SELECT t.* REPLACE (g(t.a) AS a), u.c FROM t JOIN u ON t.id = u.id
