SELECT f(a), ? FROM t WHERE p(id) AND b > ?
