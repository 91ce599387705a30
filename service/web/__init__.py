"""The web pages: HTML, CSS and JavaScript that use the public /v1 API."""
