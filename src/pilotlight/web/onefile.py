"""The page as one file with its data inside, which needs nothing from outside."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import msgspec

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<div id="page"></div>
<noscript>This page needs JavaScript; see <code>pilotlight --help</code>.</noscript>
<script type="application/json" id="data">"""


def one_file(
    title: str, page: str, answers: Mapping[str, Any], tables: Mapping[str, bytes], version: str
) -> str:
    """`page` is the address that the file opens with; `answers` and `tables` are what the API
    would say, by path. Names from the profiled program are data in it, never markup or code."""
    script = built("assets/page.js").replace("</script", "<\\/script").replace("<!--", "<\\!--")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    data = {
        "page": page,
        "version": version,
        "answers": answers,
        "tables": {path: base64.b64encode(table).decode() for path, table in tables.items()},
    }
    head = _HEAD.format(
        policy=f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
        title=html.escape(title),
        style=built("assets/page.css"),
    )
    code = f'<script type="module">{script}</script>'
    return f"{head}{as_data(data)}</script>\n{code}\n</body>\n</html>\n"


def built(name: str) -> str:
    """A file of the built page."""
    return (files("pilotlight.web") / "page" / name).read_text(encoding="utf-8")


def as_data(value: object) -> str:
    """JSON that cannot end the script element around it."""
    text = msgspec.json.encode(value).decode()
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
