"""pilotlight token: who may send to, read from and ask of a collector."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path


class Token:
    name = "token"
    help = "Create, list or revoke tokens of the collector on this machine."
    examples = (
        "pilotlight token create --scope ingest --name nodes > ingest.token",
        "pilotlight token create --scope read --scope capture --tenant vision --days 30",
        "pilotlight token list",
        "pilotlight token revoke 1f2e3d4c5b6a",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("action", choices=("create", "list", "revoke"))
        parser.add_argument("id", nargs="?", help="of the token to revoke")
        parser.add_argument(
            "--scope",
            action="append",
            default=[],
            help="ingest, read, capture or admin; repeatable",
        )
        parser.add_argument("--tenant", default="default", help="whose jobs it sees (default)")
        parser.add_argument("--name", default="", help="for people")
        parser.add_argument(
            "--days", type=float, default=365.0, help="until it expires (365; 0: never)"
        )
        parser.add_argument("--store", metavar="FOLDER", help="of the collector")
        parser.add_argument("--json", action="store_true", help="print as JSON")

    def run(self, args: argparse.Namespace) -> int:
        from pilotlight.collector.tokens import create_token, read_tokens, revoke_token
        from pilotlight.errors import UsageError
        from pilotlight.store.place import parse_place

        path = parse_place(args.store, Path(args.store) if args.store else None).tokens
        if args.action == "create":
            secret, token = create_token(path, args.scope, args.tenant, args.name, args.days)
            print(json.dumps({"id": token.id, "token": secret}) if args.json else secret)
        elif args.action == "revoke":
            if not args.id:
                raise UsageError("name the token: pilotlight token revoke ID")
            token = revoke_token(path, args.id)
            print(json.dumps({"revoked": token.id}) if args.json else f"{token.id} is revoked")
        else:
            shown = [
                {
                    "id": token.id,
                    "scopes": list(token.scopes),
                    "tenant": token.tenant,
                    "name": token.name,
                    "expires_ns": token.expires_ns,
                    "expired": not token.is_valid_at(time.time_ns()),
                }
                for token in read_tokens(path)
            ]
            print(json.dumps(shown) if args.json else "\n".join(map(_line, shown)) or "no tokens")
        return 0


def _line(token: dict[str, object]) -> str:
    expires = token["expires_ns"]
    assert isinstance(expires, int) and isinstance(token["scopes"], list)
    until = time.strftime("%Y-%m-%d", time.gmtime(expires / 1e9)) if expires else "never"
    scopes = ",".join(token["scopes"])
    state = "expired" if token["expired"] else "valid"
    whose = f"tenant {token['tenant']}  until {until}"
    return f"{token['id']}  {scopes}  {whose}  {state}  {token['name']}"
