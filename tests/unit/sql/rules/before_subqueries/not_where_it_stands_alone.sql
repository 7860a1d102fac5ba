SELECT id FROM t WHERE a = 1 AND b > (SELECT min(f(1)) FROM u)
