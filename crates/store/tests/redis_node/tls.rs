//! TLS, with and without certificates on our side.

use tidegate_store::redis::resp::Value;
use tidegate_store::redis::url::{RedisConfig, UrlError};

use super::peer::{Peer, answer, down, start};
use super::real::connect;
use super::servers::Servers;

/// The address with parameters that name files of the server's harness.
fn url(servers: &Servers, parameters: &[(&str, &str)]) -> String {
    let base = servers.url.split('?').next().unwrap();
    let parameters: Vec<_> =
        parameters.iter().map(|(name, file)| format!("{name}={}", servers.certificate(file).display())).collect();
    format!("{base}?{}", parameters.join("&"))
}

const OURS: [(&str, &str); 3] = [("tls_ca", "ca"), ("tls_cert", "client_cert"), ("tls_key", "client_key")];

#[tokio::test]
async fn servers_that_are_trusted_are_spoken_to() {
    let servers = Servers::start(&["single", "--tls", "--password", "hunter2"]);
    assert!(servers.url.starts_with("rediss://"), "{}", servers.url);

    for parameters in [&OURS[..1], &OURS] {
        let node = connect(&url(&servers, parameters));
        assert_eq!(answer(&node, &["ECHO", "a"]).await, Value::Bulk((*b"a").into()));
    }
    let insecure = format!("{}?tls_insecure=true", servers.url.split('?').next().unwrap());
    assert_eq!(answer(&connect(&insecure), &["PING"]).await, Value::Status("PONG".into()));
}

#[tokio::test]
async fn a_pipeline_through_tls_keeps_its_order() {
    let servers = Servers::start(&["single", "--tls"]);
    let node = connect(&url(&servers, &OURS[..1]));

    let calls: Vec<_> = (0..5_000).map(|_| super::peer::call(&node, &["INCR", "a"])).collect();

    for (i, call) in (1..).zip(calls) {
        assert_eq!(call.await.unwrap(), Ok(Value::Int(i)));
    }
}

#[tokio::test]
async fn a_server_that_nobody_vouches_for_is_not_spoken_to() {
    let servers = Servers::start(&["single", "--tls"]);
    let others = Servers::start(&["single", "--tls", "--tls-host", "other.example"]);
    let base = servers.url.split('?').next().unwrap();

    let stranger = format!("{base}?tls_ca={}", others.certificate("ca").display());
    let misnamed = url(&others, &OURS[..1]);
    for url in [stranger, misnamed] {
        let why = down(&connect(&url)).await;
        assert!(why.kind() == "store_access" && why.to_string().contains("not trusted"), "{url}: {why}");
    }
}

#[tokio::test]
async fn a_server_that_wants_a_certificate_gets_one_or_says_so() {
    for name in ["valkey", "redis70"] {
        let Some(servers) = Servers::start_if_installed(&["single", "--tls", "--tls-auth-clients", "--server", name]) else {
            continue;
        };

        let node = connect(&url(&servers, &OURS));
        assert_eq!(answer(&node, &["PING"]).await, Value::Status("PONG".into()));
        let why = down(&connect(&url(&servers, &OURS[..1]))).await;
        assert!(why.to_string().contains("tls_cert"), "{name}: {why}");
    }
}

#[tokio::test]
async fn either_side_without_tls_is_said_to_be() {
    let plain = Servers::start(&["single"]);
    let secured = Servers::start(&["single", "--tls"]);

    let why = down(&connect(&format!("{}?tls_insecure=true", plain.url.replace("redis://", "rediss://")))).await;
    assert!(why.to_string().contains("does the port speak TLS"), "{why}");
    let why = down(&connect(&secured.url.split('?').next().unwrap().replace("rediss://", "redis://"))).await;
    assert!(why.to_string().contains("rediss://"), "{why}");
}

#[tokio::test]
async fn a_peer_that_answers_the_greeting_of_tls_in_plain_text_is_found_out() {
    let peer = Peer::bind().await;
    let config = RedisConfig::parse("rediss://host?tls_insecure=true").unwrap();
    let node = start(&peer.address, (*config.login).clone());
    peer.accept().await.say("HTTP/1.1 400 Bad Request\r\n\r\n").await;

    let why = down(&node).await;
    assert!(why.to_string().contains("does not speak TLS"), "{why}");
}

#[test]
fn a_key_that_belongs_to_another_certificate_is_refused() {
    let servers = Servers::start(&["single", "--tls"]);
    let files = [("tls_ca", "ca"), ("tls_cert", "client_cert"), ("tls_key", "server_key")];

    let error = RedisConfig::parse(&url(&servers, &files)).unwrap_err();
    assert!(matches!(&error, UrlError::File { name: "tls_key", why, .. } if why.contains("does not belong")), "{error}");
    let files = [("tls_ca", "ca"), ("tls_cert", "client_key"), ("tls_key", "client_key")];
    let error = RedisConfig::parse(&url(&servers, &files)).unwrap_err();
    assert!(matches!(&error, UrlError::File { name: "tls_cert", .. }), "{error}");
}
