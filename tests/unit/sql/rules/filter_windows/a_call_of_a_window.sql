SELECT id FROM t QUALIFY f(row_number() OVER (ORDER BY id)) > 2
