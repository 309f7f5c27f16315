//! Asks Slurm or PBS for jobs through their commands.
//!
//! Slurm has two: `sacct` reads the accounting database, which remembers jobs that ended long ago
//! but can be seconds behind, and `squeue` reads the controller, which has the jobs that run now.
//! Without accounting, only `squeue` answers.
//!
//! The module asks for text with named columns instead of JSON, because Slurm's JSON changes with
//! its version and needs about 6 KiB for each job, and `squeue --json` ignores the selection of
//! jobs. It also asks for a random column separator, so that a job name cannot imitate the line
//! of another job, and for times in seconds since 1970, which have no time zone.

use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use ibnet_record::limits;
use ibnet_record::types::Printable;
use miette::Diagnostic;

use super::{Entry, SourceError, entries, find_in, runs, slurm_text};
use crate::job::run::JobRun;
use crate::job::table::Listing;
use crate::when::Zone;

/// Max time for the answers of all commands together.
const PATIENCE: Duration = Duration::from_secs(30);

/// Max length of the error message of a command, in bytes.
const MAX_MESSAGE: usize = 300;

/// Pause between two checks whether a command whose output has ended has also exited.
const PAUSE: Duration = Duration::from_millis(10);

/// Time by which a listing begins earlier than its time range, because a local time is ambiguous
/// in the hour in which summer time ends.
const MARGIN_NS: u64 = 3_600_000_000_000;

/// A resource manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Manager {
    /// Slurm, with `sacct` and `squeue`.
    #[default]
    Slurm,
    /// PBS, with `qstat`.
    Pbs,
}

/// The jobs of an answer, and the command line.
type Answer = Result<(Vec<Entry>, String), AskError>;

/// Reason why a resource manager has no usable answer.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum AskError {
    /// The command cannot be started.
    #[error("cannot ask for jobs: cannot run `{}`", Printable(command))]
    #[diagnostic(help(
        "run this command on a host with the commands of Slurm or PBS, or give a file with jobs with --slurm-file"
    ))]
    Start {
        /// The command line.
        command: String,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The command failed.
    #[error(
        "cannot ask for jobs: `{}` ended with {status}: {}",
        Printable(command),
        Printable(message)
    )]
    #[diagnostic(help(
        "run the command by hand and correct its error, or give a file with jobs with --slurm-file"
    ))]
    Failed {
        /// The command line.
        command: String,
        /// Exit code or signal.
        status: ExitStatus,
        /// What the command wrote to standard error.
        message: String,
    },
    /// The command did not answer in time.
    #[error("cannot ask for jobs: `{}` did not answer within the {} s for all commands", Printable(command), limit.as_secs())]
    #[diagnostic(help(
        "check the resource manager, for example with `scontrol ping`, or give a file with jobs with --slurm-file"
    ))]
    Slow {
        /// The command line.
        command: String,
        /// Max time for all commands.
        limit: Duration,
    },
    /// The answer is malformed, or does not have the job.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Answer(#[from] SourceError),
}

/// Asks a resource manager.
#[derive(Clone, PartialEq, Debug)]
pub struct Ask {
    manager: Manager,
    /// Max time for the answers of all commands, and the instant at which it ends.
    limit: Duration,
    until: Instant,
    /// Time zone of this machine, in which PBS writes and Slurm reads times.
    zone: Zone,
}

impl Ask {
    /// Prepares queries to a resource manager of this machine. All of them must be answered
    /// within 30 s from now.
    pub fn new(manager: Manager) -> Self {
        Self::within(manager, Zone::local(), PATIENCE)
    }

    fn within(manager: Manager, zone: Zone, limit: Duration) -> Self {
        Self {
            manager,
            limit,
            until: now() + limit,
            zone,
        }
    }

    /// Returns the newest run of the job with this ID.
    ///
    /// # Errors
    /// Returns an error if a command fails, or if the job is missing or has no nodes.
    pub fn job(&self, id: &str) -> Result<JobRun, AskError> {
        if self.manager == Manager::Pbs {
            let (entries, command) = self.qstat(&[id])?;
            return Ok(find_in(entries, &command, id)?);
        }
        // Both commands run in parallel, so one that hangs takes no time from the other.
        let (stored, present) = (self.sacct(&["-j", id]), self.squeue(&["-j", id]));
        let stored = match stored.and_then(|asked| self.slurm(asked)) {
            Ok((entries, command)) if !entries.is_empty() => {
                return Ok(find_in(of_job(entries, id), &command, id)?);
            }
            other => other,
        };
        let (entries, command) = match (present.and_then(|asked| self.slurm(asked)), stored) {
            // squeue fails if it does not have the job, and the answer of sacct then explains
            // more.
            (Err(AskError::Failed { .. }), Ok(stored)) => stored,
            (Err(AskError::Failed { .. }), Err(error)) => {
                // Without accounting, squeue lists all jobs that Slurm still has.
                let all = self.squeue(&["-a"]).and_then(|asked| self.slurm(asked));
                let (entries, command) = all.map_err(|_| error)?;
                return Ok(find_in(entries, &command, id)?);
            }
            (answer, _) => answer?,
        };
        Ok(find_in(of_job(entries, id), &command, id)?)
    }

    /// Returns all jobs that ran in a time range. `at` is the current time. All times are in
    /// nanoseconds since 1970.
    ///
    /// # Errors
    /// Returns an error if a command fails or its answer is malformed. Slurm without accounting is
    /// not an error: the result then has the jobs that `squeue` still has.
    pub fn jobs(&self, from: u64, to: Option<u64>, at: u64) -> Result<Listing, AskError> {
        let time = |ns: u64| self.zone.format(ns, "%Y-%m-%dT%H:%M:%S");
        if self.manager == Manager::Pbs {
            let (entries, command) = self.qstat(&[])?;
            let all = runs(entries, &command)?
                .into_iter()
                .filter(|run| run.is_during(from, to.unwrap_or(u64::MAX)));
            return Ok(Listing {
                runs: all.collect(),
                at,
                is_complete: true,
            });
        }
        let start = time(from.saturating_sub(MARGIN_NS));
        let end = to.map(|to| time(to.saturating_add(MARGIN_NS)));
        let mut arguments = vec!["-a", "-S", &start];
        if let Some(end) = &end {
            arguments.extend(["-E", end]);
        }
        let runs_of = |asked: Asked| {
            self.slurm(asked)
                .and_then(|(entries, command)| Ok(runs(entries, &command)?))
        };
        let (stored, present) = (self.sacct(&arguments), self.squeue(&["-a"]));
        let (stored, present) = (stored.and_then(runs_of), present.and_then(runs_of));
        let is_complete = present.is_ok();
        let (stored, present) = match (stored, present) {
            (Err(error), Err(_)) => return Err(error),
            (stored, present) => (stored.unwrap_or_default(), present.unwrap_or_default()),
        };
        Ok(Listing {
            runs: union(stored, present, from, to),
            at,
            is_complete,
        })
    }

    fn sacct(&self, selection: &[&str]) -> Result<Asked, AskError> {
        let separator = separator();
        let delimiter = format!("--delimiter={separator}");
        // -X: jobs without their steps. -D: all runs of a job that was requeued.
        let mut arguments = vec![
            "-X",
            "-D",
            "-P",
            &delimiter,
            "--format=JobID,User,State,Start,End,NodeList,JobName",
        ];
        arguments.extend(selection);
        self.start("sacct", &arguments, separator)
    }

    fn squeue(&self, selection: &[&str]) -> Result<Asked, AskError> {
        let separator = separator();
        let format = ["%i", "%u", "%T", "%S", "%e", "%N", "%j"].join(&separator);
        let mut arguments = vec!["-t", "all", "-o", &format];
        arguments.extend(selection);
        self.start("squeue", &arguments, separator)
    }

    fn slurm(&self, mut asked: Asked) -> Answer {
        let (text, command) = self.answer(&mut asked)?;
        // A site's wrapper script may ignore the options and write another form.
        let found = if text.contains(&asked.separator) {
            slurm_text::entries(&text, &asked.separator, &self.zone)
        } else {
            entries(&text, &command, &self.zone)?
        };
        Ok((found, command))
    }

    fn qstat(&self, selection: &[&str]) -> Answer {
        let mut arguments = vec!["-x", "-f", "-F", "json"];
        arguments.extend(selection);
        let (text, command) = self
            .start("qstat", &arguments, String::new())
            .and_then(|mut asked| self.answer(&mut asked))?;
        Ok((entries(&text, &command, &self.zone)?, command))
    }

    /// Returns the time left for all commands.
    fn left(&self) -> Duration {
        self.until.saturating_duration_since(now())
    }

    /// Starts a command whose output uses this column separator.
    fn start(
        &self,
        program: &str,
        arguments: &[&str],
        separator: String,
    ) -> Result<Asked, AskError> {
        let command = [&[program], arguments].concat().join(" ");
        if self.left().is_zero() {
            return Err(AskError::Slow {
                command,
                limit: self.limit,
            });
        }
        let mut process = Command::new(program);
        process
            .args(arguments)
            .env("SLURM_TIME_FORMAT", "%s")
            .env("LC_ALL", "C");
        process
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = match process.spawn() {
            Ok(child) => child,
            Err(source) => return Err(AskError::Start { command, source }),
        };
        let (output, message) = (read_all(child.stdout.take()), read_all(child.stderr.take()));
        Ok(Asked {
            command,
            separator,
            child,
            output,
            message,
        })
    }

    /// Waits until a command ends, and returns its output and its command line.
    fn answer(&self, asked: &mut Asked) -> Result<(String, String), AskError> {
        let command = asked.command.clone();
        let start = |source| AskError::Start {
            command: command.clone(),
            source,
        };
        let slow = || AskError::Slow {
            command: command.clone(),
            limit: self.limit,
        };
        let output = asked.output.recv_timeout(self.left()).map_err(|_| slow())?;
        let message = asked
            .message
            .recv_timeout(self.left())
            .map_err(|_| slow())?;
        let status = end_of(&mut asked.child, self.left())
            .map_err(start)?
            .ok_or_else(slow)?;
        if !status.success() {
            let message = String::from_utf8_lossy(&message.unwrap_or_default())
                .trim()
                .replace('\n', "; ");
            let end = message.floor_char_boundary(MAX_MESSAGE);
            let message = if message.is_empty() {
                "no message".to_owned()
            } else {
                message[..end].to_owned()
            };
            return Err(AskError::Failed {
                command,
                status,
                message,
            });
        }
        Ok((
            String::from_utf8_lossy(&output.map_err(start)?).into_owned(),
            command,
        ))
    }
}

/// A running command, which is killed when its answer is no longer needed.
struct Asked {
    command: String,
    /// Separator of the columns.
    separator: String,
    child: Child,
    output: Receiver<io::Result<Vec<u8>>>,
    message: Receiver<io::Result<Vec<u8>>>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        // An error means that the process has already ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the commands of all questions share one limit"
)]
fn now() -> Instant {
    Instant::now()
}

/// Returns the entries of a job. A single entry with another ID is the task of an array that was
/// requested by its own ID.
fn of_job(mut entries: Vec<Entry>, id: &str) -> Vec<Entry> {
    if let [entry] = &mut entries[..]
        && !entry.id.starts_with(id)
    {
        if let Ok(Some(run)) = &mut entry.run {
            id.clone_into(&mut run.id);
        }
        id.clone_into(&mut entry.id);
    }
    entries
}

/// Combines the runs of both commands. The end of a run is known if either of them has it.
fn union(stored: Vec<JobRun>, present: Vec<JobRun>, from: u64, to: Option<u64>) -> Vec<JobRun> {
    let mut all: std::collections::BTreeMap<(Option<u64>, String), JobRun> =
        std::collections::BTreeMap::new();
    for run in stored
        .into_iter()
        .chain(present)
        .filter(|run| run.is_during(from, to.unwrap_or(u64::MAX)))
    {
        let known = all
            .entry((run.from, run.id.clone()))
            .or_insert_with(|| run.clone());
        if known.to.is_none() && run.to.is_some() {
            *known = run;
        }
    }
    all.into_values().collect()
}

fn separator() -> String {
    format!("~{:016x}~", fastrand::u64(..))
}

/// Reads a pipe to its end in a thread.
fn read_all<R: io::Read + Send + 'static>(pipe: Option<R>) -> Receiver<io::Result<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let read = pipe.map_or_else(|| Ok(Vec::new()), |pipe| limits::read(pipe, limits::SLURM));
        // The receiver is gone if the command was too slow.
        drop(sender.send(read));
    });
    receiver
}

/// Waits until a process whose output has ended exits. Returns `None` after the limit.
fn end_of(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    for _ in 0..=limit.as_millis() / PAUSE.as_millis() {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(PAUSE);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(limit: Duration) -> Ask {
        Ask::within(Manager::Slurm, Zone::utc(), limit)
    }

    fn run(ask: &Ask, program: &str, arguments: &[&str]) -> Result<(String, String), AskError> {
        ask.start(program, arguments, String::new())
            .and_then(|mut asked| ask.answer(&mut asked))
    }

    #[test]
    fn failed_command_is_named_with_its_exit_code_and_message() {
        let error = run(
            &ask(PATIENCE),
            "sh",
            &["-c", "echo Invalid job id >&2; exit 3"],
        )
        .unwrap_err()
        .to_string();
        assert_eq!(
            error,
            "cannot ask for jobs: `sh -c echo Invalid job id >&2; exit 3` ended with exit status: 3: Invalid job id"
        );
        assert!(matches!(
            run(&ask(PATIENCE), "ibnet-no-such-command", &[]),
            Err(AskError::Start { .. })
        ));
    }

    #[test]
    fn command_without_an_end_is_stopped() {
        let limit = Duration::from_millis(50);
        for script in [
            "exec sleep 600",
            "exec >&- 2>&-; exec sleep 600",
            "exec yes > /dev/null",
        ] {
            assert!(
                matches!(
                    run(&ask(limit), "sh", &["-c", script]),
                    Err(AskError::Slow { .. })
                ),
                "{script}"
            );
        }
    }

    #[test]
    fn commands_share_one_limit() {
        let folder = tempfile::tempdir().unwrap();
        let started = folder.path().join("started");
        let ask = ask(Duration::from_millis(50));
        assert!(matches!(
            run(&ask, "sh", &["-c", "exec sleep 600"]),
            Err(AskError::Slow { .. })
        ));
        let second = run(&ask, "touch", &[started.to_str().unwrap()]);
        assert!(
            matches!(second, Err(AskError::Slow { .. })) && !started.exists(),
            "{second:?}"
        );
    }

    #[test]
    fn end_of_a_run_is_known_if_one_command_has_it() {
        let run = |id: &str, from, to| JobRun::new(id, "n1", Some(from), to).unwrap();
        let all = union(
            vec![run("1", 10, None), run("2", 10, Some(12))],
            vec![run("1", 10, Some(20)), run("3", 30, None)],
            15,
            None,
        );
        assert_eq!(
            all.iter().map(|run| (&*run.id, run.to)).collect::<Vec<_>>(),
            [("1", Some(20)), ("3", None)]
        );
    }
}
