//! The files of unix sockets.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use tidegate_store::redis::io::forks;

use crate::metrics::Port;
use crate::server::error::StartError;

/// The file of a unix socket that listens; dropping it removes the file.
#[derive(Debug)]
pub(in crate::server) struct SocketFile {
    path: PathBuf,
    /// A forked child must not remove the file of its parent.
    forks: u64,
    /// Device and number: whether the file is still the one that was made here.
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody may have put another one in its place.
        if self.forks == forks() && identity(&self.path).is_ok_and(|identity| identity == self.identity) {
            // Nobody is left who could be told that it failed; the next start replaces it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Listens on a unix socket. One that is left over from a program that ended is replaced.
pub(super) fn bind(port: Port, path: &Path) -> Result<(UnixListener, SocketFile), StartError> {
    let failed = |why: io::Error| StartError::listen(port, path.display().to_string(), why);
    if path.symlink_metadata().is_ok_and(|found| !found.file_type().is_socket()) {
        return Err(StartError::NoSocket { port, path: path.to_owned() });
    }
    let listener = match UnixListener::bind(path) {
        Err(why) if why.kind() == io::ErrorKind::AddrInUse && is_left_over(path) => {
            std::fs::remove_file(path).map_err(failed)?;
            UnixListener::bind(path)
        }
        outcome => outcome,
    };
    let listener = listener.map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let identity = identity(path).map_err(failed)?;
    Ok((listener, SocketFile { path: path.to_owned(), forks: forks(), identity }))
}

/// Whether nobody listens on a socket.
fn is_left_over(path: &Path) -> bool {
    UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    path.symlink_metadata().map(|found| (found.dev(), found.ino()))
}
