//! Addresses: every form is read, every mistake gets its own answer, and no password is ever shown.

use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_store::redis::url::{Address, Login, RedisConfig, Secret, Topology, URL_BYTES_MAX, UrlError};

fn parse(url: &str) -> RedisConfig {
    RedisConfig::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn refused(url: &str) -> UrlError {
    match RedisConfig::parse(url) {
        Ok(config) => panic!("{url} was read as {config}"),
        Err(error) => error,
    }
}

fn password(login: &Login) -> Option<&str> {
    login.password.as_ref().map(Secret::expose)
}

#[test]
fn every_form_is_read_and_shown_in_full() {
    let cases = [
        ("redis://host", "redis://host:6379/0"),
        ("redis://host/", "redis://host:6379/0"),
        ("REDIS://Host:1/2", "redis://Host:1/2"),
        ("valkey://host:1/2", "redis://host:1/2"),
        ("redis://127.0.0.1:65535?db=7", "redis://127.0.0.1:65535/7"),
        ("redis://[::1]", "redis://[::1]:6379/0"),
        ("redis://[fe80::1]:7000/1", "redis://[fe80::1]:7000/1"),
        ("redis://my_redis.svc-1.local", "redis://my_redis.svc-1.local:6379/0"),
        ("redis://ada:secret@host", "redis://ada:***@host:6379/0"),
        ("redis://:secret@host", "redis://:***@host:6379/0"),
        ("redis://@host", "redis://host:6379/0"),
        ("redis://:@host", "redis://host:6379/0"),
        ("redis://ada:@host", "redis://ada:***@host:6379/0"),
        ("redis://a%40b%2Fc:x@host", "redis://a%40b%2Fc:***@host:6379/0"),
        ("unix:///run/redis.sock", "unix:///run/redis.sock"),
        ("unix:///run/redis.sock?db=1", "unix:///run/redis.sock?db=1"),
        ("unix://ada:secret@/run/a%20b.sock", "unix://ada:***@/run/a%20b.sock"),
        ("redis+sentinel://h1/mymaster", "redis+sentinel://h1:26379/mymaster/0"),
        ("redis+sentinel://h1:1,h2,[::1]/my%2Fmaster/3", "redis+sentinel://h1:1,h2:26379,[::1]:26379/my%2Fmaster/3"),
        (
            "valkey+sentinel://u:p@h1/m?sentinel_password=q&sentinel_username=v",
            "redis+sentinel://u:***@h1:26379/m/0?sentinel_username=v&sentinel_password=***",
        ),
        ("redis+cluster://h1:7000,h2:7001", "redis+cluster://h1:7000,h2:7001"),
        ("redis+cluster://h1/0", "redis+cluster://h1:6379"),
        (
            "redis://host?prefix=a:&connect_timeout=2s&client_name=web",
            "redis://host:6379/0?prefix=a:&connect_timeout=2000ms&client_name=web",
        ),
        ("redis://host?", "redis://host:6379/0"),
        ("redis://host?&db=1&", "redis://host:6379/1"),
        ("rediss://host?tls_insecure=true", "rediss://host:6379/0?tls_insecure=true"),
        ("valkeys://host?tls_insecure=true", "rediss://host:6379/0?tls_insecure=true"),
        ("rediss+sentinel://h/m?tls_insecure=true", "rediss+sentinel://h:26379/m/0?tls_insecure=true"),
        ("valkeys+cluster://h?tls_insecure=true", "rediss+cluster://h:6379?tls_insecure=true"),
    ];
    for (url, expected) in cases {
        assert_eq!(parse(url).to_string(), expected, "{url}");
        assert_eq!(parse(expected).to_string(), expected, "what is shown can be read again");
    }
}

#[test]
fn users_passwords_and_names_are_decoded() {
    let config = parse("redis://%C3%A4da:p%40s%2fs%3A:%25%23@host/15?prefix=%74g%3A&connect_timeout=250ms");

    assert_eq!(config.topology, Topology::Single(Address::tcp("host", 6379)));
    assert_eq!(config.login.username.as_deref(), Some("äda"));
    assert_eq!(password(&config.login), Some("p@s/s::%#"));
    assert_eq!(config.login.database, 15);
    assert_eq!(config.login.connect_timeout, Duration::from_millis(250));
    assert_eq!(config.prefix, b"tg:");
}

#[test]
fn sentinels_have_a_login_of_their_own() {
    let config = parse("redis+sentinel://ada:one@h/my%20master/2?sentinel_username=bob&sentinel_password=t%77o&client_name=web");

    let Topology::Sentinel { sentinels, name, login } = &config.topology else { panic!("{config:?}") };
    assert_eq!(sentinels, &[Address::tcp("h", 26379)]);
    assert_eq!(name, "my master");
    assert_eq!((login.username.as_deref(), password(login), login.database), (Some("bob"), Some("two"), 0));
    assert_eq!(login.client_name, "web");
    assert_eq!((config.login.username.as_deref(), password(&config.login), config.login.database), (Some("ada"), Some("one"), 2));

    let Topology::Sentinel { login, .. } = &parse("redis+sentinel://ada:one@h/m").topology else { panic!("no sentinel") };
    assert_eq!((login.username.as_deref(), password(login)), (None, None), "passwords are not told to others");
}

#[test]
fn sockets_are_paths() {
    let config = parse("unix:///run/my%20redis.sock?db=3");

    assert_eq!(config.topology, Topology::Single(Address::Unix(PathBuf::from("/run/my redis.sock"))));
    assert_eq!(config.login.database, 3);
}

/// The mistake, its answer, and what every answer keeps to: it says what to write instead, and shows no password.
fn assert_refused(url: &str, is_expected: impl Fn(&UrlError) -> bool) {
    let error = refused(url);
    assert!(is_expected(&error), "{url:?}: {error:?}");
    let text = format!("{error} {error:?}");
    assert!(!text.contains("SEC"), "{url}: {text}");
    assert!(error.to_string().contains("; ") || text.contains("only belongs to"), "{url}: what to write instead: {text}");
    assert!(text.len() < 1_000, "{text}");
}

#[test]
fn addresses_that_are_none_are_refused() {
    use UrlError as E;

    let long = format!("redis://{}", "a".repeat(URL_BYTES_MAX));
    let cases = [
        ("", E::Empty),
        (&long, E::TooLong { bytes: URL_BYTES_MAX + 8 }),
        (" redis://host", E::Blank),
        ("redis://ho st", E::Blank),
        ("redis://host\n", E::Blank),
        ("redis://host\0", E::Blank),
        ("host:6379", E::NoScheme),
        ("redis:/host", E::NoScheme),
        ("http://host", E::UnknownScheme { scheme: "http".into() }),
        ("redis+sentinels://host", E::UnknownScheme { scheme: "redis+sentinels".into() }),
        ("unix+cluster:///a", E::UnknownScheme { scheme: "unix+cluster".into() }),
        ("user:SECRET@host://x", E::UnknownScheme { scheme: String::new() }),
        ("://host", E::UnknownScheme { scheme: String::new() }),
        ("redis://", E::MissingHost),
        ("redis:///0", E::MissingHost),
        ("redis://:6379", E::MissingHost),
        ("redis://ada:SECRET@", E::MissingHost),
        ("redis+cluster://h1,,h2", E::MissingHost),
        ("redis://ho%20st", E::Host),
        ("redis://ho!st", E::Host),
        ("redis://::1", E::Host),
        ("redis://::1:6379", E::Host),
        ("redis://[::1", E::Host),
        ("redis://[::1]6379", E::Host),
        ("redis://[host]", E::Host),
        ("redis://host:", E::Port),
        ("redis://host:0", E::Port),
        ("redis://host:65536", E::Port),
        ("redis://host:+1", E::Port),
        ("redis://ada:SECRET", E::Port),
        ("redis://h1,h2", E::SeveralHosts),
        ("redis://host/0/1", E::Path),
        ("redis+sentinel://h/m/0/1", E::Path),
        ("redis+sentinel://host", E::MissingName),
        ("redis+sentinel://host/", E::MissingName),
        ("redis+sentinel://host//1", E::MissingName),
        ("unix://run/redis.sock", E::SocketPath),
        ("unix:///", E::SocketPath),
        ("unix://", E::SocketPath),
    ];
    for (url, expected) in cases {
        assert_refused(url, |error| *error == expected);
    }
}

#[test]
fn characters_that_mean_something_else_are_to_be_encoded() {
    use UrlError as E;

    let cases = [
        ("redis://ada:SEC%zzRET@host", E::PercentEncoding),
        ("redis://ada:SECRET%@host", E::PercentEncoding),
        ("redis://ada:SECRET%4@host", E::PercentEncoding),
        ("redis://ada:SECRET%ff@host", E::PercentEncoding),
        ("redis://ada:SEC@RET@host", E::Unescaped { character: '@' }),
        ("redis://ada:SEC/RET@host", E::Unescaped { character: '/' }),
        ("redis://ada:SEC?RET@host", E::Unescaped { character: '?' }),
        ("redis://ada:SEC#RET@host", E::Unescaped { character: '#' }),
        ("redis://ada:SEC/R@ET@host", E::Unescaped { character: '/' }),
    ];
    for (url, expected) in cases {
        assert_refused(url, |error| *error == expected);
    }
}

#[test]
fn databases_and_parameters_that_make_no_sense_are_refused() {
    use UrlError as E;

    let cases = [
        ("redis://host/x", E::Database),
        ("redis://host/-1", E::Database),
        ("redis://host/2147483648", E::Database),
        ("redis://host?db=one", E::Database),
        ("redis://host/1?db=1", E::DatabaseTwice),
        ("redis+cluster://host/1", E::DatabaseOnCluster),
        ("redis+cluster://host?db=1", E::DatabaseOnCluster),
        ("redis://host?bd=1", E::UnknownParameter { name: "bd".into() }),
        ("redis://host?DB=1", E::UnknownParameter { name: String::new() }),
        ("redis://host?db", E::ParameterWithoutValue { name: "db" }),
        ("redis://host?prefix=", E::ParameterWithoutValue { name: "prefix" }),
        ("redis://host?db=1&db=1", E::ParameterTwice { name: "db" }),
        ("rediss://h?tls_insecure=true&tls_cert=/a", E::HalfCertificate { present: "tls_cert", missing: "tls_key" }),
        ("rediss://h?tls_insecure=true&tls_key=/a", E::HalfCertificate { present: "tls_key", missing: "tls_cert" }),
        ("rediss://h?tls_ca=/a&tls_insecure=true", E::InsecureAuthorities),
    ];
    for (url, expected) in cases {
        assert_refused(url, |error| *error == expected);
    }
}

#[test]
fn parameters_have_values_that_are_checked() {
    let cases = [
        ("redis://host?prefix=%7Ba%7D", "prefix"),
        ("redis://host?prefix=a%20b", "prefix"),
        ("redis://host?prefix=%C3%A4", "prefix"),
        ("redis://host?prefix=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "prefix"),
        ("redis://host?client_name=a%0Ab", "client_name"),
        ("redis://host?connect_timeout=1", "connect_timeout"),
        ("redis://host?connect_timeout=0s", "connect_timeout"),
        ("redis://host?connect_timeout=61s", "connect_timeout"),
        ("redis://host?connect_timeout=-1s", "connect_timeout"),
        ("redis://host?connect_timeout=s", "connect_timeout"),
        ("redis://host?connect_timeout=99999999999999999999s", "connect_timeout"),
        ("rediss://host?tls_insecure=yes", "tls_insecure"),
    ];
    for (url, expected) in cases {
        assert_refused(url, |error| matches!(error, UrlError::ParameterValue { name, .. } if *name == expected));
    }
}

#[test]
fn parameters_are_refused_where_they_mean_nothing() {
    let cases = [
        ("redis://host?tls_insecure=true", "tls_insecure"),
        ("unix:///a?tls_ca=/a", "tls_ca"),
        ("redis://h?sentinel_username=a", "sentinel_username"),
        ("redis+cluster://h?sentinel_password=SECRET", "sentinel_password"),
    ];
    for (url, expected) in cases {
        assert_refused(url, |error| matches!(error, UrlError::ParameterElsewhere { name, .. } if *name == expected));
    }
}

#[test]
fn errors_of_unknown_parameters_name_the_known_ones() {
    assert_eq!(
        refused("redis://host?timeout=1s").to_string(),
        "the address of the store has the unknown parameter \"timeout\"; known are db, prefix, connect_timeout, client_name, tls_ca, tls_cert, \
         tls_key, tls_insecure, sentinel_username, sentinel_password"
    );
    assert_eq!(
        refused("redis://ada:sec/ret@host").to_string(),
        "the address of the store has a '/' where it means something else; in a user or a password write it as %2F"
    );
}

#[test]
fn neither_debug_nor_display_shows_a_password() {
    for url in [
        "redis://ada:hunter2@host",
        "unix://:hunter2@/run/redis.sock",
        "redis+sentinel://ada:hunter2@h/m?sentinel_username=bob&sentinel_password=hunter2",
        "rediss+cluster://ada:hunter2@h?tls_insecure=true",
    ] {
        let config = parse(url);
        let shown = format!("{config} {config:?} {:?} {:?}", config.login, config.topology);
        assert!(shown.contains("***") && !shown.contains("hunter"), "{shown}");
    }
}

#[test]
fn files_of_certificates_that_cannot_be_used_are_named() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let folder = env!("CARGO_MANIFEST_DIR");
    let cases = [
        ("rediss://h?tls_ca=/no/such/file".to_owned(), "tls_ca", "cannot be read"),
        (format!("rediss://h?tls_ca={folder}"), "tls_ca", "is no file"),
        ("rediss://h?tls_ca=/dev/zero".to_owned(), "tls_ca", "is no file"),
        (format!("rediss://h?tls_ca={manifest}"), "tls_ca", "has no certificate"),
        (format!("rediss://h?tls_insecure=true&tls_cert={manifest}&tls_key={manifest}"), "tls_cert", "has no certificate"),
    ];
    for (url, parameter, expected) in cases {
        let error = refused(&url);
        assert!(
            matches!(&error, UrlError::File { name, why, .. } if *name == parameter && why.contains(expected)),
            "{url}: {error}"
        );
    }
}

proptest! {
    #[test]
    fn nothing_panics_and_errors_are_short(text in "(redis|rediss|unix|valkey\\+cluster|redis\\+sentinel)?(://)?[ -~]{0,60}") {
        if text.contains("tls_") || text.starts_with("rediss") {
            return Ok(());
        }
        match RedisConfig::parse(&text) {
            Ok(config) => prop_assert_eq!(parse(&config.to_string()).to_string(), config.to_string()),
            Err(error) => prop_assert!(error.to_string().len() < 600),
        }
    }

    #[test]
    fn a_password_in_the_wrong_place_is_not_shown(before in "[ -~]{0,12}", between in "[@:/?#%&=,\\[\\]]{1,3}", after in "[ -~]{0,12}") {
        let text = format!("redis://{before}HUNTER2{between}{after}");
        if let Err(error) = RedisConfig::parse(&text) {
            let shown = format!("{error} {error:?}");
            prop_assert!(!shown.contains("HUNTER2"), "{}: {}", text, shown);
        }
    }
}
