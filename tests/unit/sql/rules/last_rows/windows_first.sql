SELECT f(id), row_number() OVER (ORDER BY id) FROM t QUALIFY row_number() OVER (ORDER BY id) < 4
