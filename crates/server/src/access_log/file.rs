//! Where lines are written: a file that may be moved away, or standard output.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::settings::Target;

/// Where lines are written.
#[derive(Debug)]
pub(super) enum Place {
    Stdout,
    File { path: PathBuf, file: File },
}

impl Place {
    pub(super) fn open(target: &Target) -> io::Result<Self> {
        match target {
            Target::Stdout => Ok(Self::Stdout),
            Target::File { path } => Ok(Self::File { path: path.clone(), file: append(path)? }),
        }
    }

    /// Writes some lines.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout => {
                let mut output = io::stdout().lock();
                output.write_all(lines)?;
                output.flush()
            }
            Self::File { path, file } => {
                // Looked at before each write, so who rotates logs needs to tell nobody; one that was emptied goes on at its beginning.
                if !is_there(path, file) {
                    *file = append(path)?;
                }
                file.write_all(lines)
            }
        }
    }
}

fn append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    // Who came when is nobody's business but the operator's.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o640);
    options.open(path)
}

/// Whether a path still leads to a file.
#[cfg(unix)]
fn is_there(path: &Path, file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (Ok(at), Ok(of)) = (path.metadata(), file.metadata()) else { return false };
    (at.dev(), at.ino()) == (of.dev(), of.ino())
}

/// A file that is open cannot be moved away.
#[cfg(not(unix))]
fn is_there(_path: &Path, _file: &File) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_moved_away_is_made_again() {
        let folder = std::env::temp_dir().join(format!("tidegate-log-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (path, moved) = (folder.join("log"), folder.join("log.1"));
        let mut place = Place::open(&Target::File { path: path.clone() }).unwrap();
        place.write(b"before\n").unwrap();
        std::fs::rename(&path, &moved).unwrap();
        place.write(b"after\n").unwrap();
        place.write(b"later\n").unwrap();

        assert_eq!(std::fs::read_to_string(&moved).unwrap(), "before\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "after\nlater\n");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
