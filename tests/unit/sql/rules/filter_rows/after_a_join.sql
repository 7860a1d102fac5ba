SELECT t.id FROM t JOIN u ON t.id = u.id WHERE p(u.c) AND t.b > 0
