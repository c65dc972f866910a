"""Writes ui/src/data/types.ts, the page's types, from the API's description; --check compares."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pilotlight.collector.openapi import description as collector
from pilotlight.web.description import description

FILE = Path(__file__).resolve().parent.parent / "ui" / "src" / "data" / "types.ts"
HEAD = "// Made by scripts/api_types.py from the descriptions of the API: do not edit.\n"
_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}


def main() -> int:
    text = HEAD + "".join(f"\n{text}" for text in sorted(_interfaces()))
    if "--check" in sys.argv:
        if not FILE.exists() or FILE.read_text("utf-8") != text:
            print(f"{FILE.name} is not what scripts/api_types.py writes: run `make docs`")
            return 1
        return 0
    FILE.write_text(text, "utf-8")
    return 0


def _interfaces() -> list[str]:
    """Of the page's own description, and of the collector's, which the page asks as well."""
    schemas: dict[str, Any] = {}
    for described in (description(), collector()):
        schemas |= described["components"]["schemas"]
    return [_interface(name, schema) for name, schema in schemas.items()]


def _interface(name: str, schema: dict[str, Any]) -> str:
    required = set(schema.get("required", ()))
    fields = "".join(
        f"  {field}{'' if field in required else '?'}: {_type(kind)};\n"
        for field, kind in schema["properties"].items()
    )
    return f"export interface {name} {{\n{fields}}}\n"


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[1]
    if "anyOf" in schema:
        return " | ".join(_type(part) for part in schema["anyOf"])
    kind = schema.get("type")
    if kind == "null":
        return "null"
    if kind == "array":
        inner = _type(schema["items"])
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    if kind == "object":
        return f"Record<string, {_type(schema.get('additionalProperties', {}))}>"
    return _PLAIN[str(kind)] if kind else "unknown"


if __name__ == "__main__":
    sys.exit(main())
