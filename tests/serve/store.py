"""A stand-in for an S3 store, for tests: it keeps objects in memory and takes nothing that is not signed as AWS's Signature Version 4 says. It is not S3:
what it does not know (multipart uploads, lists, versions) is not tried anywhere.

    with Store("key id", "secret") as store:
        store.url, store.objects"""

import calendar
import hashlib
import hmac
import http.server
import threading
import time
import urllib.parse

REGION = "us-east-1"
MOST_SKEW_SECONDS = 900  # as S3 has it


def signature(secret, method, path, headers, names, date, region, payload):
    """Returns the signature of a request, by the text of the specification."""
    canonical = "\n".join([method, path, "", *(f"{name}:{headers[name].strip()}" for name in names), "", ";".join(names), payload])
    scope = f"{date[:8]}/{region}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{secret}".encode()
    for part in (date[:8], region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class Store:
    def __init__(self, key_id, secret, host="127.0.0.1"):
        self.key_id, self.secret, self.objects, self.refused, self.away = key_id, secret, {}, [], False
        store = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, status, body=b""):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if store.away:
                    return self.answer(503)
                why = store.wrong(self, body)
                if why:
                    store.refused.append(why)
                    return self.answer(403, why.encode())
                path = urllib.parse.unquote(self.path)
                if self.command == "PUT":
                    store.objects[path] = body
                    return self.answer(200)
                if self.command == "DELETE":
                    store.objects.pop(path, None)
                    self.send_response(204)
                    return self.end_headers()
                return self.answer(200, store.objects[path]) if path in store.objects else self.answer(404)

            do_GET = do_PUT = do_DELETE = do_any

        self.server = http.server.ThreadingHTTPServer((host, 0), Handler)
        self.url = f"http://{host}:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def wrong(self, request, body):
        """Returns what is wrong with a request's signature, or nothing."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        if headers.get("x-amz-content-sha256") != hashlib.sha256(body).hexdigest():
            return "the content has another hash"
        words = headers.get("authorization", "").replace(",", " ").split()
        fields = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        date, scope = headers.get("x-amz-date", ""), fields.get("Credential", "").split("/")
        if words[:1] != ["AWS4-HMAC-SHA256"] or scope != [self.key_id, date[:8], REGION, "s3", "aws4_request"]:
            return "the credential is another one"
        if abs(calendar.timegm(time.strptime(date, "%Y%m%dT%H%M%SZ")) - time.time()) > MOST_SKEW_SECONDS:
            return f"the request is of another time: {date}"
        names = fields["SignedHeaders"].split(";")
        if not {"host", "x-amz-date", "x-amz-content-sha256"} <= set(names):
            return "too little is signed"
        want = signature(self.secret, request.command, request.path, headers, names, date, REGION, headers["x-amz-content-sha256"])
        return "" if hmac.compare_digest(want, fields.get("Signature", "")) else "the signature is another one"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
