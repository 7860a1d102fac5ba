SELECT a FROM t GROUP BY a HAVING f(max(b)) > 2 AND count(*) > 1
