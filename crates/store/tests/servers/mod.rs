//! Real servers for tests, started by `tests/servers` of the repository: the same as those of the Python tests.
//!
//! ```ignore
//! let servers = Servers::start(&["single", "--password", "secret"]);
//! connect(&servers.url);
//! servers.command(json!({"do": "freeze"}));
//! ```
//!
//! `python -m tests.servers --help` lists the topologies and their options, `tests/servers/control.py` the actions.

#![allow(dead_code, reason = "every test program includes this file, and uses its own part of it")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::{env, fs};

use serde_json::Value;

/// Servers that run until this value is dropped. They also end if this process is killed.
pub(crate) struct Servers {
    /// The address, as the store takes it.
    pub(crate) url: String,
    /// All that is known: `addresses`, `pids`, `certificates`, ...
    pub(crate) description: Value,
    harness: Child,
    pipes: Mutex<Pipes>,
}

struct Pipes {
    /// `None` when it is time to end.
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Servers {
    /// Starts servers, and waits until they answer.
    ///
    /// # Panics
    ///
    /// If they do not start, or are not installed.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::try_start(arguments).unwrap_or_else(|missing| panic!("{missing}"))
    }

    /// Starts servers that not every machine has. The reason is printed, so that it is seen why nothing was tested.
    ///
    /// # Panics
    ///
    /// If they are installed, and do not start.
    #[allow(clippy::print_stderr, reason = "shown with the output of the test")]
    pub(crate) fn start_if_installed(arguments: &[&str]) -> Option<Self> {
        Self::try_start(arguments).map_err(|missing| eprintln!("skipped: {missing}")).ok()
    }

    fn try_start(arguments: &[&str]) -> Result<Self, String> {
        let workspace = workspace();
        let python = python(&workspace);
        let mut harness = Command::new(&python)
            .args(["-m", "tests.servers"])
            .args(arguments)
            .current_dir(&workspace)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {}: {error}\nhint: run `make setup`", python.display()));
        let mut pipes =
            Pipes { requests: harness.stdin.take(), answers: BufReader::new(harness.stdout.take().expect("it was asked for")) };
        let description = pipes.read();
        if let Some(missing) = description["missing"].as_str() {
            // Without this it would stay a zombie.
            harness.wait().expect("it says why and ends");
            return Err(missing.to_owned());
        }
        let url = description["url"].as_str().expect("every description has it").to_owned();
        Ok(Self { url, description, harness, pipes: Mutex::new(pipes) })
    }

    /// Does something to the servers, such as `{"do": "kill"}`.
    ///
    /// # Panics
    ///
    /// If it cannot be done.
    pub(crate) fn command(&self, request: &Value) -> Value {
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        let requests = pipes.requests.as_mut().expect("it is taken only by drop");
        writeln!(requests, "{request}").expect("the harness lives");
        let mut answer = pipes.read();
        assert!(answer.get("error").is_none(), "{request}: {}", answer["error"]);
        answer["answer"].take()
    }

    /// Asks the first server a command of its own, such as `["PTTL", "a"]`.
    ///
    /// # Panics
    ///
    /// If the server answers with an error.
    pub(crate) fn ask(&self, words: &[&str]) -> Value {
        self.command(&serde_json::json!({"do": "command", "args": words}))
    }

    /// The address with the certificates to trust and to show, with `--tls`.
    ///
    /// # Panics
    ///
    /// Without `--tls`.
    pub(crate) fn tls_url(&self) -> &str {
        self.description["tls_url"].as_str().expect("started with --tls")
    }

    /// The path of a certificate or key, with `--tls`: `ca`, `client_cert`, `client_key`.
    ///
    /// # Panics
    ///
    /// Without `--tls`.
    pub(crate) fn certificate(&self, name: &str) -> PathBuf {
        self.description["certificates"][name].as_str().expect("started with --tls").into()
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.pipes.lock().unwrap_or_else(PoisonError::into_inner).requests = None;
        // A failure to end must not hide the failure of the test.
        let _ = self.harness.wait();
    }
}

impl Pipes {
    fn read(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the harness answers in text");
        serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("the harness said {line:?}: {error}\nhint: see its message above"))
    }
}

fn workspace() -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::canonicalize(crate_folder.join("../..")).expect("crates live in a workspace")
}

fn python(workspace: &Path) -> PathBuf {
    let python = env::var_os("TIDEGATE_PYTHON").map_or_else(|| workspace.join(".venv/bin/python"), PathBuf::from);
    assert!(
        python.exists(),
        "the servers of the tests are started by Python, and there is no {}\nhint: run `make setup`, or set TIDEGATE_PYTHON",
        python.display()
    );
    python
}
