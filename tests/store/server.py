"""The real engine behind ClickHouse's HTTP interface, as far as clickhouse-connect speaks it: for
`clickhouse://` where no ClickHouse server can be had. Run as a process; it says its port.

Statements for a cluster are done here alone, as that cluster's DDL worker would do them on each
machine; replicated tables lose their replication, for which the engine would need a keeper.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import socket
import sys
import tempfile
from pathlib import Path

import chdb
import lz4.frame
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

_TRANSPORT = {
    "query", "database", "query_id", "session_id", "session_timeout", "wait_end_of_query",
    "client_protocol_version", "default_format", "send_progress_in_http_headers",
    "http_headers_progress_interval_ms", "enable_http_compression",
}  # fmt: skip
_INSERT = re.compile(rb"\s*INSERT INTO [^;]*?\bFORMAT (\w+)\s*$", re.IGNORECASE)
_REPLICATED = re.compile(r"Replicated(\w*MergeTree)\('[^']*', '[^']*'(?:, )?")
_CODE = re.compile(r"Code: (\d+)\.")


def main(folder: str, password: str, dead_shard: str, port: str) -> None:
    """`dead_shard` is the port of a second shard at which nobody listens, or ""."""
    place = Path(folder)
    place.mkdir(exist_ok=True)
    config = place / "config.xml"
    config.write_text(_config(dead_shard))
    listener = socket.create_server(("127.0.0.1", int(port)))
    engine = f"{place / 'engine'}?config-file={config}"
    keep_open = chdb.connect(engine)

    async def ask(request: Request) -> Response:
        if not _is_known(request, password):
            return _refused("Code: 516. DB::Exception: default: Authentication failed", 403)
        body = await request.body()
        return await run_in_threadpool(_answer, engine, dict(request.query_params), request, body)

    async def ping(request: Request) -> Response:
        return PlainTextResponse("Ok.\n")

    app = Starlette(routes=[Route("/ping", ping), Route("/", ask, methods=["GET", "POST"])])
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])
    keep_open.close()


def _answer(engine: str, asked: dict[str, str], request: Request, body: bytes) -> Response:
    if request.headers.get("content-encoding") == "lz4":
        body = lz4.frame.decompress(body)
    query, data = asked.get("query", "").encode(), body
    if not query:
        query, _, data = body.partition(b"\n")
        if not _INSERT.match(query):
            query = body
    changes = [
        f"{name} = '{_quoted(value)}'"
        for name, value in asked.items()
        if name not in _TRANSPORT and not name.startswith("param_")
    ]
    values = {name[6:]: value for name, value in asked.items() if name.startswith("param_")}
    connection = chdb.connect(engine)
    try:
        connection.query(f"USE `{asked.get('database', 'default')}`")
        if changes:
            connection.query(f"SET {', '.join(changes)}")
        if _INSERT.match(query):
            return _insert(connection, query.decode(), data)
        sql = _as_one_machine_does(query.decode())
        found = connection.query(sql, "TabSeparated", params=values)
        named = re.search(r"\bFORMAT\s+(\w+)\s*$", sql)
        headers = {"x-clickhouse-timezone": "UTC"}
        headers["x-clickhouse-format"] = named[1] if named else "TabSeparated"
        return Response(found.bytes(), headers=headers)
    except Exception as error:
        text = str(error)
        return _refused(text[text.find("Code:") :] if "Code:" in text else text, 500)
    finally:
        connection.close()


def _insert(connection: chdb.Connection, query: str, data: bytes) -> Response:
    into, _, kind = query.rstrip().rpartition(" FORMAT ")
    with tempfile.NamedTemporaryFile(suffix=".block") as file:
        file.write(data)
        file.flush()
        connection.query(f"{into} FROM INFILE '{file.name}' COMPRESSION 'none' FORMAT {kind}")
    return Response(headers={"x-clickhouse-summary": "{}"})


def _as_one_machine_does(sql: str) -> str:
    if " ON CLUSTER " not in sql:
        return sql
    sql = re.sub(r" ON CLUSTER `?\w+`?", "", sql, count=1)
    return _REPLICATED.sub(r"\1(", sql)


def _is_known(request: Request, password: str) -> bool:
    try:
        kind, _, text = request.headers.get("authorization", "").partition(" ")
        return kind == "Basic" and base64.b64decode(text).decode() == f"default:{password}"
    except (binascii.Error, UnicodeDecodeError):
        return False


def _refused(text: str, status: int) -> Response:
    code = _CODE.search(text)
    return PlainTextResponse(
        text, status, {"x-clickhouse-exception-code": code[1] if code else "1001"}
    )


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")


def _config(dead_shard: str) -> str:
    """The engine knows itself by its port, and asks itself without a connection."""
    shards = "".join(
        f"<shard><replica><host>127.0.0.1</host><port>{port}</port></replica></shard>"
        for port in ("9000", dead_shard)
        if port
    )
    return f"""<clickhouse><tcp_port>9000</tcp_port>
<macros><shard>1</shard><replica>1</replica></macros>
<remote_servers><prod>{shards}</prod></remote_servers></clickhouse>"""


if __name__ == "__main__":
    main(*sys.argv[1:5])
