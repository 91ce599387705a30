"""Learning: training examples from feedback, and the fit of an attention head to them."""
