"""The page at /docs: the routes with their fields and examples, from the OpenAPI description. It loads nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from glassformer.glassbox.report import policy_hash

STYLE = """
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; font-size: 1.2rem; }
table { width: 100%; border-collapse: collapse; }
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
    yield f"<h2><code>{method.upper()} {escape(path)}</code></h2>\n<p>{escape(operation['description'])}</p>\n"
    for parameter in operation.get("parameters", ()):
        yield f"<p>In the address: <code>{escape(parameter['name'])}</code>, {_type(parameter['schema'])}.</p>\n"
    if "requestBody" in operation:
        yield from _body("Body", operation["requestBody"], schemas)
    yield from _body("Answer", operation["responses"]["200"], schemas)


def _body(title: str, described: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields of a body, those of an object in it, and an example."""
    schema = schemas[described["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]]
    required = schema.get("required", ())
    yield f"<h3>{title}</h3>\n<table>\n"
    for name, field in schema["properties"].items():
        mark = " (required)" if title == "Body" and name in required else ""
        words = escape(field.get("description", "")).replace("\n", " ")
        yield f"<tr><td><code>{escape(name)}</code>{mark}<td>{_type(field)}<td>{words}\n"
    yield "</table>\n"
    for example in schema.get("examples", ()):
        yield f"<pre>{escape(json.dumps(example, indent=2))}</pre>\n"


def _type(schema: Mapping[str, Any]) -> str:
    """Return the type of a field in words."""
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"] if one.get("type") != "null")
    if "$ref" in schema:
        return escape(schema["$ref"].rpartition("/")[2])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}" if "items" in schema else "list"
    return escape(str(schema.get("type", "any")))
