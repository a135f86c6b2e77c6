# A gRPC server that limits its callers, and a caller that waits as long as it is told.
# It needs grpcio: pip install 'tidegate[grpc]'

from concurrent.futures import ThreadPoolExecutor

import grpc

from tidegate.integrations.grpc import RateLimit


def hello(request: bytes, _: grpc.ServicerContext) -> bytes:
    return b"hello " + request


if __name__ == "__main__":
    # Messages are plain bytes here; with generated code nothing is different.
    methods = {"Hello": grpc.unary_unary_rpc_method_handler(hello)}
    limiter = RateLimit("2/minute", key=lambda context: dict(context.invocation_metadata()).get("x-api-key"))
    server = grpc.server(ThreadPoolExecutor(2), interceptors=[limiter])
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("shop.Greeter", methods)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()

    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary("/shop.Greeter/Hello")
        for name in (b"alice", b"bob", b"carol"):
            try:
                answer, status = call.with_call(name, metadata=[("x-api-key", "abc")], timeout=10)
                print(answer.decode(), "|", dict(status.trailing_metadata())["ratelimit"])
            except grpc.RpcError as error:
                told = dict(error.trailing_metadata())
                print(f"{error.code().name}: {error.details()} | retry-after: {told['retry-after']}")
    server.stop(None).wait()
    limiter.close()
