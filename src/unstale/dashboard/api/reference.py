"""The OpenAPI document, in the order in which people read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Field:
    """A parameter, or a member of an object."""

    name: str
    place: str
    kind: str
    required: bool
    text: str


@dataclass(frozen=True)
class Operation:
    """One thing that can be asked for."""

    method: str
    path: str
    summary: str
    text: str
    parameters: list[Field]
    body: list[Field]
    answers: list[tuple[str, str]]
    members: list[Field]
    """Of the answer if all goes well."""

    @property
    def anchor(self) -> str:
        """A name for links."""
        letters = "".join(c if c.isalnum() else "-" for c in f"{self.method}{self.path}")
        return "-".join(filter(None, letters.lower().split("-")))


def operations(document: Mapping[str, Any]) -> list[Operation]:
    """Return all operations of an OpenAPI document.

    >>> said = {"summary": "Get a", "responses": {"200": {"description": "A"}}}
    >>> operations({"paths": {"/a": {"get": said}}})[0].anchor
    'get-a'
    """
    found = []
    for path, methods in document.get("paths", {}).items():
        for method, said in methods.items():
            if not isinstance(said, Mapping) or "responses" not in said:
                continue
            good: Mapping[str, Any] = next(
                (a for code, a in said["responses"].items() if code.startswith("2")), {}
            )
            found.append(
                Operation(
                    method.upper(),
                    path,
                    said.get("summary", ""),
                    said.get("description", ""),
                    [
                        Field(
                            p["name"], p["in"], _kind(p.get("schema", {})), p.get("required", False), _text(p)
                        )
                        for p in said.get("parameters", [])
                    ],
                    _members(document, said.get("requestBody", {})),
                    [(code, answer.get("description", "")) for code, answer in said["responses"].items()],
                    _members(document, good),
                )
            )
    return found


def _text(said: Mapping[str, Any]) -> str:
    text = said.get("description") or said.get("schema", {}).get("description", "")
    default = said.get("schema", said).get("default")
    return f"{text} Default: {default}." if default not in (None, "") else text


def _members(document: Mapping[str, Any], said: Mapping[str, Any]) -> list[Field]:
    """Return the members of what is sent or answered."""
    for content in said.get("content", {}).values():
        schema = _followed(document, content.get("schema", {}))
        if schema.get("type") == "array":
            schema = _followed(document, schema.get("items", {}))
        needed = schema.get("required", [])
        return [
            Field(name, "", _kind(one), name in needed, _text(one))
            for name, one in schema.get("properties", {}).items()
        ]
    return []


def _followed(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        schema = document.get("components", {}).get("schemas", {}).get(name, {})
    return schema


def _kind(schema: Mapping[str, Any]) -> str:
    """Return a type in a word or two."""
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[-1])
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(_kind(one) for one in schema[word]))
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("format", kind))
