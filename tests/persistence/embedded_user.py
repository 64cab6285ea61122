"""A process that uses an embedded server: prints the DSN once it is open, closes when its input ends."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from runnerq.persistence.embedded import EmbeddedPostgres


async def main() -> None:
    server = EmbeddedPostgres(Path(sys.argv[1]), linger=float(sys.argv[2]))
    print(await server.open(), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.close()
    print("closed", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
