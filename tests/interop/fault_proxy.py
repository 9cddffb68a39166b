"""A proxy on loopback in front of a real S3 server, which answers a share of the requests as servers and networks do that fail: with the faults, the counters
and the limits of the stand-in server (tests/cli/store_server.py), but with the real server's answers."""
import contextlib
import http.client
import os
import sys
import threading
import time
import urllib.parse

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from store_server import Handler, Server, Store, most_requests  # noqa: E402,F401

HOP = ("connection", "transfer-encoding", "content-length", "date", "server")  # headers that this proxy writes itself


class Forward(Handler):
    def ask(self, body, ranged):
        """Status, headers and body of the real answer. The headers that are signed are as they came: the host is this proxy's."""
        upstream = http.client.HTTPConnection(self.server.upstream, timeout=300)
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() != "connection" and (ranged or name.lower() != "range"):
                upstream.putheader(name, value)
        upstream.endheaders(body)
        answer = upstream.getresponse()
        try:
            return answer.status, answer.getheaders(), answer.read()
        finally:
            upstream.close()

    def serve(self):
        store = self.store
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        key = urllib.parse.unquote(self.path.partition("?")[0])
        with store.lock:
            store.requests.append((self.command, key, self.headers.get("Range")))
        fault = store.next_fault(self.command, (self.command, self.path, self.headers.get("Range")))
        if fault == "503":
            return self.answer(503, b"<Error><Code>SlowDown</Code></Error>")
        if fault == "500":
            return self.refuse(500, "InternalError")
        if fault == "reset":
            return self.reset()
        status, headers, data = self.ask(body, ranged=fault != "whole")
        self.lost = fault == "lost"  # the real server has done what it was asked for
        length = [("Content-Length", value) for name, value in headers if self.command == "HEAD" and name.lower() == "content-length"]
        headers = [(name, '"another"' if fault == "etag" and name.lower() == "etag" else value) for name, value in headers if name.lower() not in HOP]
        if fault == "status" and status == 206:
            status = 200
        if fault == "stall" and data:
            self.answer(status, data, [*headers, ("Content-Length", str(len(data)))], cut=len(data) // 2)
            time.sleep(store.stall)
            return self.reset()
        if fault == "cut" and data:
            return self.answer(status, data, [*headers, ("Content-Length", str(len(data)))], cut=len(data) // 2)
        self.answer(status, data, headers + length)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = serve


@contextlib.contextmanager
def proxy(url):
    """Yields a Store, whose `faults`, `faulty` and `count` are of this proxy, and the address that leads through it."""
    server = Server(("127.0.0.1", 0), Forward)
    server.store, server.upstream = Store(), urllib.parse.urlsplit(url).netloc
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server.store, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
