"""SeaweedFS as an S3 server on loopback for tests: keys that never expire, a role for temporary ones, and boto3 to look at the buckets."""
import base64
import contextlib
import hashlib
import hmac
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import boto3
from botocore.config import Config

KEY, SECRET, REGION = "test-key", "test-secret", "us-east-1"
ROLE, SIGNING_KEY = "arn:aws:iam::role/reader", base64.b64encode(b"a key of thirty-two bytes or more").decode()
PORTS = ("s3.port", "s3.port.grpc", "master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc")


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def write(path, value):
    with open(path, "w") as f:
        json.dump(value, f)
    return path


def command(folder, ports):
    allow = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["s3:*"], "Resource": ["*"]}]}
    trust = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": ["sts:AssumeRole"]}]}
    keys = write(f"{folder}/keys.json", {"identities": [{"name": "test", "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
                                                        "actions": ["Admin", "Read", "List", "Tagging", "Write"]}]})
    roles = write(f"{folder}/roles.json", {
        "sts": {"tokenDuration": "1h", "maxSessionLength": "12h", "issuer": "test", "signingKey": SIGNING_KEY},
        "policy": {"defaultEffect": "Deny", "storeType": "memory"}, "policies": [{"name": "All", "document": allow}],
        "roles": [{"roleName": "reader", "roleArn": ROLE, "attachedPolicies": ["All"], "trustPolicy": trust}]})
    os.makedirs(f"{folder}/data")
    weed = os.path.join(os.path.dirname(sys.executable), "weed")
    return [weed, "-logtostderr", "server", f"-dir={folder}/data", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
            "-master.telemetry=false",  # on by default: it reports to the vendor
            "-master.volumeSizeLimitMB=1024", "-volume.max=16", "-volume.preStopSeconds=0", "-filer", "-s3", f"-s3.config={keys}",
            f"-s3.iam.config={roles}", "-s3.port.iceberg=0", "-s3.port.lance=0", f"-filer.localSocket={folder}/filer.sock",
            f"-s3.localSocket={folder}/s3.sock", *(f"-{name}={port}" for name, port in zip(PORTS, ports))]


def wait_until_ready(process, url, log):
    end = time.monotonic() + 300
    while time.monotonic() < end:
        assert process.poll() is None, open(log).read()[-2000:]
        try:
            urllib.request.urlopen(url, timeout=30)
            return
        except urllib.error.HTTPError as error:
            if error.code == 403:  # it answers, and wants keys
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise AssertionError("the server does not answer: " + open(log).read()[-2000:])


class Server:
    def __init__(self, url):
        self.url = url
        self.env = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION, "AWS_ENDPOINT_URL": url,
                    "AWS_EC2_METADATA_DISABLED": "true", "PENSTOCK_CACHE": ""}
        self.s3 = self.client("s3", config=Config(s3={"addressing_style": "path"}, max_pool_connections=32))

    def client(self, service, **options):
        return boto3.client(service, endpoint_url=self.url, aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name=REGION, **options)

    def make_bucket(self, name):
        for left in range(1000, -1, -1):  # the storage behind the gateway may need a moment more
            try:
                return self.s3.create_bucket(Bucket=name)
            except Exception:
                if left == 0:
                    raise
                time.sleep(0.2)

    def put(self, key, data, bucket="data"):
        self.s3.put_object(Bucket=bucket, Key=key, Body=data)

    def get(self, key, bucket="data"):
        return self.s3.get_object(Bucket=bucket, Key=key)["Body"].read()

    def keys(self, prefix, bucket="data"):
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return sorted(entry["Key"] for page in pages for entry in page.get("Contents", []))

    def temporary_keys(self):
        """Keys of the role, as variables."""
        keys = self.client("sts").assume_role(RoleArn=ROLE, RoleSessionName="test")["Credentials"]
        return {"AWS_ACCESS_KEY_ID": keys["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": keys["SecretAccessKey"],
                "AWS_SESSION_TOKEN": keys["SessionToken"]}


def expired(token):
    """The same session, over for an hour: the token is a signed list of claims."""
    def decode(text):
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))

    def encode(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    head, body, _ = token.split(".")
    claims = json.loads(decode(body))
    for name, back in (("iat", 7200), ("nbf", 7200), ("exp", 7200)):
        claims[name] -= back
    text = head + "." + encode(json.dumps(claims).encode())
    return text + "." + encode(hmac.new(base64.b64decode(SIGNING_KEY), text.encode(), hashlib.sha256).digest())


@contextlib.contextmanager
def serve():
    with tempfile.TemporaryDirectory(prefix="penstock-s3-", ignore_cleanup_errors=True) as folder:
        ports = free_ports(len(PORTS))
        log = f"{folder}/log"
        with open(log, "w") as out:
            process = subprocess.Popen(command(folder, ports), stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        try:
            url = f"http://127.0.0.1:{ports[0]}"
            wait_until_ready(process, url + "/", log)
            server = Server(url)
            server.make_bucket("data")
            yield server
        finally:
            process.send_signal(signal.SIGKILL)  # it takes 15 s to stop in peace, and its data are thrown away
            process.wait()
