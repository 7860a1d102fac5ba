SELECT t.id, u.c FROM t LEFT JOIN u ON t.id = u.id AND p(u.c)
