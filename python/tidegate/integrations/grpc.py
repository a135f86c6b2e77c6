"""
Tidegate in front of a gRPC server in Python: interceptors for `grpc.server` and for `grpc.aio.server`.
"""

from __future__ import annotations

import inspect
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from tidegate.errors import ConfigError
from tidegate.integrations._exchange import Exchange
from tidegate.integrations._grpc_call import attributes_of, denial, metadata_of
from tidegate.integrations._guard import Guard

try:
    import grpc
except ImportError:
    raise ConfigError("tidegate.integrations.grpc needs grpcio: pip install 'tidegate[grpc]'") from None

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from typing import Unpack

    from tidegate.integrations._settings import GuardOptions
    from tidegate.quota import Quotas

    Behavior = Callable[[Any, Any], Any]

EXEMPT = ("/grpc.health.v1.Health/*", "/grpc.reflection.v1.ServerReflection/*", "/grpc.reflection.v1alpha.ServerReflection/*")
"""What is not limited unless `exempt` says otherwise: load balancers ask for health, and people with tools for what there is."""


class RateLimit(grpc.ServerInterceptor):
    """
    Limits the calls to a `grpc.server`.

    A denied call ends with RESOURCE_EXHAUSTED; its trailing metadata has `retry-after`, the fields that a response of HTTP would have, and
    the wait as `google.rpc.RetryInfo`. An admitted one has the fields in its trailing metadata. Slots of `concurrent` quotas are held until
    the call has ended, whatever ends it.

    To rules a call is a request with the path `/package.Service/Method`, the method `POST`, metadata as headers, and the peer as `ip`.

    ```python
    from concurrent.futures import ThreadPoolExecutor

    import grpc
    from tidegate.integrations.grpc import RateLimit

    server = grpc.server(ThreadPoolExecutor(), interceptors=[RateLimit("100/minute")])
    ```

    Args:
        quotas: Quotas for each client, as for `Limiter`; or one of `rules`, `limiter` and `service`.
        options: As for `Guard`. The functions `key` and `cost` take the call's context. `exempt` has health and reflection unless given.

    Raises:
        ConfigError: The arguments do not go together, or one of them is wrong.
    """

    def __init__(self, quotas: Quotas | None = None, **options: Unpack[GuardOptions]) -> None:
        self.guard = Guard(quotas, **{"exempt": EXEMPT, **options})  # type: ignore[arg-type]  # the union of two such mappings is one
        """Who decides."""

    def intercept_service(self, continuation: Callable[[Any], Any], handler_call_details: Any) -> Any:  # noqa: ANN401  # as grpcio has it
        """
        Finds the handler of a call, and puts the guard before it.
        """
        return _guarded(self.guard, handler_call_details.method, continuation(handler_call_details))

    def close(self) -> None:
        """
        Ends the limiter, unless it was given. Not needed at the end of a process.
        """
        self.guard.close()


class AsyncRateLimit(grpc.aio.ServerInterceptor):
    """
    Limits the calls to a `grpc.aio.server`: as `RateLimit`, without ever blocking the event loop.

    ```python
    import grpc
    from tidegate.integrations.grpc import AsyncRateLimit


    async def serve():
        server = grpc.aio.server(interceptors=[AsyncRateLimit("100/minute")])
    ```

    Args:
        quotas: As for `RateLimit`.
        options: As for `RateLimit`. The functions `key` and `cost` may be async.

    Raises:
        ConfigError: The arguments do not go together, or one of them is wrong.
    """

    def __init__(self, quotas: Quotas | None = None, **options: Unpack[GuardOptions]) -> None:
        self.guard = Guard(quotas, **{"exempt": EXEMPT, **options})  # type: ignore[arg-type]  # as above
        """Who decides."""

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any) -> Any:  # noqa: ANN401  # as grpcio has it
        """
        Finds the handler of a call, and puts the guard before it.
        """
        return _guarded(self.guard, handler_call_details.method, await continuation(handler_call_details))

    def close(self) -> None:
        """
        Ends the limiter, unless it was given. Not needed at the end of a process.
        """
        self.guard.close()


def _guarded(guard: Guard, method: str, handler: Any) -> Any:  # noqa: ANN401  # a handler of grpcio; nothing if there is no such method
    if handler is None or guard.is_exempt(method):
        return handler
    kind = f"{'stream' if handler.request_streaming else 'unary'}_{'stream' if handler.response_streaming else 'unary'}"
    behavior = _around(guard, method, getattr(handler, kind), is_stream=handler.response_streaming)
    make = getattr(grpc, f"{kind}_rpc_method_handler")
    return make(behavior, handler.request_deserializer, handler.response_serializer)


def _around(guard: Guard, method: str, behavior: Behavior, *, is_stream: bool) -> Behavior:
    """
    A function of the same kind: grpcio looks at what kind a function is, and an async server also takes those that are not.
    """
    if inspect.isasyncgenfunction(behavior):

        async def stream_async(request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: ANN401  # as grpcio has it
            async with _admitted_async(guard, method, context):
                async for response in behavior(request, context):
                    yield response

        return stream_async
    if inspect.iscoroutinefunction(behavior):

        async def answer_async(request: Any, context: Any) -> Any:  # noqa: ANN401  # as grpcio has it
            async with _admitted_async(guard, method, context):
                return await behavior(request, context)

        return answer_async
    if is_stream:

        def stream(request: Any, context: Any) -> Iterator[Any]:  # noqa: ANN401  # as grpcio has it
            with _admitted(guard, method, context):
                yield from behavior(request, context)

        return stream

    def answer(request: Any, context: Any) -> Any:  # noqa: ANN401  # as grpcio has it
        with _admitted(guard, method, context):
            return behavior(request, context)

    return answer


@contextmanager
def _admitted(guard: Guard, method: str, context: Any) -> Iterator[None]:  # noqa: ANN401  # as grpcio has it
    """
    Runs a block if the call may pass, and ends the call otherwise.
    """
    exchange = Exchange()
    decision = exchange.ask(guard, attributes_of(method, context, guard.reads), context)
    if not decision.allowed:
        text, metadata = denial(guard, decision)
        context.set_trailing_metadata(metadata)
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
    metadata = _tell(context, metadata_of(exchange.fields()))
    try:
        yield
    finally:
        exchange.end()
        _tell(context, metadata)


@asynccontextmanager
async def _admitted_async(guard: Guard, method: str, context: Any) -> AsyncIterator[None]:  # noqa: ANN401  # as grpcio has it
    """
    As `_admitted`, while other tasks run.
    """
    exchange = Exchange()
    decision = await exchange.ask_async(guard, attributes_of(method, context, guard.reads), context)
    if not decision.allowed:
        text, metadata = denial(guard, decision)
        context.set_trailing_metadata(metadata)
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
    metadata = _tell(context, metadata_of(exchange.fields()))
    try:
        yield
    finally:
        await exchange.end_async()
        _tell(context, metadata)


def _tell(context: Any, metadata: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:  # noqa: ANN401  # as grpcio has it
    """
    Adds to the trailing metadata what is not there yet.

    That is done before the handler runs, which may end the call itself, and after it, because it may have replaced all by its own.
    """
    if metadata:
        said = tuple(context.trailing_metadata() or ())
        names = {name for name, _ in said}
        context.set_trailing_metadata((*said, *(item for item in metadata if item[0] not in names)))
    return metadata
