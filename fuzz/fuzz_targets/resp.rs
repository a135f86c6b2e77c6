//! Any bytes from a server are values or an error, and the same in whatever pieces they come.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_store::redis::resp::{Parser, ProtocolError, Value};

fuzz_target!(|input: &[u8]| {
    let Some((&seed, bytes)) = input.split_first() else { return };
    let whole = parse([bytes]);
    // Pieces of all lengths up to 13, in an order that the seed chooses.
    let mut rest = bytes;
    let mut pieces = Vec::new();
    let mut step = usize::from(seed);
    while !rest.is_empty() {
        step = (step * 7 + 1) % 1_009;
        let (piece, behind) = rest.split_at(rest.len().min(1 + step % 13));
        pieces.push(piece);
        rest = behind;
    }
    assert_eq!(whole, parse(pieces));
});

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
                Err(error) => return (values, Some(error)),
            }
        }
    }
    (values, None)
}
