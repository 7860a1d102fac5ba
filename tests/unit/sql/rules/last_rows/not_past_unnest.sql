SELECT unnest(li(id)) FROM t LIMIT 3
