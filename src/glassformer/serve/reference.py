"""The page at /docs: the routes with their fields and examples, from the OpenAPI description. It loads nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from glassformer.glassbox.report import policy_hash

STYLE = """
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; font-size: 1.2rem; }
table { width: 100%; border-collapse: collapse; }
td:first-child { width: 16rem; }
td { padding: .25rem .75rem .25rem 0; border-top: 1px solid #8884; vertical-align: top; }
pre { overflow-x: auto; padding: .75rem; background: #8882; }
"""


def reference_html(openapi: Mapping[str, Any]) -> tuple[str, str]:
    """Return the page and its content security policy, which goes into a header."""
    title = escape(f"{openapi['info']['title']} {openapi['info']['version']}: HTTP API")
    schemas = openapi["components"]["schemas"]
    parts = [
        part
        for path, operations in openapi["paths"].items()
        for method, operation in operations.items()
        for part in _operation(method, path, operation, schemas)
    ]
    parts += ["<h2>Errors</h2>\n", *_fields(schemas["ErrorBody"], schemas, "Answer")]
    html = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>{STYLE}</style>
<h1>{title}</h1>
<p>For programs: <a href="openapi.json">openapi.json</a>. The page of the model: <a href="./">the glass box</a>.</p>
{"".join(parts)}</html>
"""
    policy = f"default-src 'none'; base-uri 'none'; frame-ancestors 'none'; style-src {policy_hash(STYLE)}"
    return html, policy


def _operation(method: str, path: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    yield f"<h2><code>{method.upper()} {escape(path)}</code></h2>\n<p>{_words(operation)}</p>\n"
    for parameter in operation.get("parameters", ()):
        yield f"<p>In the address: <code>{escape(parameter['name'])}</code>, {_type(parameter['schema'])}.</p>\n"
    answer = operation["responses"]["200"]
    for title, body in (("Body", operation.get("requestBody")), ("Answer", answer)):
        if body is not None:
            yield from _fields(_resolved(body["content"]["application/json"]["schema"], schemas), schemas, title)


def _resolved(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    resolved: Mapping[str, Any] = schemas[schema["$ref"].rpartition("/")[2]]
    return resolved


def _fields(schema: Mapping[str, Any], schemas: Mapping[str, Any], title: str) -> Iterator[str]:
    """Yield the fields of an object, an example, and the fields of the objects in it."""
    yield f"<h3>{title}</h3>\n<p>{_words(schema)}</p>\n"
    if schema["title"] == "Trace":
        return  # which openapi.json describes, in some thirty tables
    yield "<table>\n"
    inner: dict[str, Mapping[str, Any]] = {}
    for name, field in schema["properties"].items():
        mark = " (required)" if title == "Body" and name in schema.get("required", ()) else ""
        yield f"<tr><td><code>{escape(name)}</code>{mark}<td>{_type(field)}<td>{_words(field)}\n"
        for value in (field, field.get("items", {})):
            inner |= {value["$ref"]: _resolved(value, schemas)} if "$ref" in value else {}
    yield "</table>\n"
    for example in schema.get("examples", ()):
        yield f"<pre>{escape(json.dumps(example, indent=2))}</pre>\n"
    for object_schema in inner.values():
        if object_schema is not schema:
            yield from _fields(object_schema, schemas, object_schema["title"])


def _words(described: Mapping[str, Any]) -> str:
    """Return a description, with code between backticks."""
    text = escape(described.get("description", "")).replace("\n", " ")
    return re.sub("`(.*?)`", r"<code>\1</code>", text)


def _type(schema: Mapping[str, Any]) -> str:
    """Return the type of a field in words."""
    if "anyOf" in schema:
        return " or ".join(_type(option) for option in schema["anyOf"] if option.get("type") != "null")
    if "$ref" in schema:
        return escape(schema["$ref"].rpartition("/")[2])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}" if "items" in schema else "list"
    return escape(str(schema.get("type", "any")))
