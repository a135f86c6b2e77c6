use std::pin::pin;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;

use super::*;

/// What is read of these bytes, and how many are left.
fn read_all(mut bytes: &[u8]) -> (Result<From, NoHeader>, usize) {
    let found = {
        let mut reading = pin!(read(&mut bytes));
        let Poll::Ready(found) = reading.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("bytes in memory are never waited for")
        };
        found
    };
    (found, bytes.len())
}

fn version_2(command: u8, family: u8, added: &[u8]) -> Vec<u8> {
    let length = u16::try_from(added.len()).unwrap().to_be_bytes();
    [&SIGNATURE[..], &[command, family], &length, added].concat()
}

#[test]
fn lines_of_version_1_are_read_to_their_end() {
    let longest = "PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n";
    for (line, from) in [
        ("PROXY TCP4 192.0.2.7 198.51.100.1 56324 443\r\n", Some("192.0.2.7")),
        ("PROXY TCP6 2001:db8::7 2001:db8::1 1 65535\r\n", Some("2001:db8::7")),
        ("PROXY UNKNOWN\r\n", None),
        (longest, None),
    ] {
        let (found, left) = read_all(format!("{line}GET / HTTP/1.1\r\n\r\n").as_bytes());
        assert_eq!(found, Ok(from.map(|from| from.parse().unwrap())), "{line}");
        assert_eq!(left, "GET / HTTP/1.1\r\n\r\n".len(), "{line}");
    }
}

#[test]
fn headers_of_version_2_are_read_to_their_end() {
    let four = [192, 0, 2, 7, 198, 51, 100, 1, 0, 80, 1, 187];
    let with_more = [&four[..], &[0x04, 0, 3, 1, 2, 3]].concat();
    let six: Vec<u8> = (0..36).collect();
    for (header, from) in [
        (version_2(0x21, 0x11, &four), Some("192.0.2.7")),
        (version_2(0x21, 0x11, &with_more), Some("192.0.2.7")),
        (version_2(0x21, 0x21, &six), Some("1:203:405:607:809:a0b:c0d:e0f")),
        (version_2(0x20, 0x00, &[]), None),
        (version_2(0x20, 0x11, &four), None),
        (version_2(0x21, 0x00, &[]), None),
        (version_2(0x21, 0x31, &[0; 216]), None),
    ] {
        let (found, left) = read_all(&[&header[..], b"rest"].concat());
        assert_eq!((found, left), (Ok(from.map(|from| from.parse().unwrap())), 4), "{header:?}");
    }
}

#[test]
fn anything_else_is_refused() {
    let four = [192, 0, 2, 7, 198, 51, 100, 1, 0, 80, 1, 187];
    let texts = [
        "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 56324\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 56324 443 1\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 56324 65536\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 +1 443\r\n",
        "PROXY TCP4 192.0.2.007 198.51.100.1 1 443\r\n",
        "PROXY TCP4 2001:db8::7 198.51.100.1 1 443\r\n",
        "PROXY TCP6 192.0.2.7 198.51.100.1 1 443\r\n",
        "PROXY  TCP4 192.0.2.7 198.51.100.1 1 443\r\n",
        "PROXY TCP5 192.0.2.7 198.51.100.1 1 443\r\n",
        "proxy TCP4 192.0.2.7 198.51.100.1 1 443\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 1 443\n",
        "PROXY UNKNOWN",
        "P",
    ];
    for text in texts {
        assert_eq!(read_all(text.as_bytes()).0, Err(NoHeader::Garbage), "{text:?}");
    }
    assert_eq!(read_all(b"").0, Err(NoHeader::Nothing));
    let endless = ["PROXY UNKNOWN ", &"x".repeat(200), "\r\n"].concat();
    assert_eq!(read_all(endless.as_bytes()).0, Err(NoHeader::Garbage));
    for header in [
        version_2(0x11, 0x11, &four),
        version_2(0x22, 0x11, &four),
        version_2(0x21, 0x41, &four),
        version_2(0x21, 0x11, &four[..11]),
        version_2(0x21, 0x21, &four),
        version_2(0x21, 0x11, &[0; ADDED_MAX + 1]),
        version_2(0x21, 0x11, &four)[..20].to_vec(),
    ] {
        assert_eq!(read_all(&header).0, Err(NoHeader::Garbage), "{header:?}");
    }
}

proptest! {
    #[test]
    fn whatever_comes_is_a_header_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), start in 0..3_u8) {
        let bytes = match start {
            0 => bytes,
            1 => [b"PROXY TCP4 ", &bytes[..]].concat(),
            _ => [&SIGNATURE[..], &bytes].concat(),
        };
        let (found, left) = read_all(&bytes);
        prop_assert!(found.is_err() || left < bytes.len());
    }

    #[test]
    fn what_is_written_is_read(source: IpAddr, port: u16, rest in prop::collection::vec(any::<u8>(), 0..50)) {
        let (family, code) = if source.is_ipv4() { ("TCP4", 0x11) } else { ("TCP6", 0x21) };
        let octets = match source {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let line = format!("PROXY {family} {source} {source} {port} 443\r\n").into_bytes();
        let binary = version_2(0x21, code, &[&octets[..], &octets, &port.to_be_bytes(), &[1, 187]].concat());
        for header in [line, binary] {
            prop_assert_eq!(read_all(&[&header[..], &rest].concat()), (Ok(Some(source)), rest.len()));
        }
    }
}
