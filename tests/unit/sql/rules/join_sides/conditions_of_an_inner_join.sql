SELECT t.id FROM t JOIN u ON t.id = u.id AND p(u.c)
