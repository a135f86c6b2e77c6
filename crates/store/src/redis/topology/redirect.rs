//! What an error reply means for the call that got it: go elsewhere, try again, or give up.

use super::endpoint::Endpoint;
use super::slots::Slot;

/// What an error reply means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The server does not know the script by its hash. It did not run.
    NoScript,
    /// Another server owns the slot now. Nothing ran.
    Moved(Slot, Endpoint),
    /// The slot is on its way to another server, and these keys are there already. Nothing ran.
    Ask(Endpoint),
    /// The slot is on its way to another server, and some of the keys are here and some there. Nothing ran.
    TryAgain,
    /// The server was made a replica. Nothing was written.
    ReadOnly,
    /// A redirection that cannot be read.
    Nonsense,
    /// Nothing that another server or another attempt would mend.
    Final,
}

impl Meaning {
    /// Reads an error reply, without its leading `-`.
    pub(super) fn of(error: &str) -> Self {
        let (code, rest) = error.split_once(' ').unwrap_or((error, ""));
        match code {
            "NOSCRIPT" => Self::NoScript,
            "MOVED" => target(rest).map_or(Self::Nonsense, |(slot, endpoint)| Self::Moved(slot, endpoint)),
            "ASK" => target(rest).map_or(Self::Nonsense, |(_, endpoint)| Self::Ask(endpoint)),
            "TRYAGAIN" => Self::TryAgain,
            "READONLY" => Self::ReadOnly,
            // Redis 6.2 wraps what a command inside the script answered; the first write of a script on a replica is such a command.
            "ERR" if is_wrapped(rest, "READONLY") => Self::ReadOnly,
            _ => Self::Final,
        }
    }
}

fn is_wrapped(rest: &str, code: &str) -> bool {
    rest.starts_with("Error running script") && rest.split([' ', '-']).any(|word| word == code)
}

/// `3999 127.0.0.1:6381`, `3999 :6381`, `3999 ::1:6381`.
fn target(text: &str) -> Option<(Slot, Endpoint)> {
    let (slot, endpoint) = text.split_once(' ')?;
    let slot = Slot::new(slot.parse().ok()?)?;
    let (host, port) = endpoint.trim_end().rsplit_once(':')?;
    let port = port.parse().ok().filter(|&port| port > 0)?;
    Some((slot, Endpoint::new(host, port)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slot(number: u16) -> Slot {
        Slot::new(number).unwrap()
    }

    #[test]
    fn redirections_say_where_to_go() {
        for (text, meaning) in [
            ("MOVED 3999 127.0.0.1:6381", Meaning::Moved(slot(3999), Endpoint::new("127.0.0.1", 6381))),
            ("MOVED 0 ::1:6381", Meaning::Moved(slot(0), Endpoint::new("::1", 6381))),
            ("MOVED 16383 :6381", Meaning::Moved(slot(16_383), Endpoint { host: None, port: 6381 })),
            ("MOVED 1 ?:6381", Meaning::Moved(slot(1), Endpoint { host: None, port: 6381 })),
            ("ASK 3999 db.example:7000", Meaning::Ask(Endpoint::new("db.example", 7000))),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Meaning::TryAgain),
            ("NOSCRIPT No matching script. Please use EVAL.", Meaning::NoScript),
        ] {
            assert_eq!(Meaning::of(text), meaning, "{text}");
        }
    }

    #[test]
    fn a_redirection_to_nowhere_is_nonsense() {
        for text in ["MOVED", "MOVED ", "MOVED 1", "MOVED 16384 a:1", "MOVED -1 a:1", "MOVED 1 a", "MOVED 1 a:0", "ASK 1 a:65536"]
        {
            assert_eq!(Meaning::of(text), Meaning::Nonsense, "{text}");
        }
    }

    #[test]
    fn a_replica_is_known_by_either_form_of_its_error() {
        for text in [
            "READONLY You can't write against a read only replica.",
            "ERR Error running script (call to f_8a): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.",
        ] {
            assert_eq!(Meaning::of(text), Meaning::ReadOnly, "{text}");
        }
        for text in ["ERR Error compiling script", "OOM command not allowed when used memory > 'maxmemory'.", "READONLYISH", ""] {
            assert_eq!(Meaning::of(text), Meaning::Final, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_error_text_panics(text in "(MOVED|ASK|ERR|READONLY|[A-Z]{0,8})[ :?0-9a-z\\-]{0,24}") {
            let _ = Meaning::of(&text);
        }
    }
}
