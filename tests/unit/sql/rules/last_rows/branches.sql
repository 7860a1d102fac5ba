SELECT CASE WHEN a = 0 THEN f(b) WHEN a = 1 THEN g(10 // b) ELSE f(id) END FROM t
