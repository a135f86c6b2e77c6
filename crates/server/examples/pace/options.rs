//! What is asked for: the words of the command.

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// What `--help` prints.
pub(crate) const HELP: &str = "\
Makes calls at a steady pace and prints their latency as JSON.

    pace http1|http2 ADDRESS PATH --rate CALLS --seconds SECONDS --connections COUNT [OPTION ...]
    pace stalls

    ADDRESS             of the server, such as 127.0.0.1:8081
    PATH                such as /api/v1/rate-limit/check
    --rate CALLS        a second, evenly spaced; connections take turns
    --seconds SECONDS   for how long, with the warm-up
    --connections COUNT
    --warm-up SECONDS   calls that are due before that are made and not counted (0.5)
    --bodies FILE       bodies that take turns, each after its length in four bytes, most significant first; calls are then POST
    --header NAME:VALUE repeatable; with `content-type: application/grpc` an answer has to have `grpc-status: 0`
    --serve ADDRESS     be the server behind a proxy too: answer GETs over HTTP/1.1 there, in the same thread
    --sleep             sleep until a call is due or answered; without it the generator spins, and needs a core of its own

Prints calls, errors and unanswered (counted calls), per_second, reopened (connections), and percentiles in microseconds: cuts_us of
latency from the moment at which a call was due until its answer was read whole, and lag_us of how late the generator itself took the
calls up. 100 is the maximum. each_us has for each counted call when it was due, after begun_s of the monotonic clock, and its latency.

`pace stalls` makes no calls. Until its input ends it watches the core that it runs on, and then prints for how many seconds it did, how
many of them the core stood still, and from when until when by the monotonic clock.";

/// How calls travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.1, one call at a time on a connection.
    Http1,
    /// HTTP/2 with prior knowledge, many calls at a time on a connection.
    Http2,
}

/// The words of the command.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) protocol: Protocol,
    pub(crate) address: SocketAddr,
    path: String,
    pub(crate) rate: f64,
    pub(crate) seconds: Duration,
    pub(crate) warm_up: Duration,
    pub(crate) connections: usize,
    bodies: Option<PathBuf>,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    pub(crate) sleeps: bool,
    /// Where calls are answered that a proxy passes on.
    pub(crate) serves: Option<SocketAddr>,
    /// How long after the last call answers are waited for.
    pub(crate) patience: Duration,
}

/// What is sent in turn.
#[derive(Debug)]
pub(crate) struct Requests {
    pub(crate) authority: String,
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// Empty for GET.
    pub(crate) bodies: Vec<Vec<u8>>,
}

impl Options {
    /// Reads the words after the name of the program.
    pub(crate) fn parse(words: &[String]) -> Result<Self, Box<dyn Error>> {
        let [protocol, address, path, rest @ ..] = words else { return Err(HELP.into()) };
        let mut options = Self {
            protocol: match protocol.as_str() {
                "http1" => Protocol::Http1,
                "http2" => Protocol::Http2,
                other => return Err(format!("{other} is neither http1 nor http2").into()),
            },
            address: address.parse()?,
            path: path.clone(),
            rate: 0.0,
            seconds: Duration::ZERO,
            warm_up: Duration::from_millis(500),
            connections: 0,
            bodies: None,
            headers: Vec::new(),
            sleeps: false,
            serves: None,
            patience: Duration::from_secs(5),
        };
        let mut words = rest.iter();
        while let Some(name) = words.next() {
            if name == "--sleep" {
                options.sleeps = true;
            } else {
                let value = words.next().ok_or_else(|| format!("{name} has no value"))?;
                options.set(name, value)?;
            }
        }
        if options.rate <= 0.0 || options.connections == 0 || options.seconds <= options.warm_up {
            return Err("--rate, --connections and --seconds are needed, and more seconds than those of the warm-up".into());
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Box<dyn Error>> {
        match name {
            "--rate" => self.rate = number(name, value)?,
            "--seconds" => self.seconds = Duration::try_from_secs_f64(number(name, value)?)?,
            "--warm-up" => self.warm_up = Duration::try_from_secs_f64(number(name, value)?)?,
            "--connections" => self.connections = number(name, value)?,
            "--bodies" => self.bodies = Some(value.into()),
            "--serve" => self.serves = Some(value.parse()?),
            "--header" => {
                let (field, content) = value.split_once(':').ok_or_else(|| format!("--header {value} has no colon"))?;
                self.headers.push((field.trim().to_lowercase(), content.trim().to_owned()));
            }
            _ => return Err(format!("{name} is no option; --help lists them").into()),
        }
        Ok(())
    }

    /// Reads what is to be sent.
    pub(crate) fn requests(&self) -> Result<Requests, Box<dyn Error>> {
        let bodies = match &self.bodies {
            Some(file) => split(&std::fs::read(file)?)?,
            None => Vec::new(),
        };
        Ok(Requests { authority: self.address.to_string(), path: self.path.clone(), headers: self.headers.clone(), bodies })
    }
}

impl Requests {
    pub(crate) fn method(&self) -> &'static str {
        if self.bodies.is_empty() { "GET" } else { "POST" }
    }

    /// Whether a call is only answered well if it says so in a trailer.
    pub(crate) fn is_grpc(&self) -> bool {
        self.headers.iter().any(|(name, value)| name == "content-type" && value.starts_with("application/grpc"))
    }
}

fn number<T: FromStr<Err: std::fmt::Display>>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|error| format!("{name} {value}: {error}"))
}

/// Takes bodies apart that stand behind their lengths.
fn split(mut bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut bodies = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (body, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize).ok_or("the last body is cut off")?;
        bodies.push(body.to_vec());
        bytes = rest;
    }
    if bytes.is_empty() { Ok(bodies) } else { Err("the last length is cut off".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, Box<dyn Error>> {
        Options::parse(&text.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn words_become_options() {
        let options =
            parse("http2 127.0.0.1:1 /path --rate 2.5 --seconds 3 --connections 8 --header Te:trailers --sleep").unwrap();
        assert_eq!((options.protocol, options.rate, options.connections, options.sleeps), (Protocol::Http2, 2.5, 8, true));
        assert_eq!(options.seconds, Duration::from_secs(3));
        assert_eq!(options.headers, [("te".to_owned(), "trailers".to_owned())]);
    }

    #[test]
    fn a_wrong_word_is_named() {
        assert!(parse("http3 127.0.0.1:1 /").unwrap_err().to_string().contains("http3"));
        assert!(parse("http1 127.0.0.1:1 / --rate x").unwrap_err().to_string().contains("--rate x"));
        assert!(parse("http1 127.0.0.1:1 / --fast 1").unwrap_err().to_string().contains("--fast"));
        assert!(parse("http1 127.0.0.1:1 / --rate 1 --connections 1 --seconds 0.5").is_err());
    }

    #[test]
    fn bodies_stand_behind_their_lengths() {
        assert_eq!(split(b"\0\0\0\x02ab\0\0\0\0\0\0\0\x01c").unwrap(), [b"ab".to_vec(), Vec::new(), b"c".to_vec()]);
        assert!(split(b"\0\0\0\x03ab").is_err());
        assert!(split(b"\0\0").is_err());
    }
}
