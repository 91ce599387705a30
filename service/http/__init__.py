"""HTTP: requests with limits, responses, problems, middleware and metrics."""
