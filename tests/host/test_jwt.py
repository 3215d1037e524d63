"""Tokens that are made to be mistaken for valid ones, against a host: no box takes them, whatever they say of themselves."""

import base64
import hashlib
import hmac
import json
import socket
import time

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from hosts import Host, folder

KEYS = {"RS256": lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048),
        "ES256": lambda: ec.generate_private_key(ec.SECP256R1()), "EdDSA": ed25519.Ed25519PrivateKey.generate}
SPKI = serialization.PublicFormat.SubjectPublicKeyInfo


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def sign(key, text):
    """As the key's kind wants it."""
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(text, padding.PKCS1v15(), hashes.SHA256())
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(text)
    return b"".join(part.to_bytes(32, "big") for part in decode_dss_signature(key.sign(text, ec.ECDSA(hashes.SHA256()))))


class Issuer:
    """Who has the private key that the host trusts."""

    def __init__(self, algorithm):
        self.algorithm, self.key = algorithm, KEYS[algorithm]()
        self.pem = self.key.public_key().public_bytes(serialization.Encoding.PEM, SPKI)
        self.der = self.key.public_key().public_bytes(serialization.Encoding.DER, SPKI)

    def text(self, claims, header=None):
        """What is signed. Claims may be bytes, to say what no dictionary can."""
        dump = lambda value: value if isinstance(value, bytes) else json.dumps(value).encode()
        if isinstance(claims, dict):
            claims = {"exp": int(time.time()) + 600, **claims}
        return b64(dump({"alg": self.algorithm, "typ": "JWT"} if header is None else header)) + b"." + b64(dump(claims))

    def token(self, claims, header=None, key=None):
        text = self.text(claims, header)
        return text + b"." + b64(sign(key or self.key, text))


@pytest.fixture(scope="module", params=KEYS)
def issuer(request):
    return Issuer(request.param)


@pytest.fixture(scope="module")
def host(issuer):
    host = Host(folder(), env={"JWT_PUBLIC_KEY": base64.b64encode(issuer.pem).decode()})
    yield host
    host.end()


def status(host, token, name):
    value = token.decode() if isinstance(token, bytes) else token
    return host.client.get("/v1/sandbox", headers={"x-aio-sandbox": name, "Authorization": f"Bearer {value}"}).status_code


def test_valid_tokens_open_what_they_name(host, box, issuer):
    valid = issuer.token({"aud": box.id})
    for claims in ({"aud": box.id}, {"aud": [box.id]}, {"aud": ["other", box.id]}, {"aud": box.id, "nbf": 1, "iat": 1}):
        assert (status(host, issuer.token(claims), box.id), status(host, issuer.token(claims), "default")) == (200, 401)
    for claims in ({}, {"aud": "default"}, {"aud": ["x", "default"]}):
        assert (status(host, issuer.token(claims), box.id), status(host, issuer.token(claims), "default")) == (401, 200)
    # Not as a key, not in the address, and never for the host.
    get = lambda path, **headers: host.client.get(path, headers=headers).status_code
    assert get("/v1/sandbox", **{"x-aio-sandbox": box.id, "X-AIO-API-Key": valid.decode()}) == 401
    assert get(f"/s/{box.id}/v1/sandbox?api_key={valid.decode()}") == 401
    assert get(f"/s/{box.id}/v1/sandbox?ticket={valid.decode()}") == 401
    for token in (valid, issuer.token({}), issuer.token({"aud": "default"})):
        assert get("/v1/sandboxes", Authorization=f"Bearer {token.decode()}") == 401


def test_what_a_token_says_of_itself_chooses_nothing(host, box, issuer):
    """Its algorithm, its key and where that is to be found."""
    claims = {"aud": box.id}
    thief = Issuer(issuer.algorithm)
    bad = []
    for name in ("none", "None", "NONE", "nOnE", "", None, 0, ["none"], {"a": 1}, issuer.algorithm.lower(),
                 issuer.algorithm + "\0", [issuer.algorithm]):
        text = issuer.text(claims, {"alg": name, "typ": "JWT"})
        bad += [text + b".", text + b"." + b64(b"x"), text + b"." + b64(sign(issuer.key, text))]
    secrets = [issuer.pem, issuer.pem.strip(), issuer.der, base64.b64encode(issuer.pem), b"",
               b"".join(issuer.pem.splitlines()[1:-1])]
    for name, digest in (("HS256", hashlib.sha256), ("HS384", hashlib.sha384), ("HS512", hashlib.sha512)):
        for header in ({"alg": name}, {"alg": issuer.algorithm}, {"alg": name, "kid": "/dev/null"}):
            text = issuer.text(claims, header)
            bad += [text + b"." + b64(hmac.digest(secret, text, digest)) for secret in secrets]
    for other in {*KEYS, "RS384", "RS512", "PS256", "ES384", "ES256K", "ES512", "Ed25519", "RSA1_5"} - {issuer.algorithm}:
        bad.append(issuer.token(claims, {"alg": other}))  # another name over a signature that is right
        if other in KEYS:
            bad += [Issuer(other).token(claims), Issuer(other).token(claims, {"alg": issuer.algorithm})]
    with socket.create_server(("127.0.0.1", 0)) as lure:
        at = f"http://127.0.0.1:{lure.getsockname()[1]}/keys"
        public = thief.key.public_key()
        jwk = {"kty": "OKP", "crv": "Ed25519", "kid": "mine", "x": b64(thief.der[-32:]).decode()}
        if issuer.algorithm == "RS256":
            n = public.public_numbers().n
            jwk = {"kty": "RSA", "e": "AQAB", "n": b64(n.to_bytes((n.bit_length() + 7) // 8, "big")).decode()}
        for more in ({"jwk": jwk}, {"jku": at}, {"x5u": at}, {"x5c": [base64.b64encode(thief.der).decode()]},
                     {"kid": at}, {"kid": "../../../../dev/null"}, {"kid": "' OR 1=1 --"}, {"kid": {"a": 1}}):
            bad.append(thief.token(claims, {"alg": issuer.algorithm, **more}))
        assert {status(host, token, name) for token in bad for name in (box.id, "default")} == {401}
        lure.settimeout(0)
        with pytest.raises(BlockingIOError):  # nobody came for a key
            lure.accept()
    # They are ignored in one that is right, except for what the receiver must understand.
    assert status(host, issuer.token(claims, {"alg": issuer.algorithm, "kid": "x", "jku": at, "jwk": jwk}), box.id) == 200
    for crit in ([], ["exp"], ["b64"], "b64", None, 1):
        assert status(host, issuer.token(claims, {"alg": issuer.algorithm, "crit": crit, "b64": False}), box.id) == 401


def test_claims_that_do_not_hold(host, box, issuer):
    now = time.time()
    claims = [
        {"aud": "other"}, {"aud": ["other"]}, {"aud": []}, {"aud": None}, {"aud": 1}, {"aud": {box.id: 1}}, {"aud": [[box.id]]},
        {"aud": box.id.upper()}, {"aud": box.id + "\0"}, {"aud": box.id + " "}, {"aud": "?" + box.id}, {"aud": "*"}, {"AUD": box.id},
    ]
    here = [{"exp": now - 1}, {"exp": 0}, {"exp": -1}, {"exp": str(now + 600)}, {"exp": None}, {"exp": True}, {"exp": [now + 600]},
            {"nbf": now + 600}, {"nbf": "0"}, {"iat": now + 600}, {"iat": {}}]
    claims += [{"aud": box.id, **more} for more in here]
    name, later = json.dumps(box.id).encode(), int(now) + 600
    raw = [b'{"aud":%s,"aud":"other","exp":%d}' % (name, later), b'{"aud":%s,"exp":%d,"exp":1}' % (name, later),
           b'{"aud":%s,"exp":1e999}' % name, b'{"aud":%s,"exp":NaN}' % name, b'{"aud":%s,"exp":%d}x' % (name, later),
           b"[%s]" % name, name, b"null", b"", b"{", b'{"aud":%s,"exp":%d,"x":"\xff"}' % (name, later),
           b'{"aud":%s,"exp":%d,"x":%s}' % (name, later, b"[" * 3000 + b"]" * 3000)]
    assert [(one, 200) for one in [*claims, *raw] if status(host, issuer.token(one), box.id) != 401] == []
    # What is for this box alone is for no other.
    assert {status(host, issuer.token({"aud": box.id, **more}), "default") for more in ({}, *here)} == {401}


def test_signatures_that_are_none(host, box, issuer):
    text = issuer.text({"aud": box.id})
    right = sign(issuer.key, text)
    good = text + b"." + b64(right)
    assert status(host, good, box.id) == 200
    head, payload, signature = good.split(b".")
    other = issuer.text({"aud": "other"})
    bad = [text, text + b".", text + b"..", b"." + text, good + b".", good + b"." + signature, good + b"A", good[:-2],
           head + b"." + payload, b".".join([payload, head, signature]), other + b"." + signature,
           text + b"." + b64(right + b"\0"), text + b"." + b64(b"\0" + right), text + b"." + b64(bytes(len(right))),
           text + b"." + b64(b"\xff" * len(right)), text + b"." + b64(right[::-1]), text + b"." + b64(right[:32]),
           head + b"=." + payload + b"." + signature, good[:5] + b" " + good[5:], b"." * 5, b"a.b.c", b"....", b"A" * 8000,
           text + b"." + b"A" * 20_000, issuer.token({"aud": box.id, "x": "y" * 14_000}),
           b".".join([head, b"", payload, b"", signature])]
    if issuer.algorithm == "ES256":
        order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
        number = lambda value: value.to_bytes(32, "big")
        bad += [text + b"." + b64(issuer.key.sign(text, ec.ECDSA(hashes.SHA256())))]  # in DER
        bad += [text + b"." + b64(number(r) + number(s)) for r in (0, 1, order) for s in (0, order)]
    assert [token[-60:] for token in bad if status(host, token, box.id) != 401] == []
    flipped = [bytes(b ^ (0x80 if i == at else 0) for i, b in enumerate(right)) for at in range(0, len(right), 7)]
    assert {status(host, text + b"." + b64(one), box.id) for one in flipped} == {401}
    assert status(host, good, box.id) == 200 and host.client.get("/health").text == "OK"
