"""A small search server for tests: `python small_server.py FOLDER PORT`. It finds documents by shared words."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Handler(BaseHTTPRequestHandler):
    """POST /documents appends to a file, POST /search reads it again."""

    protocol_version = "HTTP/1.1"
    documents: Path

    def do_GET(self) -> None:
        self._say({})

    def do_POST(self) -> None:
        wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/documents":
            with self.documents.open("a", encoding="utf-8") as lines:
                lines.writelines(json.dumps(one) + "\n" for one in wanted["documents"])
            return self._say({})
        with self.documents.open(encoding="utf-8") as lines:
            known = [json.loads(line) for line in lines]
        words = set(wanted["q"].split())
        shared = sorted(known, key=lambda one: -len(words & set(one["text"].split())))
        return self._say({"hits": shared[: wanted["limit"]]})

    def log_message(self, *_: Any) -> None:
        """Requests are not logged."""

    def _say(self, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    Handler.documents = Path(sys.argv[1]) / "documents.jsonl"
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
