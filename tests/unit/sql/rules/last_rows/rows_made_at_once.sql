SELECT unnest(li(a)), f(unnest(l)) FROM t
