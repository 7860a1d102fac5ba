SELECT id, sum(f(b)) OVER (PARTITION BY g(a) ORDER BY id) FROM t
