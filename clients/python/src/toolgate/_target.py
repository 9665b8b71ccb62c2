"""Where a server is, and how a channel to it is opened.

*Invariant:* what grpcio must be told about connections stands here only.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

import grpc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpc.aio import Channel, ClientInterceptor

DEFAULT_TARGET = "http://127.0.0.1:50551"
DEFAULT_PORT = 50551
Pem: TypeAlias = "str | os.PathLike[str] | bytes"

_MAX_MESSAGE = 64 << 20
_OPTIONS: list[tuple[str, int | str]] = [
    ("grpc.max_receive_message_length", _MAX_MESSAGE),
    ("grpc.max_send_message_length", _MAX_MESSAGE),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # This library waits and tries again by itself; the channel must not hold it up when the server is back.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.enable_retries", 0),
    # Two clients of one process have one connection each, so that closing one leaves the other alone.
    ("grpc.use_local_subchannel_pool", 1),
]


@dataclass(frozen=True)
class Tls:
    """How a server is known, and how the client shows who it is.

    Each is PEM: a path, or the bytes themselves.

    Attributes:
        roots: The authorities that may have signed the server's certificate; `None` for those that the system trusts.
        certificate: The client's certificate.
        key: Its private key.
    """

    roots: Pem | None = None
    certificate: Pem | None = None
    key: Pem | None = None

    @classmethod
    def from_environment(cls) -> Tls:
        """Returns what TOOLGATE_TLS_CA, TOOLGATE_TLS_CERT and TOOLGATE_TLS_KEY name."""
        return cls(
            roots=os.environ.get("TOOLGATE_TLS_CA") or None,
            certificate=os.environ.get("TOOLGATE_TLS_CERT") or None,
            key=os.environ.get("TOOLGATE_TLS_KEY") or None,
        )

    def credentials(self) -> grpc.ChannelCredentials:
        """Returns the credentials of a channel."""
        return grpc.ssl_channel_credentials(
            root_certificates=_read(self.roots) or _system_roots(),
            private_key=_read(self.key),
            certificate_chain=_read(self.certificate),
        )


def _read(pem: Pem | None) -> bytes | None:
    return pem if pem is None or isinstance(pem, bytes) else Path(pem).read_bytes()


def _system_roots() -> bytes | None:
    """Returns the authorities of the system; `None` for those that grpcio brings, where the system has no file."""
    path = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    return Path(path).read_bytes() if path and Path(path).is_file() else None


@dataclass(frozen=True)
class Target:
    """An address as grpcio takes it, and whether it is encrypted."""

    address: str
    is_encrypted: bool

    @classmethod
    def parse(cls, text: str) -> Target:
        """Reads `unix:/path`, `http://host:port`, `https://host:port` or `host:port`.

        Without a scheme, loopback is plain and anything else encrypted.

        Raises:
            ValueError: The text is no such address.
        """
        if text.startswith("unix:"):
            path = text.removeprefix("unix:").removeprefix("//")
            if not path:
                raise ValueError(f"{text!r} is no server address: the path is missing in unix:/PATH")
            return cls(f"unix:{path}", is_encrypted=False)
        scheme, separator, rest = text.partition("://")
        if not separator:
            scheme, rest = "", text
        parts = urlsplit(f"//{rest}")
        if scheme not in ("", "http", "https") or not parts.hostname or parts.path.strip("/"):
            raise ValueError(f"{text!r} is no server address: write http://HOST:PORT, https://HOST:PORT or unix:/PATH")
        try:
            port = parts.port
        except ValueError as error:
            raise ValueError(f"{text!r} is no server address: {error}") from error
        is_encrypted = scheme == "https" or (not scheme and not _is_loopback(parts.hostname))
        if port is None:
            port = {"http": 80, "https": 443}.get(scheme, DEFAULT_PORT)
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return cls(f"{host}:{port}", is_encrypted)

    def open(self, tls: Tls, interceptors: Sequence[ClientInterceptor]) -> Channel:
        """Opens a channel, which connects on first use and again whenever it is needed."""
        options = list(_OPTIONS)
        if self.address.startswith("unix:"):
            # What grpcio makes of a path is no authority that a strict HTTP server takes.
            options.append(("grpc.default_authority", "localhost"))
        if self.is_encrypted:
            return grpc.aio.secure_channel(self.address, tls.credentials(), options=options, interceptors=interceptors)
        return grpc.aio.insecure_channel(self.address, options=options, interceptors=interceptors)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
