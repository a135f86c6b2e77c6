//! The access log, and the ids of requests.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::setup::{Running, Upstream, eventually, group, rule, to};

/// A proxy that writes an access log.
struct Logging {
    proxy: Running,
    path: PathBuf,
}

impl Logging {
    fn start(upstream: &Upstream, rules: &Value, format: &str, with_query: bool) -> Self {
        Self::start_with(upstream, rules, format, &json!({"query": with_query}))
    }

    /// One with some of the proxy's settings changed; `query` is one of the log.
    fn start_with(upstream: &Upstream, rules: &Value, format: &str, changes: &Value) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("tidegate-access-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::SeqCst));
        let path = std::env::temp_dir().join(name);
        let mut settings = to(&group("app", &[upstream.url()], &json!({})));
        settings["access_log"] = json!({"to": {"file": {"path": path}}, "format": format, "query": changes["query"] == true});
        if let Some(trusted) = changes.get("trusted_proxies") {
            settings["trusted_proxies"] = trusted.clone();
        }
        Self { proxy: Running::start(&settings, rules), path }
    }

    fn lines(&self) -> Vec<String> {
        std::fs::read_to_string(&self.path).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// So many lines, once they are there, read as JSON.
    async fn entries(&self, count: usize) -> Vec<Value> {
        eventually("the lines are written", || self.lines().len() >= count).await;
        let read = |line: &String| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let entries: Vec<Value> = self.lines().iter().map(read).collect();
        assert_eq!(entries.len(), count, "{entries:?}");
        entries
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[tokio::test]
async fn each_request_is_one_line_with_what_became_of_it() {
    let upstream = Upstream::start().await;
    let logging = Logging::start(&upstream, &json!([rule("1/hour", &json!({}))]), "json", false);
    let mut client = logging.proxy.client().await;
    let request = "POST /a?token=secret HTTP/1.1\r\nhost: shop.example.com\r\nx-api-key: secret\r\nuser-agent: \"me\\\r\ncontent-length: 5\r\n\r\nhello";
    let answer = client.ask(request).await;
    assert_eq!((answer.status(), client.ask(request).await.status()), (200, 429));

    let [allowed, denied] = &logging.entries(2).await[..] else { panic!("two") };
    for (name, expected) in [
        ("remote", json!("127.0.0.1")),
        ("method", json!("POST")),
        ("host", json!("shop.example.com")),
        ("path", json!("/a")),
        ("protocol", json!("HTTP/1.1")),
        ("user_agent", json!("\"me\\")),
        ("decision", json!("allowed")),
        ("rule", json!("rule")),
        ("upstream", json!(upstream.address.to_string())),
        ("tries", json!(1)),
        ("status", json!(200)),
        ("complete", json!(true)),
        ("bytes_received", json!(5)),
        ("bytes_sent", json!(answer.body.len())),
        ("request_id", json!(answer.field("x-request-id"))),
    ] {
        assert_eq!(allowed[name], expected, "{name}: {allowed}");
    }
    let ms = |name: &str| allowed[name].as_f64().unwrap_or_else(|| panic!("{name}: {allowed}"));
    assert!(ms("decision_ms") <= ms("head_ms") && ms("head_ms") <= ms("duration_ms"), "{allowed}");
    assert_eq!((&denied["status"], &denied["decision"], &denied["rule"]), (&json!(429), &json!("denied"), &json!("rule")));
    assert_eq!((&denied["upstream"], &denied["complete"]), (&Value::Null, &json!(true)));
    let text = logging.lines().concat();
    assert!(!text.contains("secret"), "{text}");
    let page = logging.proxy.app.metrics.render(&logging.proxy.app);
    assert!(
        page.contains("ratelimit_access_log_lines_total 2\n") && page.contains("ratelimit_access_log_dropped_total 0\n"),
        "{page}"
    );
}

#[tokio::test]
async fn the_common_format_is_what_others_read() {
    let upstream = Upstream::start().await;
    let logging = Logging::start(&upstream, &json!([]), "common", true);
    let sent = logging.proxy.client().await.get("/a\"b?c=d").await.body.len();
    eventually("a line", || !logging.lines().is_empty()).await;
    let line = logging.lines().concat();
    let (before, after) = line.split_once(" \"GET /a\\x22b?c=d HTTP/1.1\" ").unwrap_or_else(|| panic!("{line}"));
    assert!(before.starts_with("127.0.0.1 - - [") && before.ends_with(" +0000]"), "{line}");
    assert!(after.starts_with(&format!("200 {sent} decision=allowed upstream={} request_id=\"", upstream.address)), "{line}");
}

#[tokio::test]
async fn what_a_bucket_made_a_request_wait_is_written_if_it_did() {
    let upstream = Upstream::start().await;
    let logging = Logging::start(&upstream, &json!([rule("20/second leaky_bucket queue 1s", &json!({}))]), "json", false);
    let mut client = logging.proxy.client().await;
    for _ in 0..2 {
        assert_eq!(client.get("/").await.status(), 200);
    }
    let [first, second] = &logging.entries(2).await[..] else { panic!("two") };
    assert_eq!((&first["delay_ms"], &second["delay_ms"]), (&Value::Null, &json!(50.0)));
}

#[tokio::test]
async fn the_common_format_says_who_broke_off() {
    let upstream = Upstream::start().await;
    let logging = Logging::start(&upstream, &json!([]), "common", false);
    let mut client = logging.proxy.client().await;
    assert_eq!(client.get("/").await.status(), 200);
    client.send("GET /wait HTTP/1.1\r\nhost: a\r\n\r\n").await;
    eventually("the server is asked", || upstream.asked() == 2).await;
    drop(client);
    eventually("two lines", || logging.lines().len() == 2).await;
    let lines = logging.lines();
    assert!(!lines[0].contains("complete="), "{lines:?}");
    assert!(lines[1].contains(" 499 0 ") && lines[1].contains(" complete=false "), "{lines:?}");
}

#[tokio::test]
async fn who_breaks_off_is_written_too() {
    let upstream = Upstream::start().await;
    let logging = Logging::start(&upstream, &json!([]), "json", false);
    let mut client = logging.proxy.client().await;
    client.send("GET /wait HTTP/1.1\r\nhost: a\r\n\r\n").await;
    eventually("the server is asked", || upstream.asked() == 1).await;
    drop(client);
    let [went] = &logging.entries(1).await[..] else { panic!("one") };
    assert_eq!((&went["status"], &went["complete"], &went["path"]), (&Value::Null, &json!(false), &json!("/wait")));

    let mut client = logging.proxy.client().await;
    client.send("GET /endless HTTP/1.1\r\nhost: a\r\n\r\n").await;
    // The head may come by itself: something of the body has to have been sent.
    let mut begun = Vec::new();
    while !begun.windows(5).any(|bytes| bytes.starts_with(b"\r\n\r\n")) {
        assert!(client.0.read_buf(&mut begun).await.expect("a beginning") > 0, "it ended");
    }
    drop(client);
    let [_, went] = &logging.entries(2).await[..] else { panic!("two") };
    assert_eq!((&went["status"], &went["complete"], &went["path"]), (&json!(200), &json!(false), &json!("/endless")));
    assert!(went["bytes_sent"].as_u64() > Some(0), "{went}");
}

#[tokio::test]
async fn a_tunnel_is_written_when_it_has_ended() {
    let upstream = Upstream::start().await;
    let logging = Logging::start(&upstream, &json!([]), "json", false);
    let mut client = logging.proxy.client().await;
    let upgrade = "GET /echo HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    assert_eq!(client.ask(upgrade).await.status(), 101);
    client.send("hello").await;
    client.0.shutdown().await.expect("an end");
    assert_eq!(client.rest().await, "hello");
    let [tunnel] = &logging.entries(1).await[..] else { panic!("one") };
    assert_eq!((&tunnel["status"], &tunnel["complete"]), (&json!(101), &json!(true)));
    assert_eq!((&tunnel["bytes_received"], &tunnel["bytes_sent"]), (&json!(5), &json!(5)));
}

#[tokio::test]
async fn what_goes_nowhere_is_written_and_an_end_loses_no_line() {
    let upstream = Upstream::start().await;
    let logging = Logging::start(&upstream, &json!([]), "json", false);
    let mut client = logging.proxy.client().await;
    for _ in 0..50 {
        client.get("/").await;
    }
    let mut other = logging.proxy.client().await;
    assert_eq!(other.ask("TRACE /a HTTP/1.1\r\nhost: a\r\n\r\n").await.status(), 405);
    drop((client, other));
    logging.proxy.server.stop();
    let entries = logging.entries(51).await;
    let refused: Vec<_> = entries.iter().filter(|entry| entry["status"] == 405).collect();
    assert_eq!((refused.len(), &refused[0]["decision"], &refused[0]["upstream"]), (1, &Value::Null, &Value::Null));
}

#[tokio::test]
async fn client_proxy_and_server_call_a_request_by_one_name() {
    let upstream = Upstream::start().await;
    let mut settings = to(&group("app", &[upstream.url()], &json!({})));
    let request = "GET / HTTP/1.1\r\nhost: a\r\nx-request-id: mine-1\r\n\r\n";
    for (trusted, is_kept) in [(json!([]), false), (json!(["127.0.0.0/8"]), true)] {
        settings["trusted_proxies"] = trusted;
        let answer = Running::start(&settings, &json!([])).client().await.ask(request).await;
        let id = answer.field("x-request-id").expect("an id").to_owned();
        assert_eq!(answer.json()["headers"]["x-request-id"], *id);
        assert_eq!(id == "mine-1", is_kept, "{id}");
    }
    settings["request_id"] = Value::Null;
    let answer = Running::start(&settings, &json!([])).client().await.ask(request).await;
    assert_eq!((answer.field("x-request-id"), &answer.json()["headers"]["x-request-id"]), (None, &json!("mine-1")));
}

#[tokio::test]
async fn behind_a_proxy_that_is_believed_the_client_is_written() {
    let upstream = Upstream::start().await;
    let asks = "GET / HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 198.51.100.9, 203.0.113.7\r\nx-forwarded-for: 127.0.0.2\r\n\r\n";
    for (trusted, client) in [(json!([]), Value::Null), (json!(["127.0.0.0/8"]), json!("203.0.113.7"))] {
        let changes = json!({"trusted_proxies": trusted});
        let logging = Logging::start_with(&upstream, &json!([]), "json", &changes);
        assert_eq!(logging.proxy.client().await.ask(asks).await.status(), 200);
        assert_eq!(logging.proxy.client().await.get("/").await.status(), 200);
        let [named, unnamed] = &logging.entries(2).await[..] else { panic!("two") };
        assert_eq!((&named["remote"], &named["client"]), (&json!("127.0.0.1"), &client));
        assert_eq!((&unnamed["remote"], &unnamed["client"]), (&json!("127.0.0.1"), &Value::Null));
        let logging = Logging::start_with(&upstream, &json!([]), "common", &changes);
        assert_eq!(logging.proxy.client().await.ask(asks).await.status(), 200);
        eventually("a line", || !logging.lines().is_empty()).await;
        assert!(logging.lines()[0].starts_with(client.as_str().unwrap_or("127.0.0.1")), "{:?}", logging.lines());
    }
}

#[tokio::test]
async fn an_upload_that_broke_off_is_not_complete() {
    let upstream = Upstream::start().await;
    let logging = Logging::start(&upstream, &json!([]), "json", false);
    let mut client = logging.proxy.client().await;
    client.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhalf").await;
    eventually("the server is asked", || upstream.asked() == 1).await;
    drop(client);
    let [went] = &logging.entries(1).await[..] else { panic!("one") };
    assert_eq!((&went["complete"], &went["bytes_received"]), (&json!(false), &json!(4)));

    // A server that wants no body has answered all that there is to say.
    let mut client = logging.proxy.client().await;
    let unwanted = client.ask("POST /early HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n").await;
    assert_eq!(unwanted.status(), 200);
    let [_, answered] = &logging.entries(2).await[..] else { panic!("two") };
    assert_eq!((&answered["complete"], &answered["bytes_received"]), (&json!(true), &json!(0)));
}
