//! The PROXY protocol, versions 1 and 2: what a load balancer says about a connection before the first byte of its client.
//! <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>
//!
//! Who is expected to say it has to: whether a header is one is never guessed, because a client could send one too.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncRead, AsyncReadExt};

/// How version 2 begins.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// The longest line of version 1, with its end.
const LINE_MAX: usize = 107;

/// The most bytes behind the head of version 2 that are read: addresses, and what load balancers add. The protocol asks for 536 at least.
const ADDED_MAX: usize = 4_096;

/// The head of version 2.
const HEAD: usize = 16;

/// Why there is no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoHeader {
    /// The connection ended before its first byte, as those do that only look whether anybody listens.
    Nothing,
    /// Something else came, or not all of it.
    Garbage,
}

/// Where a connection came from; `None` is the load balancer itself, or somewhere that has no address.
pub type From = Option<IpAddr>;

/// Reads a header, and not a byte more.
///
/// # Errors
/// There is none, or the connection ended.
pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<From, NoHeader> {
    let mut head = [0; LINE_MAX];
    // Both versions have at least so many bytes.
    let begun = SIGNATURE.len();
    let first = stream.read(&mut head[..begun]).await.map_err(|_| NoHeader::Garbage)?;
    if first == 0 {
        return Err(NoHeader::Nothing);
    }
    stream.read_exact(&mut head[first..begun]).await.map_err(|_| NoHeader::Garbage)?;
    if head[..begun] == *SIGNATURE {
        stream.read_exact(&mut head[begun..HEAD]).await.map_err(|_| NoHeader::Garbage)?;
        let mut added = vec![0; added(&head[..HEAD])?];
        stream.read_exact(&mut added).await.map_err(|_| NoHeader::Garbage)?;
        return binary(&head[..HEAD], &added);
    }
    let mut length = begun;
    // Byte by byte, because what follows is for TLS or HTTP to read. It happens once for a connection.
    while !head[..length].ends_with(b"\r\n") {
        let byte = head.get_mut(length).ok_or(NoHeader::Garbage)?;
        *byte = stream.read_u8().await.map_err(|_| NoHeader::Garbage)?;
        length += 1;
        if !head.starts_with(b"PROXY ") {
            return Err(NoHeader::Garbage);
        }
    }
    line(&head[..length])
}

/// A line of version 1, with its end.
fn line(line: &[u8]) -> Result<From, NoHeader> {
    let text = line.strip_suffix(b"\r\n").and_then(|text| std::str::from_utf8(text).ok()).ok_or(NoHeader::Garbage)?;
    let mut words = text.split(' ');
    if words.next() != Some("PROXY") {
        return Err(NoHeader::Garbage);
    }
    let family = words.next();
    if family == Some("UNKNOWN") {
        return Ok(None);
    }
    let (source, target) = (words.next(), words.next());
    let (from_port, to_port) = (words.next(), words.next());
    let is_port = |text: Option<&str>| {
        text.is_some_and(|text| text.bytes().all(|digit| digit.is_ascii_digit()) && text.parse::<u16>().is_ok())
    };
    if !is_port(from_port) || !is_port(to_port) || words.next().is_some() {
        return Err(NoHeader::Garbage);
    }
    let address = |text: Option<&str>| -> Option<IpAddr> {
        match family? {
            "TCP4" => text?.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
            "TCP6" => text?.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
            _ => None,
        }
    };
    address(target).and(address(source)).map(Some).ok_or(NoHeader::Garbage)
}

/// How many bytes follow the head of version 2.
fn added(head: &[u8]) -> Result<usize, NoHeader> {
    let length = usize::from(u16::from_be_bytes([head[14], head[15]]));
    if length > ADDED_MAX { Err(NoHeader::Garbage) } else { Ok(length) }
}

/// A head of version 2 and what follows it.
fn binary(head: &[u8], added: &[u8]) -> Result<From, NoHeader> {
    match head[12] {
        // The load balancer asks for itself, such as whether anybody is here.
        0x20 => return Ok(None),
        0x21 => {}
        _ => return Err(NoHeader::Garbage),
    }
    match head[13] {
        // TCP over IPv4, over IPv6: the source, the target, their ports.
        0x11 => first::<4>(added, 12).map(|bytes| Some(Ipv4Addr::from(bytes).into())),
        0x21 => first::<16>(added, 36).map(|bytes| Some(Ipv6Addr::from(bytes).into())),
        // Anything else that the protocol knows: no address, datagrams, sockets in the file system.
        0x00 | 0x12 | 0x22 | 0x31 | 0x32 => Ok(None),
        _ => Err(NoHeader::Garbage),
    }
}

/// The first bytes, if there are as many as there must be.
fn first<const N: usize>(added: &[u8], least: usize) -> Result<[u8; N], NoHeader> {
    added.get(..least).and_then(|added| added.first_chunk()).copied().ok_or(NoHeader::Garbage)
}

#[cfg(test)]
mod tests;
