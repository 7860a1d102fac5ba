SELECT nd(id), nd(id) FROM t LIMIT 2
