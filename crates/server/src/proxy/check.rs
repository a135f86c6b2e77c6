//! Asks servers whether they are well.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, HOST, USER_AGENT};
use http::{HeaderValue, Request, Uri};
use tidegate_engine::engine::random_id;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::dial;
use super::group::Group;
use super::request_body::RequestBody;
use super::server::Server;
use super::settings::{CheckSettings, UpstreamProtocol};

/// The part of a time by which it is made shorter at random, so that proxies that started together do not ask together.
const JITTER: u32 = 5;

/// Asks all servers of a group again and again, until this is dropped.
pub(super) async fn run(group: Arc<Group>) {
    let Some(check) = &group.settings.check else { return };
    loop {
        let next = Instant::now() + check.interval;
        let mut round: JoinSet<()> = group.servers().into_iter().map(|server| look_at(Arc::clone(&group), server)).collect();
        while round.join_next().await.is_some() {}
        sleep_until(next).await;
    }
}

async fn look_at(group: Arc<Group>, server: Arc<Server>) {
    let Some(check) = &group.settings.check else { return };
    sleep(check.interval.saturating_sub(jittered(check.interval))).await;
    let is_right = |status: u16| check.status.iter().any(|&(from, to)| (from..=to).contains(&status));
    let result = match timeout(check.timeout, ask(&group, &server, check)).await {
        Ok(Ok(status)) if is_right(status) => Ok(()),
        Ok(Ok(status)) => Err(format!("a check was answered with {status}")),
        Ok(Err(why)) => Err(why.to_string()),
        Err(_) => Err("a check took too long".to_owned()),
    };
    server.note_check(result, &group.settings, Instant::now());
}

/// Asks on a connection of its own: that a kept one still works says nothing about new ones.
async fn ask(group: &Group, server: &Server, check: &CheckSettings) -> Result<u16, Box<dyn Error + Send + Sync>> {
    let mut request = Request::new(RequestBody::empty());
    let headers = request.headers_mut();
    headers.insert(USER_AGENT, HeaderValue::from_static("tidegate"));
    let authority = server.url.authority.as_str();
    let response = match server.protocol {
        UpstreamProtocol::Http1 => {
            headers.insert(HOST, HeaderValue::try_from(authority)?);
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
            *request.uri_mut() = check.path.parse()?;
            dial::http1(server, group).await?.leave().await?.send_request(request).await
        }
        UpstreamProtocol::Http2 => {
            let scheme = if server.url.is_tls { "https" } else { "http" };
            let uri = Uri::builder().scheme(scheme).authority(authority).path_and_query(check.path.as_str());
            *request.uri_mut() = uri.build()?;
            dial::http2(server, group).await?.send_request(request).await
        }
    };
    Ok(response?.status().as_u16())
}

/// A time, a little shorter.
pub(super) fn jittered(time: Duration) -> Duration {
    let random = u32::from_le_bytes(random_id().to_le_bytes()[..4].try_into().unwrap_or_default());
    time.saturating_sub((time / JITTER).mul_f64(f64::from(random) / f64::from(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jittered_time_is_at_most_a_fifth_shorter() {
        let times: Vec<_> = (0..1_000).map(|_| jittered(Duration::from_secs(10))).collect();
        assert!(times.iter().all(|time| (Duration::from_secs(8)..=Duration::from_secs(10)).contains(time)));
        assert!(times.iter().max() > times.iter().min());
        assert_eq!(jittered(Duration::ZERO), Duration::ZERO);
    }
}
