"""An identity provider over HTTPS: authorization, token and user info endpoints, and keys for tokens."""

import base64
import json
import ssl
import threading
import urllib.parse
from datetime import UTC, datetime, timedelta
from http.client import HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from conftest import Aws
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from issuer import Issuer

CLIENT = "shop & co"
"""With what must be escaped in a header."""


class Provider:
    """Every user is logged in at once, as `user`; the provider records its requests."""

    def __init__(self, folder: Path) -> None:
        self.issuer = Issuer()
        self.secret = "first: secret"
        self.user: dict[str, Any] = {"sub": "u-1", "email": "jo@example.com"}
        self.lasting = 3600
        self.refresh: str | None = "refresh-1"
        self.refuses = False
        self.asked: list[str] = []
        self.codes: dict[str, str] = {}
        """Redirect URIs by the codes that were given for them."""
        self.tokens: set[str] = set()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                provider.asked.append(self.path)
                where = urlsplit(self.path)
                match where.path:
                    case "/authorize":
                        self._authorize({name: values[0] for name, values in parse_qs(where.query).items()})
                    case "/user":
                        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
                        self._say(200 if token in provider.tokens else 401, provider.user)
                    case "/keys":
                        self._say(200, provider.issuer.jwks())
                    case _:
                        self._say(404, {})

            def do_POST(self) -> None:
                provider.asked.append(self.path)
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                form = {name: values[0] for name, values in parse_qs(body).items()}
                self._say(*provider.grant(self.headers.get("Authorization", ""), form))

            def _authorize(self, query: dict[str, str]) -> None:
                back = {"state": query["state"]}
                if provider.refuses:
                    back["error"] = "access_denied"
                else:
                    back["code"] = f"code-{len(provider.codes)}"
                    provider.codes[back["code"]] = query["redirect_uri"]
                self.send_response(302)
                self.send_header("Location", f"{query['redirect_uri']}?{urlencode(back)}")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def _say(self, status: int, said: Any) -> None:
                text = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                """A caller that does not trust us hangs up."""

        self.authority, key = _certificate()
        (folder / "provider.pem").write_bytes(self.authority + key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "provider.pem")
        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def grant(self, authorization: str, form: dict[str, str]) -> tuple[int, Any]:
        """A token for a code or a refresh token, for a client that knows the secret."""
        pair = base64.b64decode(authorization.removeprefix("Basic ") or "").decode().partition(":")
        if (unquote(pair[0]), unquote(pair[2])) != (CLIENT, self.secret):
            return 401, {"error": "invalid_client"}
        by_code = form["grant_type"] == "authorization_code"
        known = self.codes.pop(form.get("code", ""), None) == form.get("redirect_uri")
        if not (known if by_code else form.get("refresh_token") == self.refresh and self.refresh):
            return 400, {"error": "invalid_grant"}
        token = f"access-{len(self.tokens)}"
        self.tokens.add(token)
        answer = {"access_token": token, "token_type": "Bearer", "expires_in": self.lasting, "id_token": "a.b.c"}
        return 200, answer | ({"refresh_token": self.refresh} if self.refresh else {})

    def trusted(self, aws: Aws) -> "Provider":
        """Its certificate counts as one of a public authority."""
        aws.admin("POST", "authorities", {"pem": self.authority.decode()})
        return self

    def config(self, **about: Any) -> dict[str, Any]:
        """The action for it."""
        return {
            "Issuer": self.url,
            "AuthorizationEndpoint": f"{self.url}/authorize",
            "TokenEndpoint": f"{self.url}/token",
            "UserInfoEndpoint": f"{self.url}/user",
            "ClientId": CLIENT,
            "ClientSecret": self.secret,
        } | about

    def sends_back(self, location: str) -> str:
        """Where a client that follows `location` is sent after it has logged in."""
        context = ssl.create_default_context(cadata=self.authority.decode())
        where = urlsplit(location)
        connection = HTTPSConnection("127.0.0.1", where.port, context=context)
        connection.request("GET", f"{where.path}?{where.query}")
        answer = connection.getresponse()
        answer.read()
        connection.close()
        assert answer.status == 302, answer.status
        return answer.headers["Location"]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def query(url: str) -> dict[str, str]:
    """The parameters of a URL."""
    return dict(urllib.parse.parse_qsl(urlsplit(url).query))


def _certificate() -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    # Authorities are found by their names, and every provider has its own.
    serial = x509.random_serial_number()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"provider {serial}")])
    now = datetime.now(UTC) - timedelta(minutes=5)
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), serial, now, now + timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM), private
