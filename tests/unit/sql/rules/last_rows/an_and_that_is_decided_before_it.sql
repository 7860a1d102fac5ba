SELECT id, a = 1 AND NOT p(id), p(b) OR a = 1 FROM t
