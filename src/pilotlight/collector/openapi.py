"""The API's own description, from the same tables that make its routes."""

from __future__ import annotations

from typing import Any

import msgspec

from pilotlight import __version__
from pilotlight.collector.capturing import Question as CaptureQuestion
from pilotlight.collector.read import QUESTIONS

_NUMBERS = ("limit", "points", "rank", "from_ns", "to_ns", "wait")
_NEEDED: dict[str, tuple[str, ...]] = {"/v1/counters": ("name",), "/v1/captures/files": ("id",)}
_NEEDED["/v1/captures/file"] = ("id", "name")
_JOB_OPTIONAL = ("/v1/findings", "/v1/captures", "/v1/counters", "/v1/counter-names")
_ERROR = {
    "type": "object",
    "properties": {"error": {"type": "string"}},
    "required": ["error"],
}
_REFUSALS = {"400": "not a question", "404": "not found", "401": "a token is needed",
             "403": "not allowed", "429": "too many requests", "421": "wrong host",
             "500": "the store refused", "413": "too long"}  # fmt: skip


def description() -> dict[str, Any]:
    results = [question.result for question in QUESTIONS]
    schemas, components = msgspec.json.schema_components(
        [*results, CaptureQuestion], ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, Any] = {}
    for question, schema in zip(QUESTIONS, schemas, strict=False):
        paths[question.path] = {
            "get": _operation(question.what, question.path, question.parameters, schema)
        }
    paths["/v1/captures"]["post"] = {
        "summary": "ask for a capture of a running job",
        "requestBody": _json_body(schemas[-1]),
        "responses": {"200": _json("it is on its way", {"type": "object"}), **_refusals()},
    }
    unwanted = {
        "type": "object",
        "properties": {"id": {"type": "string", "minLength": 1, "maxLength": 64}},
        "required": ["id"],
    }
    paths["/v1/captures/expire"] = {
        "post": {
            "summary": "remove the files of a capture before their time",
            "requestBody": _json_body(unwanted),
            "responses": {"200": _json("they are gone", {"type": "object"}), **_refusals()},
        }
    }
    sql = {
        "type": "object",
        "properties": {
            "sql": {"type": "string"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100_000},
        },
        "required": ["sql"],
    }
    paths["/v1/query"] = {
        "post": {
            "summary": "read-only SQL over the documented tables",
            "requestBody": _json_body(sql),
            "responses": {"200": _json("columns and rows", {"type": "object"}), **_refusals()},
        }
    }
    files = ("id",)
    paths["/v1/captures/files"] = {
        "get": _operation("the files of a capture", "/v1/captures/files", files, {})
    }
    for path, what in (("/healthz", "it runs"), ("/readyz", "it takes batches")):
        paths[path] = {
            "get": {
                "summary": what,
                "security": [],
                "responses": {
                    "200": _json("yes", {"type": "object"}),
                    "503": _json("no, and why", {"type": "object"}),
                    **_refusals("421", "429"),
                },
            }
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": "pilotlight collector", "version": __version__},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(what: str, path: str, parameters: tuple[str, ...], schema: Any) -> dict[str, Any]:
    needed = _NEEDED.get(path, ())
    if "job" in parameters and path not in _JOB_OPTIONAL:
        needed = ("job", *needed)
    answer = {
        "type": "object",
        "properties": {"data": schema, "partial": {"type": "boolean"}},
        "required": ["data", "partial"],
    }
    return {
        "summary": what,
        "parameters": [_parameter(name, name in needed) for name in parameters],
        "responses": {"200": _json(what, answer), **_refusals()},
    }


def _parameter(name: str, is_needed: bool) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "maxLength": 500}
    if name in _NUMBERS:
        schema = {"type": "integer"}
    if name == "since":
        schema = {"type": "string", "pattern": r"^\d{1,5}[smhd]$"}
    return {"name": name, "in": "query", "required": is_needed, "schema": schema}


def _refusals(*codes: str) -> dict[str, Any]:
    chosen = codes or tuple(_REFUSALS)
    return {code: _json(_REFUSALS[code], _ERROR) for code in chosen}


def _json(what: str, schema: Any) -> dict[str, Any]:
    return {"description": what, "content": {"application/json": {"schema": schema}}}


def _json_body(schema: Any) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": schema}}}
