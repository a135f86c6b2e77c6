//! What the answer to `INFO` says.

use super::{Mode, Role, ServerInfo};
use crate::store::StoreError;

/// Picks out what is needed. Lines that are not known, or not as expected, are passed over.
///
/// # Errors
/// The server is still loading: it would refuse every call.
pub(super) fn read(text: &[u8]) -> Result<ServerInfo, StoreError> {
    let text = String::from_utf8_lossy(text);
    let mut server = ServerInfo::default();
    // Valkey also names the version of Redis that it is compatible with.
    let mut valkey = None;
    for (field, value) in text.lines().filter_map(|line| line.trim_end().split_once(':')) {
        match field {
            "redis_version" => server.version = Some(value.into()),
            "valkey_version" => valkey = Some(value.into()),
            "redis_mode" | "server_mode" => server.mode = mode(value),
            "role" => server.role = role(value),
            "maxmemory_policy" => server.maxmemory_policy = Some(value.into()),
            "loading" if value == "1" => {
                return Err(StoreError::Refused { why: "LOADING the server is loading its data".into() });
            }
            _ => {}
        }
    }
    if server.mode == Some(Mode::Sentinel) {
        server.role = Some(Role::Sentinel);
    }
    let name = if valkey.is_some() { "valkey" } else { "redis" };
    server.version = valkey.or(server.version);
    server.name = server.version.is_some().then(|| name.into());
    Ok(server)
}

fn mode(value: &str) -> Option<Mode> {
    match value {
        "standalone" => Some(Mode::Standalone),
        "cluster" => Some(Mode::Cluster),
        "sentinel" => Some(Mode::Sentinel),
        _ => None,
    }
}

fn role(value: &str) -> Option<Role> {
    match value {
        "master" => Some(Role::Primary),
        "slave" => Some(Role::Replica),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redis_says_what_it_is() {
        let text = b"# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nloading:0\r\nmaxmemory_policy:noeviction\r\nrole:master\r\nodd\r\n";

        let expected = ServerInfo {
            name: Some("redis".into()),
            version: Some("7.0.15".into()),
            role: Some(Role::Primary),
            mode: Some(Mode::Standalone),
            maxmemory_policy: Some("noeviction".into()),
        };
        assert_eq!(read(text), Ok(expected));
    }

    #[test]
    fn a_valkey_is_named_by_its_own_version() {
        let server =
            read(b"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\nserver_mode:cluster\r\nrole:slave\r\n")
                .unwrap();

        assert_eq!(server.name.as_deref(), Some("valkey"));
        assert_eq!(server.version.as_deref(), Some("9.1.2"));
        assert_eq!((server.mode, server.role), (Some(Mode::Cluster), Some(Role::Replica)));
    }

    #[test]
    fn a_sentinel_has_the_role_of_its_mode() {
        assert_eq!(read(b"redis_version:6.2.14\r\nredis_mode:sentinel\r\n").unwrap().role, Some(Role::Sentinel));
    }

    #[test]
    fn a_server_that_is_loading_is_not_up() {
        assert_eq!(read(b"redis_version:7.0.15\r\nloading:1\r\n").unwrap_err().kind(), "store_refused");
    }

    #[test]
    fn a_server_that_says_nothing_is_unknown() {
        assert_eq!(read(b"\xff\xfe\r\n::\r\n"), Ok(ServerInfo::default()));
    }
}
