"""
Serves one of the applications of `integrations_apps` by uvicorn, as a process of its own.

    python integrations_served.py PORT SUBJECT [STORE]
"""

import asyncio
import sys

import integrations_apps as apps
import uvicorn


async def _serve(port: int, name: str, store: str | None) -> None:
    # Made in the loop that serves it: some peers connect while they are made.
    subject = next(subject for subject in apps.SUBJECTS if subject.name == name)
    app = await subject.make(store, apps.PATIENT_S)
    await uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", access_log=False)).serve()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvicorn.Config("").get_loop_factory()) as runner:
        runner.run(_serve(int(sys.argv[1]), sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None))
