SELECT a, f(sum(b)) FROM t GROUP BY a HAVING count(*) > 1
