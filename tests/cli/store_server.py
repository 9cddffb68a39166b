"""A small S3 server on loopback for tests: objects in memory, signatures checked, lists in pages, uploads in parts, and faults; and a service
that hands out keys of roles.

The signature is computed here a second time, from its description, on purpose.
"""
import contextlib
import datetime
import hashlib
import hmac
import http.server
import json
import os
import random
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import urllib.parse
import xml.sax.saxutils

from patience import is_asleep

KEY, SECRET, TOKEN = "test-key", "test-secret", None
MOST_IN_A_ROW = 5


def most_requests(plain, share):
    """How many requests there may be where `share` of them fail: each failure costs one more, chance adds four standard deviations, twins some."""
    return plain / (1 - share) + 4 * (plain * share) ** 0.5 / (1 - share) + 4


def sign(secret, date, region, text):
    key = ("AWS4" + secret).encode()
    for part in (date, region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def setup(self):
        super().setup()
        with self.store.lock:
            self.store.connections += 1

    @property
    def store(self):
        return self.server.store

    # ---- Answers ----

    lost = False  # the request is carried out, and its answer does not arrive
    unsized = False  # answers do not say how long they are

    def answer(self, status, body=b"", headers=(), cut=None):
        if self.lost:
            return self.reset()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if self.unsized:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            return self.wfile.write(b"" if self.command == "HEAD" else b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        if not any(name == "Content-Length" for name, _ in headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.send_body(body if cut is None else body[:cut])
        if cut is not None:
            self.wfile.flush()
            self.close_connection = True

    trickles = False  # the answer comes byte by byte, and never stalls

    def send_body(self, body):
        if self.trickles:
            for at in range(len(body)):
                self.wfile.write(body[at:at + 1])
                self.wfile.flush()
                time.sleep(0.05)
            return
        step = 16384 if self.store.rate else max(len(body), 1)
        for at in range(0, len(body), step):
            self.wfile.write(body[at:at + step])
            if self.store.rate:
                time.sleep(step / self.store.rate)

    def refuse(self, status, code):
        self.answer(status, f"<?xml version='1.0'?><Error><Code>{code}</Code></Error>".encode())

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    # ---- Signatures ----

    def check_signature(self, body):
        """None, or the code of the refusal."""
        said = self.headers.get("Authorization", "")
        if not said.startswith("AWS4-HMAC-SHA256 "):  # nothing, or a name and password
            return None if self.store.public else "AccessDenied"
        fields = dict(part.strip().split("=", 1) for part in said.split(" ", 1)[1].split(","))
        key, date, region, _, _ = fields["Credential"].split("/")
        if key != KEY:
            return "InvalidAccessKeyId"
        tokens = {self.store.token} if isinstance(self.store.token, str) else self.store.token  # those of a role hold until they expire
        if tokens and self.headers.get("x-amz-security-token") not in tokens:
            return "ExpiredToken"
        names = fields["SignedHeaders"].split(";")
        path, _, query = self.path.partition("?")
        query = "&".join(sorted(query.split("&"))) if query else ""
        payload = hashlib.sha256(body).hexdigest()
        if self.headers["x-amz-content-sha256"] != payload:
            return "XAmzContentSHA256Mismatch"
        canonical = "\n".join([self.command, path, query, *(f"{name}:{self.headers[name].strip()}" for name in names), "",
                               ";".join(names), payload])
        text = "\n".join(["AWS4-HMAC-SHA256", self.headers["x-amz-date"], f"{date}/{region}/s3/aws4_request",
                          hashlib.sha256(canonical.encode()).hexdigest()])
        return None if sign(SECRET, date, region, text) == fields["Signature"] else "SignatureDoesNotMatch"

    # ---- Requests ----

    def serve(self):
        store = self.store
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        self.query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        bucket, _, key = urllib.parse.unquote(path[1:]).partition("/")
        if self.headers.get("Host", "").split(":")[0].endswith(".localhost"):
            bucket, key = self.headers["Host"].split(".")[0], urllib.parse.unquote(path[1:])
        with store.lock:
            store.requests.append((self.command, key, self.headers.get("Range")))
        refused = self.check_signature(body)
        if refused:
            return self.refuse(403, refused)
        if bucket not in store.buckets:
            return self.refuse(404, "NoSuchBucket")
        if store.latency:
            time.sleep(store.latency)
        if store.rounds:
            store.rounds.wait()
        self.objects = store.buckets[bucket]
        fault = store.next_fault(self.command, (self.command, self.path, self.headers.get("Range")))
        if fault == "503":
            return self.answer(503, b"<Error><Code>SlowDown</Code></Error>")
        if fault == "500":
            return self.refuse(500, "InternalError")
        if fault == "denied":
            return self.refuse(403, "AccessDenied")
        if fault == "gone":
            return self.refuse(404, "NoSuchKey")
        if fault == "reset":
            return self.reset()
        if fault == "silent":
            time.sleep(store.stall)
            return self.reset()
        self.lost, self.unsized = fault == "lost", fault == "chunked"
        getattr(self, "on_" + self.command.lower())(key, body, fault)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = serve

    def on_head(self, key, _, fault):
        if key not in self.objects:
            return self.answer(404)
        data, etag = self.objects[key]
        self.answer(200, headers=[("ETag", etag)] if self.unsized else [("Content-Length", str(len(data))), ("ETag", etag)])

    def on_get(self, key, _, fault):
        if not key:
            return self.on_list()
        if key not in self.objects:
            return self.refuse(404, "NoSuchKey")
        data, etag = self.objects[key]
        if self.store.count("GET") > self.store.changes:
            etag = '"newer"'
        if key in self.store.moved:
            return self.answer(302, headers=[("Location", self.store.moved[key])])
        if fault == "etag":
            etag = '"another"'
        elif self.headers.get("If-Match", etag) != etag or self.headers.get("If-Match", "").startswith("W/"):  # a strong comparison
            return self.refuse(412, "PreconditionFailed")
        span = self.headers.get("Range")
        if not span or fault in ("whole", "chunked"):
            return self.answer(200, data, [("ETag", etag)])
        begin, end = (int(x) for x in span.split("=")[1].split("-"))
        if begin >= len(data):
            return self.refuse(416, "InvalidRange")
        if fault == "shifted":
            begin = max(0, begin - 10) if begin else 10
        end = min(end, len(data) - 1)
        with self.store.lock:
            self.trickles = self.store.trickles and self.store.trickles(begin, end)
            self.store.trickled += bool(self.trickles)
            self.store.trickles = None if self.trickles else self.store.trickles
        part = data[begin:end + 1]
        status = 200 if fault == "status" else 206
        headers = [("ETag", etag), ("Content-Range", f"bytes {begin}-{end}/{len(data)}"), ("Content-Length", str(len(part)))]
        if fault == "stall":
            self.answer(status, part, headers, cut=len(part) // 2)
            self.close_connection = False
            time.sleep(self.store.stall)
            self.close_connection = True
            return
        self.answer(status, part, headers, cut=len(part) // 2 if fault == "cut" else None)

    def on_list(self):
        prefix, delimiter = self.query.get("prefix", ""), self.query.get("delimiter")
        found, folders = [], set()
        for key in sorted(self.objects, key=str.encode):
            if not key.startswith(prefix):
                continue
            rest = key[len(prefix):]
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.split(delimiter)[0] + delimiter)
            else:
                found.append(key)
        entries = [("f", name) for name in sorted(folders)] + [("o", key) for key in found]
        begin, most = int(self.query.get("continuation-token", "0")), int(self.query.get("max-keys", "1000"))
        most = min(most, self.store.page)
        text = [f"<ListBucketResult><IsTruncated>{str(begin + most < len(entries)).lower()}</IsTruncated>"]
        for kind, name in entries[begin:begin + most]:
            safe = xml.sax.saxutils.escape(name)
            if kind == "f":
                text.append(f"<CommonPrefixes><Prefix>{safe}</Prefix></CommonPrefixes>")
            else:
                data, etag = self.objects[name]
                text.append(f"<Contents><Key>{safe}</Key><LastModified>2026-01-31T12:00:00.000Z</LastModified>"
                            f"<ETag>{xml.sax.saxutils.escape(etag, {chr(34): '&quot;'})}</ETag><Size>{len(data)}</Size></Contents>")
        if begin + most < len(entries):
            text.append(f"<NextContinuationToken>{begin + most}</NextContinuationToken>")
        self.answer(200, ("".join(text) + "</ListBucketResult>").encode())

    def on_put(self, key, body, fault):
        etag = '"' + hashlib.md5(body).hexdigest() + '"'
        if "uploadId" in self.query:
            self.store.uploads[self.query["uploadId"]][int(self.query["partNumber"])] = body
        elif self.headers.get("If-None-Match") == "*" and key in self.objects:
            return self.refuse(412, "PreconditionFailed")
        else:
            self.objects[key] = (body, etag)
        self.answer(200, headers=[("ETag", etag)])

    def on_post(self, key, body, fault):
        if "uploads" in self.query:
            name = f"upload/{len(self.store.uploads)}+="
            self.store.uploads[name] = {}
            return self.answer(200, f"<R><UploadId>{name}</UploadId></R>".encode())
        if self.query["uploadId"] not in self.store.uploads:
            return self.refuse(404, "NoSuchUpload")
        parts = self.store.uploads.pop(self.query["uploadId"])
        data = b"".join(parts[n] for n in sorted(parts))
        etag = f"{hashlib.md5(data).hexdigest()}-{len(parts)}"
        self.objects[key] = (data, f'"{etag}"')
        self.answer(200, f"<CompleteMultipartUploadResult><ETag>&quot;{etag}&quot;</ETag></CompleteMultipartUploadResult>".encode())

    def on_delete(self, key, body, fault):
        if "uploadId" in self.query:
            self.store.uploads.pop(self.query["uploadId"], None)
        else:
            self.objects.pop(key, None)
        self.answer(204)


class Store:
    """buckets: {name: {key: (bytes, etag)}}; `faults`: {kind: share of the requests}."""

    def __init__(self):
        self.buckets, self.uploads, self.requests = {"data": {}}, {}, []
        self.lock, self.chance, self.faults = threading.Lock(), random.Random(5), {}
        self.moved = {}  # keys that are redirected
        self.changes = float("inf")  # every object has another ETag after as many GETs
        self.public, self.token, self.page, self.latency, self.stall = False, None, 1000, 0, 20
        self.rounds = None  # a Rounds, which holds answers back
        self.connections = 0
        self.trickles, self.trickled = None, 0  # a function of the first and last byte: the first answer for which it is true trickles
        self.failed = {}  # how often in a row each request met a fault
        self.rate = 0  # bytes per second of each connection; 0: as fast as it goes
        self.faulty = ("GET", "HEAD", "PUT", "POST")

    def next_fault(self, method, request):
        """The kind of fault that this request meets, or None. A server that fails by chance (with a share below 1) fails the same request
        at most MOST_IN_A_ROW times: otherwise the client would rightly give up now and then."""
        with self.lock:
            if method not in self.faulty:
                return None
            draw = self.chance.random()
            for kind, share in self.faults.items():
                if draw < share:
                    self.failed[request] = self.failed.get(request, 0) + 1
                    if share >= 1 or self.failed[request] <= MOST_IN_A_ROW:
                        return kind
                    break
                draw -= share
            self.failed[request] = 0
        return None

    def put(self, key, data, bucket="data"):
        self.buckets[bucket][key] = (data, '"' + hashlib.md5(data).hexdigest() + '"')

    def put_folder(self, folder, prefix):
        """The files of a folder as PREFIX/NAME."""
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "rb") as f:
                self.put(f"{prefix}/{name}", f.read())

    def count(self, method=None):
        with self.lock:
            return sum(method is None or r[0] == method for r in self.requests)


class Rounds:
    """Counts the round trips of a client process without a clock: answers wait until all of its threads wait, so that it has asked for all
    that it can ask for without them."""

    MOST = 3  # seconds without a request: then answers go on whatever the client does, before it gives up
    LOOKS = 30  # in a row at which the client does not compute and no request arrives; between two of them others get the processor

    def __init__(self):
        self.condition, self.pid, self.count, self.arrived, self.open, self.ended = threading.Condition(), 0, 0, 0, 0, False
        threading.Thread(target=self._watch, daemon=True).start()

    def wait(self):
        with self.condition:
            self.arrived += 1
            self.open += 1
            round = self.count
            self.condition.wait_for(lambda: self.ended or self.count > round)

    def end(self):
        with self.condition:
            self.ended = True
            self.condition.notify_all()

    def _watch(self):
        looks, since, seen = 0, time.monotonic(), 0
        while not self.ended:
            time.sleep(0.01)
            quiet = self.open and self.arrived == seen
            since = since if quiet else time.monotonic()
            looks = looks + 1 if quiet and is_asleep(self.pid) else 0
            seen = self.arrived
            if looks == self.LOOKS or time.monotonic() - since > self.MOST:
                with self.condition:
                    self.count, self.open, looks, since = self.count + 1, 0, 0, time.monotonic()
                    self.condition.notify_all()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 128

    def handle_error(self, request, address):
        if not isinstance(sys.exc_info()[1], OSError):  # clients may end as they like
            super().handle_error(request, address)


def certificates(folder):
    """Makes an authority and a server's certificate for 127.0.0.1 in `folder`; returns the authority's file, and the server's with its key."""
    def openssl(*arguments):
        done = subprocess.run(["openssl", *arguments], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    with open(f"{folder}/names", "w") as f:
        f.write("subjectAltName=IP:127.0.0.1\n")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=Authority of a test")
    openssl("req", *key, "-keyout", "server.key", "-out", "server.request", "-subj", "/CN=Server of a test")
    openssl("x509", "-req", "-in", "server.request", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", "server.pem")
    return f"{folder}/ca.pem", (f"{folder}/server.pem", f"{folder}/server.key")


@contextlib.contextmanager
def serve(certificate=None):
    """Yields the store and the environment that reaches it; with a certificate and its key, by https."""
    server = Server(("127.0.0.1", 0), Handler)
    server.store = Store()
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)  # in the thread of the connection
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server.store, {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "eu-test-1", "PENSTOCK_CACHE": "",
                             "AWS_ENDPOINT_URL": f"http{'s' * bool(certificate)}://127.0.0.1:{server.server_address[1]}", "AWS_EC2_METADATA_DISABLED": "true"}
    finally:
        server.shutdown()
        server.server_close()


class Service(http.server.BaseHTTPRequestHandler):
    """Hands out keys whose session token changes with every request, as a container's service and as a machine's."""

    def log_message(self, *_):
        pass

    def answer(self, text, status=200):
        time.sleep(self.server.slow)
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_PUT(self):
        self.server.asked.append(self.path)
        self.answer("a-token" if self.headers.get("X-aws-ec2-metadata-token-ttl-seconds") else "", 200)

    def do_GET(self):
        self.server.asked.append(self.path)
        if self.path.startswith("/latest") and self.headers.get("X-aws-ec2-metadata-token") != "a-token":
            return self.answer("", 401)
        if self.path == "/container" and self.headers.get("Authorization") != "secret-of-the-container":
            return self.answer("", 401)
        if self.path == "/latest/meta-data/iam/security-credentials/":
            return self.answer("the-role")
        if self.server.fails > 0 and self.server.given:
            self.server.fails -= 1
            return self.answer("", 500)
        self.server.given += 1
        token = f"session-{self.server.given}"
        self.server.store.token = {*(self.server.store.token or ()), token}
        end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=self.server.seconds)
        self.answer(json.dumps({"Code": "Success", "AccessKeyId": KEY, "SecretAccessKey": SECRET, "Token": token,
                                "Expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ")}))


@contextlib.contextmanager
def service(store, seconds):
    server = http.server.HTTPServer(("127.0.0.1", 0), Service)
    server.store, server.given, server.asked, server.seconds, server.fails, server.slow = store, 0, [], seconds, 0, 0
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
