"""
Servers that Tidegate is held against, one per process.

    python service_peers.py grpcio PORT      `grpcio.aio`, which answers a constant
    python service_peers.py fastapi PORT     a FastAPI endpoint around `limits`, under uvicorn with uvloop and httptools
"""

# ruff: noqa: PLC0415 - each process imports what it serves with, and nothing else

import asyncio
import sys
from typing import Any

# `overall_code: OK`, and one status with `code: OK`.
ANSWER = b"\x08\x01\x12\x02\x08\x01"


def grpcio(port: int) -> None:
    """Serve ShouldRateLimit without reading what is asked."""
    import grpc

    async def answer(_request: bytes, _context: object) -> bytes:
        return ANSWER

    async def run() -> None:
        server = grpc.aio.server()
        methods = {"ShouldRateLimit": grpc.unary_unary_rpc_method_handler(answer)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("envoy.service.ratelimit.v3.RateLimitService", methods),))
        server.add_insecure_port(f"127.0.0.1:{port}")
        await server.start()
        await server.wait_for_termination()

    asyncio.run(run())


def fastapi(port: int) -> None:
    """Serve the check as one would write it with a model, and the library that most would take."""
    import uvicorn
    from fastapi import FastAPI
    from limits import RateLimitItemPerMinute
    from limits.storage import MemoryStorage
    from limits.strategies import FixedWindowRateLimiter
    from pydantic import BaseModel

    class Question(BaseModel):
        client_id: str
        endpoint: str
        method: str

    app = FastAPI()
    limiter = FixedWindowRateLimiter(MemoryStorage())
    quota = RateLimitItemPerMinute(100_000_000)

    # A coroutine, because FastAPI runs functions in threads, which takes longer than counting does.
    async def check(question: Question) -> dict[str, Any]:
        is_allowed = limiter.hit(quota, question.client_id)
        window = limiter.get_window_stats(quota, question.client_id)
        return {"allowed": is_allowed, "limit": quota.amount, "remaining": window.remaining, "reset_at": window.reset_time}

    app.post("/api/v1/rate-limit/check")(check)
    uvicorn.run(app, host="127.0.0.1", port=port, loop="uvloop", http="httptools", log_level="error", access_log=False)


if __name__ == "__main__":
    {"grpcio": grpcio, "fastapi": fastapi}[sys.argv[1]](int(sys.argv[2]))
