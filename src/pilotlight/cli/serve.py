"""pilotlight serve: collector, store and page."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from pilotlight.errors import CollectorError


class Serve:
    name = "serve"
    help = "Run the collector with its store and page, on this machine alone unless told otherwise."
    examples = (
        "pilotlight serve",
        "pilotlight serve --address 0.0.0.0 --certificate c.pem --key k.pem",
        "pilotlight serve --store clickhouse://user@host/pilotlight",
        "pilotlight serve --config collector.toml",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--store", metavar="FOLDER|DSN", help="a folder, or clickhouse://USER@HOST/DB?cluster=C"
        )
        parser.add_argument("--folder", type=Path, help="of spool, tokens and captures with a DSN")
        parser.add_argument("--address", help="to listen on (127.0.0.1)")
        parser.add_argument("--port", type=int, help="(7777; 0 takes a free one)")
        parser.add_argument("--certificate", metavar="FILE", help="for TLS, with --key")
        parser.add_argument("--key", metavar="FILE")
        parser.add_argument("--client-ca", metavar="FILE", help="clients must have a certificate")
        parser.add_argument("--config", type=Path, help="TOML; see docs/operations.md")
        parser.add_argument("--json", action="store_true", help="say where it listens as JSON")

    def run(self, args: argparse.Namespace) -> int:
        try:
            from pilotlight.collector.config import Config, check_config, read_config
            from pilotlight.collector.serve import serve
            from pilotlight.export.otlp.pushes import otlp_pushes
        except ImportError as error:
            raise CollectorError(
                f"`serve` needs the server parts ({error.name} is not there): "
                "pip install 'pilotlight[server]'"
            ) from None
        import msgspec

        from pilotlight.store.place import parse_place

        config = read_config(args.config) if args.config else Config()
        changed = {
            name: value
            for name in ("address", "port", "certificate", "key", "client_ca")
            if (value := getattr(args, name)) is not None
        }
        config = msgspec.structs.replace(
            config, listen=msgspec.structs.replace(config.listen, **changed)
        )
        check_config(config, "the command line")
        folder = args.folder or (Path(config.folder) if config.folder else None)
        place = parse_place(args.store or config.store or None, folder)

        def announce(url: str) -> None:
            if args.json:
                print(json.dumps({"url": url, "store": str(place), "pid": os.getpid()}), flush=True)
            else:
                print(f"{url}  store {place}  Ctrl-C ends it", flush=True)

        serve(place, config, announce, otlp_pushes(os.environ))
        return 0
