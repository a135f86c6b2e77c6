//! What a server hears of a request, and a client of a response.

use http::Request;
use serde_json::{Value, json};
use tidegate_server::body::Body;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use super::setup::{PATIENCE, Running, Upstream, group, to};

async fn simple() -> (Upstream, Running) {
    let upstream = Upstream::start().await;
    let proxy = Running::before(&group("app", &[upstream.url()], &json!({})));
    (upstream, proxy)
}

#[tokio::test]
async fn a_server_hears_the_request_and_where_it_came_from() {
    let (_upstream, proxy) = simple().await;
    let asked = "POST /a/b?c=d%20e HTTP/1.1\r\nhost: shop.example.com\r\nx-api-key: k\r\ncontent-length: 5\r\n\r\nhello";
    let answer = proxy.client().await.ask(asked).await;

    assert_eq!(answer.status(), 200);
    assert_eq!(answer.field("via"), Some("1.1 tidegate"));
    let told = answer.json();
    assert_eq!((&told["method"], &told["uri"], &told["body"]), (&json!("POST"), &json!("/a/b?c=d%20e"), &json!("hello")));
    let expected = json!({
        "host": "shop.example.com", "x-api-key": "k", "content-length": "5", "via": "1.1 tidegate",
        "x-forwarded-for": "127.0.0.1", "x-forwarded-host": "shop.example.com", "x-forwarded-proto": "http",
        "forwarded": "for=127.0.0.1;host=\"shop.example.com\";proto=http", "x-request-id": answer.field("x-request-id"),
    });
    assert_eq!(told["headers"], expected);
}

#[tokio::test]
async fn what_is_meant_for_one_connection_ends_there() {
    let (_upstream, proxy) = simple().await;
    let asked = "GET / HTTP/1.1\r\nhost: a\r\nconnection: keep-alive, X-Private\r\nx-private: 1\r\nkeep-alive: 5\r\nproxy-connection: x\r\n\
                 te: trailers, deflate\r\nproxy-authorization: secret\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n\
                 x-public: 2\r\n\r\n";
    let answer = proxy.client().await.ask(asked).await;

    let told = answer.json();
    let headers = told["headers"].as_object().expect("fields");
    for name in ["connection", "x-private", "keep-alive", "proxy-connection", "proxy-authorization", "upgrade", "http2-settings"]
    {
        assert!(!headers.contains_key(name), "{name}");
    }
    assert_eq!((&headers["x-public"], &headers["te"]), (&json!("2"), &json!("trailers")));
    assert_eq!((answer.field("x-of-one-hop"), answer.field("x-kept")), (None, Some("yes")));
}

#[tokio::test]
async fn only_those_who_are_trusted_are_believed_where_a_request_came_from() {
    let upstream = Upstream::start().await;
    let asked = "GET / HTTP/1.1\r\nhost: inside\r\nx-forwarded-for: 192.0.2.1\r\nx-forwarded-proto: https\r\nx-forwarded-host: outside\r\n\
                 x_forwarded_for: 192.0.2.9\r\nforwarded: for=192.0.2.1\r\n\r\n";
    for (trusted, expected) in [
        (json!([]), ["127.0.0.1", "http", "inside", "for=127.0.0.1;host=\"inside\";proto=http"]),
        (
            json!(["127.0.0.0/8"]),
            ["192.0.2.1, 127.0.0.1", "https", "outside", "for=192.0.2.1, for=127.0.0.1;host=\"inside\";proto=http"],
        ),
    ] {
        let mut settings = to(&group("app", &[upstream.url()], &json!({})));
        settings["trusted_proxies"] = trusted;
        let proxy = Running::start(&settings, &json!([]));
        let told = proxy.client().await.ask(asked).await.json();
        let seen =
            ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded"].map(|name| told["headers"][name].clone());
        assert_eq!(seen.to_vec(), expected.map(Value::from).to_vec());
        assert_eq!(told["headers"]["x_forwarded_for"], Value::Null, "some servers read it as the one with hyphens");
    }
}

#[tokio::test]
async fn the_host_is_kept_or_replaced() {
    let upstream = Upstream::start().await;
    let own = upstream.address.to_string();
    for (policy, expected) in [("preserve", "shop.example.com"), ("rewrite", own.as_str())] {
        let proxy = Running::before(&group("app", &[upstream.url()], &json!({"host": policy})));
        let told = proxy.client().await.get("/").await.json();
        assert_eq!(told["headers"]["host"], expected);
        assert_eq!(told["headers"]["x-forwarded-host"], "shop.example.com");
    }
}

#[tokio::test]
async fn routes_choose_the_group_and_the_path() {
    let (shop, api) = (Upstream::start().await, Upstream::start().await);
    let mut settings = to(&group("shop", &[shop.url()], &json!({})));
    settings["upstreams"].as_array_mut().expect("a list").push(group("api", &[api.url()], &json!({})));
    settings["routes"] = json!([
        {"hosts": ["shop.example.com"], "path": "/", "upstream": "shop", "rewrite": null},
        {"hosts": ["shop.example.com"], "path": "/api", "upstream": "api", "rewrite": "/v2"},
    ]);
    let proxy = Running::start(&settings, &json!([]));
    let mut client = proxy.client().await;

    assert_eq!(client.get("/api/orders?a=1").await.json()["uri"], "/v2/orders?a=1");
    assert_eq!((api.asked(), shop.asked()), (1, 0));
    let all = client.ask("OPTIONS * HTTP/1.1\r\nhost: shop.example.com\r\n\r\n").await;
    assert_eq!((all.status(), shop.asked()), (200, 1), "all of a server is no path, and is not rewritten");
    assert_eq!(client.get("/apis").await.json()["uri"], "/apis");
    assert_eq!((api.asked(), shop.asked()), (1, 2));
    let lost = client.ask("GET / HTTP/1.1\r\nhost: elsewhere.org\r\n\r\n").await;
    assert_eq!((lost.status(), lost.field("content-type")), (404, Some("application/problem+json")));
}

#[tokio::test]
async fn servers_take_turns_and_connections_are_kept() {
    let servers = [Upstream::start().await, Upstream::start().await, Upstream::start().await];
    let urls: Vec<String> = servers.iter().map(Upstream::url).collect();
    let proxy = Running::before(&group("app", &urls, &json!({})));
    let mut client = proxy.client().await;
    for _ in 0..9 {
        assert_eq!(client.get("/").await.status(), 200);
        // The connection is kept once its task has noticed that the response has ended.
        tokio::task::yield_now().await;
    }

    assert_eq!(servers.each_ref().map(Upstream::asked), [3, 3, 3]);
    assert_eq!(servers.each_ref().map(Upstream::connections), [1, 1, 1]);
}

#[tokio::test]
async fn bodies_of_any_length_pass_in_both_directions() {
    let (_upstream, proxy) = simple().await;
    let mut client = proxy.client().await;
    let chunked = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\nx-sum: 7\r\n\r\n";
    let told = client.ask(chunked).await.json();
    assert_eq!((&told["body"], &told["headers"]["transfer-encoding"]), (&json!("hello world"), &json!("chunked")));
    assert_eq!(told["trailers"], json!({"x-sum": "7"}));
    // Nobody says behind a body where a request came from, or who it is.
    let behind = chunked.replace("trailer: x-sum", "trailer: x-sum, x-forwarded-for, x_real_ip, cookie, via");
    let behind = behind
        .replace("x-sum: 7\r\n", "x-forwarded-for: 192.0.2.1\r\nx_real_ip: 192.0.2.1\r\ncookie: a\r\nvia: 1.1 a\r\nx-sum: 7\r\n");
    assert_eq!(client.ask(&behind).await.json()["trailers"], json!({"x-sum": "7"}));
    // A method that has no body most of the time.
    let told = client.ask(&chunked.replace("POST", "GET")).await.json();
    assert_eq!(told["body"], "hello world");
    let long = "x".repeat(3_000_000);
    let told = client.ask(&format!("PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: 3000000\r\n\r\n{long}")).await.json();
    assert_eq!(told["bytes"], 3_000_000);
    let asked = "GET /trailers HTTP/1.1\r\nhost: a\r\nte: trailers\r\nconnection: te\r\n\r\n";
    assert!(client.ask(asked).await.text().ends_with("0\r\nx-sum: 42\r\n\r\n"));
    // The length of a body is told to HEAD, and no body comes: the next answer follows at once.
    client.send("HEAD / HTTP/1.1\r\nhost: a\r\n\r\nGET /early HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    let both = client.rest().await;
    assert_eq!(both.matches("HTTP/1.1 200 OK").count(), 2, "{both}");
    assert_eq!(both.matches("\r\n\r\n").count(), 2, "{both}");
}

#[tokio::test]
async fn a_response_is_passed_on_while_it_comes() {
    let (upstream, proxy) = simple().await;
    let mut client = proxy.client().await;
    client.send("GET /stream HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let mut begun = Vec::new();
    // The rest is not sent before this has come.
    while !begun.ends_with(b"\r\n\r\n6\r\nfirst \r\n") {
        let more = timeout(PATIENCE, client.0.read_buf(&mut begun)).await.expect("the first piece in time");
        assert!(more.expect("an answer") > 0, "{}", String::from_utf8_lossy(&begun));
    }
    upstream.door.notify_one();
    let mut last = [0; 14];
    timeout(PATIENCE, client.0.read_exact(&mut last)).await.expect("the last piece in time").expect("the rest");
    assert_eq!(&last, b"4\r\nlast\r\n0\r\n\r\n");
}

#[tokio::test]
async fn who_expects_to_be_told_to_go_on_is_told_by_the_server() {
    let (upstream, proxy) = simple().await;
    let mut client = proxy.client().await;
    client.send("POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n").await;
    let go_on = client.answer().await;
    assert_eq!(go_on.head, "http/1.1 100 continue");
    assert_eq!(upstream.asked(), 1, "the server was asked first");
    let told = client.ask("hello").await.json();
    assert_eq!((&told["body"], &told["headers"]["expect"]), (&json!("hello"), &json!("100-continue")));
    // Who is answered before is not told to go on.
    let early = client.ask("POST /early HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n").await;
    assert_eq!((early.status(), early.field("connection")), (200, Some("close")));
    assert_eq!(client.rest().await, "");
}

#[tokio::test]
async fn both_versions_are_spoken_on_both_sides() {
    for (upstream, protocol) in [(Upstream::start().await, "http1"), (Upstream::start_http2().await, "http2")] {
        let proxy = Running::before(&group("app", &[upstream.url()], &json!({"protocol": protocol})));
        let told = proxy.client().await.get("/one?a=b").await.json();
        let (version, uri) = match protocol {
            "http1" => ("HTTP/1.1", "/one?a=b".to_owned()),
            _ => ("HTTP/2.0", "http://shop.example.com/one?a=b".to_owned()),
        };
        assert_eq!((&told["version"], &told["uri"]), (&json!(version), &json!(uri)));

        let mut client = proxy.http2_client().await;
        let request = Request::post("http://shop.example.com/two").header("cookie", "a=1").header("cookie", "b=2");
        let response = client.send_request(request.body(Body::full("hello")).expect("a request")).await.expect("a response");
        assert_eq!(response.headers()["via"], "2 tidegate");
        let told: Value = serde_json::from_slice(&whole(response.into_body()).await).expect("JSON");
        assert_eq!((&told["version"], &told["body"]), (&json!(version), &json!("hello")));
        assert_eq!(told["headers"]["via"], "2 tidegate");
        if protocol == "http1" {
            assert_eq!((&told["headers"]["host"], &told["headers"]["cookie"]), (&json!("shop.example.com"), &json!("a=1; b=2")));
        }
    }
}

async fn whole(mut body: hyper::body::Incoming) -> Vec<u8> {
    use http_body::Body as _;
    let mut bytes = Vec::new();
    while let Some(frame) = std::future::poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context)).await {
        bytes.extend(frame.expect("a whole body").into_data().unwrap_or_default());
    }
    bytes
}

#[tokio::test]
async fn many_requests_over_http2_share_one_connection() {
    let upstream = Upstream::start_http2().await;
    let proxy = Running::before(&group("app", &[upstream.url()], &json!({"protocol": "http2"})));
    let mut clients = Vec::new();
    for _ in 0..8 {
        let mut client = proxy.client().await;
        client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        clients.push(client);
    }
    for client in &mut clients {
        assert_eq!(client.answer().await.status(), 200);
    }
    assert_eq!((upstream.asked(), upstream.connections()), (8, 1));
}
