//! Calls at a steady pace, whatever becomes of those before, and how long each took from the moment at which it was due.
//!
//! ```console
//! $ cargo run --release --example pace -p tidegate-server -- --help
//! ```
//!
//! A generator that sends what is due every ten milliseconds measures how long its own bursts take. This one writes each call by itself when it is due, as
//! bytes that were made before the run, in one thread. What it cannot send in time it admits: `lag_us` is how
//! late its own turns were, and a run in which that is long says nothing about the server.
//! Prints one line of JSON, which `benchmarks/pace.py` reads.

#![allow(clippy::print_stdout, reason = "the line is the result")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the time")]

mod connection;
mod hpack;
mod http1;
mod http2;
mod options;
mod pacer;
mod record;
mod stalls;
mod upstream;

use std::error::Error;

use options::{Options, Protocol};
use pacer::Pacer;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        println!("{}", options::HELP);
        return Ok(());
    }
    if words == ["stalls"] {
        println!("{}", stalls::witnessed());
        return Ok(());
    }
    let options = Options::parse(&words)?;
    let requests = options.requests()?;
    let record = match options.protocol {
        Protocol::Http1 => Pacer::open(&options, || http1::Http1::new(&requests))?.run()?,
        Protocol::Http2 => Pacer::open(&options, || http2::Http2::new(&requests))?.run()?,
    };
    println!("{}", record.report());
    Ok(())
}
