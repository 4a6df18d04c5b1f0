//! The announcement of a waveform before it runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use stripline::internal::{Local, PollSet};
use stripline::{Error, Result};

use super::{
    ControlService, RequestFault, RequestInbox, RunPhase, RunningWaveform, StopRequest, Stopped, TapReply,
    WaveformRequest,
};
use crate::RunReport;

/// Time limit for a client that stopped the waveform to acknowledge the report.
const ACK_TIME: Duration = Duration::from_secs(1);

/// The announcement of a waveform during the check of the components: clients find the waveform,
/// and may stop it. The run takes the service over, so that clients find the waveform throughout.
pub struct Announcement {
    service: Option<ControlService>,
    inbox: RequestInbox,
    thread: Local<Option<JoinHandle<()>>>,
    has_ended: Arc<AtomicBool>,
}

impl Announcement {
    /// Announces a waveform. `stop` is called when a client has stopped it, and should end the
    /// process.
    ///
    /// # Errors
    /// When the system lacks a thread or a socket.
    pub fn new(name: &str, path: &Path, stop: impl FnOnce() + Send + 'static) -> Result<Self> {
        let inbox = RequestInbox::new()?;
        let service = Some(ControlService::start(name, inbox.clone())?);
        let has_ended = Arc::new(AtomicBool::new(false));
        let announced = Announced {
            name: name.into(),
            path: path.into(),
            inbox: inbox.clone(),
            has_ended: Arc::clone(&has_ended),
        };
        let thread = std::thread::Builder::new()
            .name("stripline-start".into())
            .spawn(move || {
                if announced.answer() {
                    stop();
                }
            })
            .map_err(|e| Error::not_started("cannot start a thread", e))?;
        Ok(Self { service, inbox, thread: Local::new(Some(thread)), has_ended })
    }
}

impl Announcement {
    /// Ends the announcement. Returns the service, and the inbox with the requests that have not
    /// been answered.
    pub(crate) fn hand_over(mut self) -> (Option<ControlService>, RequestInbox) {
        self.end();
        (self.service.take(), self.inbox.clone())
    }

    /// Ends the thread that answers.
    fn end(&mut self) {
        // Relaxed: the inbox orders the memory.
        self.has_ended.store(true, Ordering::Relaxed);
        self.inbox.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        if self.thread.is_current() && self.service.is_some() {
            self.end();
            // The service ends only after all requests have an answer.
            drop(self.inbox.close());
            self.service = None;
        }
    }
}

/// The side of the announcement that answers.
struct Announced {
    name: String,
    path: PathBuf,
    inbox: RequestInbox,
    has_ended: Arc<AtomicBool>,
}

impl Announced {
    /// Answers requests until the announcement ends. Returns true if a client stops the waveform.
    fn answer(&self) -> bool {
        loop {
            for request in self.inbox.take() {
                if self.serve(request) {
                    self.inbox.wait_until_acknowledged(1, ACK_TIME);
                    return true;
                }
            }
            // Relaxed: as above.
            if self.has_ended.load(Ordering::Relaxed) {
                return false;
            }
            let mut poll_set = PollSet::default();
            poll_set.readable(std::os::fd::AsFd::as_fd(&self.inbox));
            if poll_set.wait(None).is_err() {
                return false;
            }
        }
    }

    // A client that has closed the connection gets no reply.
    fn serve(&self, request: WaveformRequest) -> bool {
        let starting = || RequestFault::Cannot(self.show().starting());
        match request {
            WaveformRequest::Show(reply) => drop(reply.send(Ok(self.show()))),
            WaveformRequest::Get(_, reply) => drop(reply.send(Err(starting()))),
            WaveformRequest::Set(_, reply) => drop(reply.send(Err(starting()))),
            WaveformRequest::Test(_, reply) => drop(reply.send(Err(starting()))),
            WaveformRequest::Tap(_, reply) => {
                drop(reply.send(Ok(TapReply::NotYet(self.show().starting()))));
            }
            WaveformRequest::Stop(StopRequest { component: Some(_), .. }, reply) => {
                drop(reply.send(Err(starting())));
            }
            WaveformRequest::Stop(StopRequest { component: None, .. }, reply) => {
                let report = RunReport {
                    waveform: self.name.clone(),
                    duration_s: 0.0,
                    failure: None,
                    stopped: Some("stripline stop".into()),
                    components: Vec::new(),
                    connections: Vec::new(),
                    paths: Vec::new(),
                };
                drop(reply.send(Ok(Stopped::Waveform(Box::new(report)))));
                return true;
            }
        }
        false
    }

    fn show(&self) -> RunningWaveform {
        let file = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        RunningWaveform {
            name: self.name.clone(),
            pid: std::process::id(),
            file: file.to_string_lossy().into_owned(),
            phase: RunPhase::Starting,
            elapsed_s: 0.0,
            components: Vec::new(),
            packets: 0,
            lost: 0,
        }
    }
}
