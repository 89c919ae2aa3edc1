"""A stand-in process for launcher tests: it answers on its metrics port until it is told to end.

Its behaviour is chosen by settings, as a real process's is: STUB_EXIT ends it at once with that
code, STUB_DEAF ignores SIGTERM, STUB_SLOW never answers.
"""

import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Ready(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    if code := os.environ.get("LEASEHOLD_STUB_EXIT"):
        print('{"level": "error", "message": "LEASEHOLD_COLOUR is not set"}', file=sys.stderr)
        sys.exit(int(code))
    deaf = "LEASEHOLD_STUB_DEAF" in os.environ
    signal.signal(signal.SIGTERM, signal.SIG_IGN if deaf else lambda *_: sys.exit(0))
    if "LEASEHOLD_STUB_SLOW" in os.environ:
        signal.pause()
    port = os.environ.get("LEASEHOLD_METRICS_PORT") or os.environ["LEASEHOLD_PROVIDER_PORT"]
    HTTPServer(("127.0.0.1", int(port)), Ready).serve_forever()


if __name__ == "__main__":
    main()
