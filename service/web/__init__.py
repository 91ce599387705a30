"""The web page: plain HTML, CSS and JavaScript that talk to the public /v1 API."""
