//! Header compression (RFC 7541), as much of it as tells a good answer from a bad one.
//!
//! Requests are written once: the first of a connection puts its fields into the server's table, and all others name them there by one byte each, which is
//! what clients do that keep a connection. Of answers only two fields matter, `:status` and `grpc-status`, and of those only whether they say that all is
//! well. An encoder may spell them with Huffman codes, but then in one way only, so nothing is decoded.

use std::collections::VecDeque;
use std::io;

/// Where the dynamic table begins.
const DYNAMIC: usize = 62;
/// The size of a table, for both sides, as long as nobody asks for another one.
pub(crate) const TABLE_BYTES: usize = 4096;
/// What an entry counts beside its name and value; no table has more entries than fit with empty ones.
const ENTRY_BYTES: usize = 32;
const HUFFMAN_GRPC_STATUS: &[u8] = &[0x9a, 0xca, 0xc8, 0xb2, 0x12, 0x34, 0xda, 0x8f];
const HUFFMAN_0: &[u8] = &[0x07];
/// `:status` stands with seven values in the static table, the first of them 200.
const STATUS: std::ops::RangeInclusive<usize> = 8..=14;

/// A field of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    /// `:status`, and whether it is 200.
    Status(bool),
    /// `grpc-status`, and whether it is 0.
    GrpcStatus(bool),
    /// Any other.
    Other,
}

/// What the server has put into the table of one connection, the newest first. Entries are never thrown out, except when no table could have as many: the
/// server knows which are left, and names no other.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    table: VecDeque<Field>,
}

/// Returns the fields of the first request of a connection, and those of all others.
///
/// # Panics
///
/// If they do not fit into the table.
pub(crate) fn encode(fields: &[(&str, &str)]) -> (Vec<u8>, Vec<u8>) {
    let bytes: usize = fields.iter().map(|(name, value)| name.len() + value.len() + ENTRY_BYTES).sum();
    assert!(bytes <= TABLE_BYTES, "{bytes} bytes of fields do not fit into the table of a connection");
    let mut first = Vec::new();
    for (name, value) in fields {
        first.push(0x40);
        for text in [name, value] {
            put_number(text.len(), 7, &mut first);
            first.extend_from_slice(text.as_bytes());
        }
    }
    let mut others = Vec::new();
    for number in (0..fields.len()).rev() {
        let from = others.len();
        put_number(DYNAMIC + number, 7, &mut others);
        others[from] |= 0x80;
    }
    (first, others)
}

impl Decoder {
    /// Reads a block, and tells each field.
    pub(crate) fn decode(&mut self, block: &[u8], mut tell: impl FnMut(Field)) -> io::Result<()> {
        let mut rest = block;
        while let Some(&kind) = rest.first() {
            if kind & 0x80 != 0 {
                tell(self.field(number(&mut rest, 7)?)?);
            } else if kind & 0xe0 == 0x20 {
                number(&mut rest, 5)?; // another size of the table, not above what is allowed
            } else {
                let is_kept = kind & 0x40 != 0;
                let field = self.literal(&mut rest, if is_kept { 6 } else { 4 })?;
                if is_kept {
                    self.table.push_front(field);
                    self.table.truncate(TABLE_BYTES / ENTRY_BYTES);
                }
                tell(field);
            }
        }
        Ok(())
    }

    fn literal(&self, rest: &mut &[u8], prefix: u32) -> io::Result<Field> {
        let name = match number(rest, prefix)? {
            0 => match string(rest)? {
                b"grpc-status" | HUFFMAN_GRPC_STATUS => Field::GrpcStatus(false),
                _ => Field::Other,
            },
            index => self.field(index)?,
        };
        let value = string(rest)?;
        Ok(match name {
            Field::Status(_) => Field::Status(value == b"200"),
            Field::GrpcStatus(_) => Field::GrpcStatus(value == b"0" || value == HUFFMAN_0),
            Field::Other => Field::Other,
        })
    }

    fn field(&self, index: usize) -> io::Result<Field> {
        match index.checked_sub(DYNAMIC) {
            Some(dynamic) => self.table.get(dynamic).copied().ok_or_else(|| io::Error::other("a field that is not in the table")),
            None if STATUS.contains(&index) => Ok(Field::Status(index == *STATUS.start())),
            None => Ok(Field::Other),
        }
    }
}

fn put_number(number: usize, prefix: u32, out: &mut Vec<u8>) {
    let most = (1 << prefix) - 1;
    if number < most {
        out.push(low(number));
        return;
    }
    out.push(low(most));
    let mut rest = number - most;
    while rest >= 0x80 {
        out.push(low(rest) | 0x80);
        rest >>= 7;
    }
    out.push(low(rest));
}

fn low(number: usize) -> u8 {
    number.to_le_bytes()[0]
}

fn number(rest: &mut &[u8], prefix: u32) -> io::Result<usize> {
    let most = (1 << prefix) - 1;
    let mut number = usize::from(take(rest, 1)?[0]) & most;
    if number < most {
        return Ok(number);
    }
    for shift in [0, 7, 14, 21] {
        let byte = usize::from(take(rest, 1)?[0]);
        number += (byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(io::Error::other("a number that is too long"))
}

fn string<'a>(rest: &mut &'a [u8]) -> io::Result<&'a [u8]> {
    let bytes = number(rest, 7)?;
    take(rest, bytes)
}

fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> io::Result<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(bytes).ok_or_else(|| io::Error::other("a block of fields that is cut off"))?;
    *rest = left;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(decoder: &mut Decoder, block: &[u8]) -> Vec<Field> {
        let mut fields = Vec::new();
        decoder.decode(block, |field| fields.push(field)).unwrap();
        fields
    }

    #[test]
    fn what_is_encoded_is_put_into_the_table_and_named_there() {
        let (first, others) = encode(&[(":status", "x"), ("grpc-status", "0"), ("grpc-status", "7")]);
        let mut decoder = Decoder::default();
        let expected = [Field::Other, Field::GrpcStatus(true), Field::GrpcStatus(false)];
        assert_eq!(decode(&mut decoder, &first), expected);
        assert_eq!(others, [0xc0, 0xbf, 0xbe]);
        assert_eq!(decode(&mut decoder, &others), expected);
    }

    #[test]
    fn a_long_value_has_a_long_length() {
        let value = "v".repeat(300);
        let (first, _) = encode(&[("n", &value), ("grpc-status", "0")]);
        assert_eq!(decode(&mut Decoder::default(), &first), [Field::Other, Field::GrpcStatus(true)]);
    }

    #[test]
    fn a_status_is_good_if_it_is_200() {
        // The first block of RFC 7541 C.6.1: `:status: 302` with Huffman codes, then three other fields, all of them kept.
        let block = b"\x48\x82\x64\x02\x58\x85\xae\xc3\x77\x1a\x4b\x61\x96\xd0\x7a\xbe\x94\x10\x54\xd4\x44\xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\
            \x82\xa6\x2d\x1b\xff\x6e\x91\x9d\x29\xad\x17\x18\x63\xc7\x8f\x0b\x97\xc8\xe9\xae\x82\xae\x43\xd3";
        let mut decoder = Decoder::default();
        assert_eq!(decode(&mut decoder, block), [Field::Status(false), Field::Other, Field::Other, Field::Other]);
        assert_eq!(decode(&mut decoder, b"\x88\xc1"), [Field::Status(true), Field::Status(false)]);
        assert_eq!(decode(&mut decoder, b"\x89\x08\x03200"), [Field::Status(false), Field::Status(true)]);
    }

    #[test]
    fn huffman_codes_are_recognised() {
        let block = [&[0x20, 0x00, 0x88][..], HUFFMAN_GRPC_STATUS, &[0x81, 0x07]].concat();
        assert_eq!(decode(&mut Decoder::default(), &block), [Field::GrpcStatus(true)]);
    }

    #[test]
    fn what_is_cut_off_or_unknown_is_an_error() {
        for block in [&b"\x40"[..], b"\x00\x05abc", b"\xbe", b"\xff\xff\xff\xff\xff\xff"] {
            assert!(Decoder::default().decode(block, |_| ()).is_err(), "{block:x?}");
        }
    }
}
