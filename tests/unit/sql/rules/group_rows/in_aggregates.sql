SELECT a, sum(f(b)), max(f(b)) FROM t WHERE id > 1 GROUP BY a
