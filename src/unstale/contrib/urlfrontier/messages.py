"""The messages of the protocol, made from its compiled definition, with any version of protobuf."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE = "urlfrontier.URLFrontier"


@cache
def _pool() -> Any:  # noqa: ANN401
    content = Path(__file__).with_name("urlfrontier.desc").read_bytes()
    files = descriptor_pb2.FileDescriptorSet.FromString(content)
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return pool


@cache
def message(name: str) -> Any:  # noqa: ANN401  (protobuf makes the classes when it runs)
    """Return the class of a message.

    >>> message("URLInfo")(url="http://a/").url
    'http://a/'
    """
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"urlfrontier.{name}"))


@cache
def methods() -> dict[str, tuple[Any, Any, bool, bool]]:
    """Return the methods of the service: what goes in and out, and whether each is a stream."""
    found = _pool().FindServiceByName(SERVICE)
    return {
        one.name: (
            message(one.input_type.name),
            message(one.output_type.name),
            one.client_streaming,
            one.server_streaming,
        )
        for one in found.methods
    }
