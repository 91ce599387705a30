"""HTTP: requests with limits, errors as problems, middleware, metrics."""
