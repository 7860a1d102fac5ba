SELECT u.id, f(docs.a) FROM u LEFT JOIN docs ON u.id = docs.id
