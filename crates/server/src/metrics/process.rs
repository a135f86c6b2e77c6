//! What the operating system says about the process.

use super::page::{Kind, Page, seconds};

/// Writes what is known; where there is no `/proc`, less is.
pub(super) fn write(page: &mut Page, started_ns: u64) {
    page.single(
        "process_start_time_seconds",
        Kind::Gauge,
        "When the service started, in seconds since the epoch.",
        seconds(started_ns),
    );
    #[cfg(target_os = "linux")]
    linux(page);
}

#[cfg(target_os = "linux")]
fn linux(page: &mut Page) {
    if let Some(cpu_ns) = cpu_ns() {
        let help = "Processor time, of user and system together.";
        page.single("process_cpu_seconds_total", Kind::Counter, help, seconds(cpu_ns));
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let fields = [
        ("VmRSS:", "process_resident_memory_bytes", "Resident memory.", 1_024),
        ("VmSize:", "process_virtual_memory_bytes", "Virtual memory.", 1_024),
        ("Threads:", "process_threads", "Threads.", 1),
    ];
    for (field, name, help, unit) in fields {
        if let Some(value) = number(&status, field) {
            page.single(name, Kind::Gauge, help, value * unit);
        }
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        page.single("process_open_fds", Kind::Gauge, "Open files and sockets.", files.count());
    }
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    if let Some(files_max) = number(&limits, "Max open files") {
        page.single("process_max_fds", Kind::Gauge, "The most files and sockets that may be open.", files_max);
    }
}

/// The number that follows a word at the beginning of a line.
#[cfg(target_os = "linux")]
fn number(text: &str, word: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(word))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(target_os = "linux")]
fn cpu_ns() -> Option<u64> {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let (whole, part) = (u64::try_from(used.tv_sec).ok()?, u64::try_from(used.tv_nsec).ok()?);
    whole.checked_mul(1_000_000_000)?.checked_add(part)
}
