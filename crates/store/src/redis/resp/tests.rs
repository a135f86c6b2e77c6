//! Any split of the bytes gives the same values, and garbage gives an error.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// What a server sends for a value.
fn encode(value: &Value, into: &mut Vec<u8>) {
    match value {
        Value::Nil => into.extend_from_slice(b"$-1\r\n"),
        Value::Int(number) => into.extend_from_slice(format!(":{number}\r\n").as_bytes()),
        Value::Bulk(bytes) => {
            into.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
            into.extend_from_slice(bytes);
            into.extend_from_slice(b"\r\n");
        }
        Value::Status(text) => into.extend_from_slice(format!("+{text}\r\n").as_bytes()),
        Value::Error(text) => into.extend_from_slice(format!("-{text}\r\n").as_bytes()),
        Value::Array(items) => {
            into.extend_from_slice(format!("*{}\r\n", items.len()).as_bytes());
            for item in items {
                encode(item, into);
            }
        }
    }
}

fn encoded(values: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in values {
        encode(value, &mut bytes);
    }
    bytes
}

/// All values, and the error that ends them if one does.
fn parse<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Value>, Option<ProtocolError>) {
    let mut parser = Parser::default();
    let mut values = Vec::new();
    for piece in pieces {
        parser.feed(piece);
        loop {
            match parser.next_value() {
                Ok(Some(value)) => values.push(value),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(parser.next_value(), Err(error), "an error stays");
                    return (values, Some(error));
                }
            }
        }
    }
    (values, None)
}

fn error_of(bytes: &[u8]) -> Option<ProtocolError> {
    parse([bytes]).1
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Nil),
        any::<i64>().prop_map(Value::Int),
        vec(any::<u8>(), 0..40).prop_map(|bytes| Value::Bulk(bytes.into())),
        "[^\r\n]{0,20}".prop_map(|text| Value::Status(text.into())),
        "[^\r\n]{0,20}".prop_map(|text| Value::Error(text.into())),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| vec(inner, 0..8).prop_map(|items| Value::Array(items.into())))
}

/// Bytes that are almost a reply: pieces of the protocol in any order.
fn almost() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"\r\n".to_vec()),
        Just(b"\n".to_vec()),
        "[*$:+-]".prop_map(String::into_bytes),
        "-?[0-9]{1,3}\r\n".prop_map(String::into_bytes),
        "[*$:]-?[0-9]{1,2}\r\n".prop_map(String::into_bytes),
        vec(any::<u8>(), 0..4),
    ];
    vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// The bytes cut at any places.
fn pieces(bytes: &[u8], cuts: &[prop::sample::Index]) -> Vec<Vec<u8>> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| bytes[pair[0]..pair[1]].to_vec()).collect()
}

proptest! {
    #[test]
    fn any_split_gives_the_values_that_were_sent(values in vec(any_value(), 0..6), cuts in vec(any::<prop::sample::Index>(), 0..12)) {
        let bytes = encoded(&values);

        prop_assert_eq!(parse(bytes.chunks(1)), (values.clone(), None));
        prop_assert_eq!(parse(pieces(&bytes, &cuts).iter().map(Vec::as_slice)), (values, None));
    }

    #[test]
    fn any_split_of_garbage_gives_the_same(bytes in prop_oneof![almost(), vec(any::<u8>(), 0..64)], cuts in vec(any::<prop::sample::Index>(), 0..12)) {
        let whole = parse([&bytes[..]]);

        prop_assert_eq!(parse(bytes.chunks(1)), whole.clone());
        prop_assert_eq!(parse(pieces(&bytes, &cuts).iter().map(Vec::as_slice)), whole);
    }

    #[test]
    fn a_command_is_an_array_of_its_arguments(arguments in vec(vec(any::<u8>(), 0..40), 1..8), number in any::<i64>(), count in any::<u64>()) {
        let mut builder = Command::build(arguments.len() + 2, 0);
        for argument in &arguments {
            builder.parts(&[&argument[..argument.len() / 2], &argument[argument.len() / 2..]]);
        }
        builder.int(number).uint(count);
        let command = builder.finish();

        let mut words = arguments;
        words.extend([number.to_string().into_bytes(), count.to_string().into_bytes()]);
        let expected = Value::Array(words.iter().map(|word| Value::Bulk(word.as_slice().into())).collect());
        prop_assert_eq!(parse([command.as_bytes()]), (vec![expected], None));
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        prop_assert_eq!(Command::new(&words), command);
    }
}

#[test]
fn both_kinds_of_nothing_are_nil() {
    assert_eq!(
        parse([&b"$-1\r\n*-1\r\n*0\r\n$0\r\n\r\n"[..]]).0,
        [Value::Nil, Value::Nil, Value::Array(Box::default()), Value::Bulk(Box::default()),]
    );
}

#[test]
fn the_smallest_and_the_largest_number_are_read_and_no_further_one() {
    assert_eq!(
        parse([&b":9223372036854775807\r\n:-9223372036854775808\r\n"[..]]).0,
        [Value::Int(i64::MAX), Value::Int(i64::MIN)]
    );
    for text in
        [":9223372036854775808\r\n", ":-9223372036854775809\r\n", ":\r\n", ":-\r\n", ":+1\r\n", ":1 \r\n", ":0x1\r\n", ":1.0\r\n"]
    {
        assert_eq!(error_of(text.as_bytes()), Some(ProtocolError::Number), "{text:?}");
    }
}

#[test]
fn what_begins_no_reply_is_refused_at_its_first_byte() {
    for text in ["H", "ERROR\r\n", "\r\n", "_\r\n", "%1\r\n", "\u{15}", "*1\r\n#t\r\n"] {
        assert!(matches!(error_of(text.as_bytes()), Some(ProtocolError::Type(_))), "{text:?}");
    }
}

#[test]
fn lines_and_strings_end_where_they_should() {
    for text in ["+OK\n", ":1\n", "$2\r\nabc\r\n", "$2\r\nab\n\n\n", "+\n", "*1\n"] {
        assert_eq!(error_of(text.as_bytes()), Some(ProtocolError::End), "{text:?}");
    }
}

#[test]
fn lengths_have_limits_that_are_checked_before_the_bytes_come() {
    let cases = [
        (format!("${}\r\n", BULK_BYTES_MAX + 1), ProtocolError::Length),
        (format!("*{}\r\n", ARRAY_LENGTH_MAX + 1), ProtocolError::Length),
        ("$9223372036854775807\r\n".to_owned(), ProtocolError::Length),
        ("$-2\r\n".to_owned(), ProtocolError::Number),
        ("*-2\r\n".to_owned(), ProtocolError::Number),
        ("*1\r\n".repeat(DEPTH_MAX + 1), ProtocolError::Depth),
        (format!("+{}", "a".repeat(LINE_BYTES_MAX)), ProtocolError::Length),
    ];
    for (text, expected) in cases {
        assert_eq!(error_of(text.as_bytes()), Some(expected), "{:?}", &text[..text.len().min(40)]);
    }
}

#[test]
fn whatever_is_at_the_limits_is_read() {
    let bulk = Value::Bulk(vec![b'x'; BULK_BYTES_MAX].into());
    let array = Value::Array(vec![Value::Int(7); ARRAY_LENGTH_MAX].into());
    let line = Value::Status("a".repeat(LINE_BYTES_MAX - 3).into());
    let deep = (0..DEPTH_MAX).fold(Value::Nil, |value, _| Value::Array([value].into()));

    let values = vec![bulk, array, line, deep];
    let bytes = encoded(&values);
    assert_eq!(parse([&bytes[..]]), (values.clone(), None));
    assert_eq!(parse(bytes.chunks(1_000)), (values, None));
}

#[test]
fn a_reply_as_a_whole_has_a_limit() {
    let strings = vec![Value::Bulk(vec![b'x'; BULK_BYTES_MAX / 2].into()); 9];

    assert_eq!(error_of(&encoded(&[Value::Array(strings.into())])), Some(ProtocolError::Length));
}

#[test]
fn a_long_reply_leaves_no_large_buffer_behind() {
    let mut parser = Parser::default();
    parser.feed(&encoded(&[Value::Bulk(vec![b'x'; BULK_BYTES_MAX].into())]));
    parser.next_value().unwrap().unwrap();

    assert!(parser.space().len() < 1 << 17);
}

#[test]
fn errors_mean_what_their_first_word_says() {
    let cases = [
        ("LOADING Redis is loading the dataset in memory", "store_refused"),
        ("READONLY You can't write against a read only replica.", "store_refused"),
        ("CLUSTERDOWN The cluster is down", "store_refused"),
        ("MASTERDOWN Link with MASTER is down", "store_refused"),
        ("OOM command not allowed when used memory > 'maxmemory'.", "store_refused"),
        ("BUSY Redis is busy running a script.", "store_refused"),
        ("MISCONF Redis is configured to save RDB snapshots", "store_refused"),
        ("NOREPLICAS Not enough good replicas to write.", "store_refused"),
        ("ERR max number of clients reached", "store_refused"),
        ("NOAUTH Authentication required.", "store_access"),
        ("WRONGPASS invalid username-password pair or user is disabled.", "store_access"),
        ("NOPERM this user has no permissions to run the 'info' command", "store_access"),
        ("DENIED Redis is running in protected mode", "store_access"),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", "store_foreign_value"),
        ("ERR unknown command 'x'", "store_protocol"),
        ("", "store_protocol"),
    ];
    for (text, kind) in cases {
        assert_eq!(Value::Error(text.into()).store_error().unwrap().kind(), kind, "{text}");
    }
    assert_eq!(Value::Nil.store_error(), None);
}

#[test]
fn a_command_does_not_show_what_is_in_it() {
    assert_eq!(format!("{:?}", Command::new(&[b"AUTH", b"secret"])), "Command(26 bytes)");
}
