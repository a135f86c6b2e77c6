//! What an event loop watches for a mailbox: its bell and, while questions are under way on connections of its own, those too.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// One event queue of the system that stands for all. A loop can watch it like a socket, and is not told when connections change.
#[cfg(target_os = "linux")]
pub(super) struct Watch(std::os::fd::OwnedFd);

#[cfg(target_os = "linux")]
impl Watch {
    pub(super) const CAN_SHARE: bool = true;

    pub(super) fn new(bell: &UnixStream) -> io::Result<Self> {
        use rustix::event::epoll;

        let queue = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&queue, bell, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        Ok(Self(queue))
    }

    pub(super) fn fileno(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Whether the connection is watched from now on.
    pub(super) fn begin(&self, socket: BorrowedFd<'_>) -> bool {
        use rustix::event::epoll;

        epoll::add(&self.0, socket, epoll::EventData::new_u64(1), epoll::EventFlags::IN).is_ok()
    }

    pub(super) fn end(&self, socket: BorrowedFd<'_>) {
        // It fails only if the connection is not watched, and then all is well.
        let _ = rustix::event::epoll::delete(&self.0, socket);
    }
}

/// Only the bell: where there is no such queue, all questions go by the store's thread.
#[cfg(not(target_os = "linux"))]
pub(super) struct Watch(i32);

#[cfg(not(target_os = "linux"))]
impl Watch {
    pub(super) const CAN_SHARE: bool = false;

    pub(super) fn new(bell: &UnixStream) -> io::Result<Self> {
        Ok(Self(bell.as_raw_fd()))
    }

    pub(super) fn fileno(&self) -> i32 {
        self.0
    }

    pub(super) fn begin(&self, _socket: BorrowedFd<'_>) -> bool {
        false
    }

    pub(super) fn end(&self, _socket: BorrowedFd<'_>) {}
}
