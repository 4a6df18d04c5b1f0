//! `stripline top`: a live view of a running waveform.

mod keys;
mod model;
mod raw_terminal;
mod snapshot;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use stripline::internal::{LogFilter, log_to};
use stripline_waveform::control::{ChangeState, ControlClient, ControlError, Setting};

use crate::Exit;
use crate::arguments::{TopArguments, Which};
use crate::data::Interrupt;
use crate::failure::{Failure, Outcome};
use crate::format::printable;
use crate::show::print;
use crate::terminal;
use model::{Action, Model};
use raw_terminal::{Input, RawTerminal};
use snapshot::Snapshot;

/// The longest wait for a key before the view checks signals, news and the terminal's size.
const POLL_TIME: Duration = Duration::from_millis(50);
/// The longest wait for a component to apply a change.
const SET_TIMEOUT: Duration = Duration::from_secs(2);

/// A message from the other threads to the view.
enum News {
    Snapshot(Box<Snapshot>),
    /// There is no snapshot, for this reason.
    Problem(String),
    /// The outcome of this number of settings.
    Outcome(usize, Result<String, String>),
    /// A log record of this process. Printed directly, it would disturb the picture.
    Record(String),
    Ended,
}

/// The reason that the view ends.
enum End {
    /// A key, a signal, or a terminal that has hung up.
    Quit,
    /// The waveform has ended.
    Waveform,
    /// Another thread has panicked, and the message was printed.
    Panic,
}

pub(crate) fn top(arguments: &TopArguments) -> Outcome {
    if !terminal::is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::usage(
            "`stripline top` needs a terminal for its input and output; `stripline links --watch --json` prints the \
             figures for a pipe or a file",
        ));
    }
    let client = find(arguments)?;
    let interrupt = Interrupt::catch()?;
    let (news, received) = mpsc::channel();
    let (settings, requests) = mpsc::channel();
    show_records(&news);
    let (asked, every) = (client.clone(), Duration::from_secs_f64(arguments.every));
    let outcomes = news.clone();
    let model = Model::new(client.name());
    let name = printable(client.name(), 60);
    let start = |work: Box<dyn FnOnce() + Send>| std::thread::Builder::new().spawn(work);
    let threads = start(Box::new(move || read_until_end(&asked, every, &news))).and_then(|reader| {
        Ok([reader, start(Box::new(move || set_until_end(&client, &requests, &outcomes)))?])
    });
    let threads = threads.map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    let has_failed = || threads.iter().any(JoinHandle::is_finished);
    let shown = RawTerminal::open()
        .and_then(|mut raw| show(&mut raw, model, (&received, &settings), &interrupt, &has_failed));
    match shown.map_err(|error| Failure::new(format!("the terminal does not work: {error}")))? {
        End::Quit => Ok(Exit::Clean),
        End::Waveform => Ok(print(&format!("{name} has ended\n"))),
        End::Panic => Ok(Exit::Failure),
    }
}

/// Passes log records on to the view.
fn show_records(news: &Sender<News>) {
    let news = news.clone();
    // A wrong value was already reported when the process started.
    let filter = LogFilter::from_environment().ok().flatten().unwrap_or_default();
    let max = filter.max_level();
    let sink = move |record: &log::Record<'_>| {
        if record.level() <= filter.level(record.target()) {
            let _ = news.send(News::Record(record.args().to_string()));
        }
    };
    log_to(max, Box::new(sink));
}

fn find(arguments: &TopArguments) -> Result<ControlClient, Failure> {
    let TopArguments { waveform, pid, .. } = arguments;
    if waveform.is_some() || pid.is_some() {
        let which = Which { waveform: waveform.clone(), pid: *pid };
        let (client, rest) = crate::control::find(&which)?;
        return crate::control::taken(rest, Vec::new(), 0).map(|_| client);
    }
    match &crate::control::listed()?.waveforms[..] {
        [] => Err(Failure::usage("no waveform of this user is running; `stripline run FILE` starts one")),
        [one] => Ok(ControlClient::find(&one.name, Some(one.pid))?),
        all @ [first, ..] => {
            let named = all.iter().map(|one| format!("{} (process {})", printable(&one.name, 60), one.pid));
            let (all, name) = (named.collect::<Vec<_>>().join(", "), printable(&first.name, 60));
            Err(Failure::usage(format!(
                "several waveforms are running: {all}; choose one, as in `stripline top {name}`"
            )))
        }
    }
}

/// Draws the view and handles keys, until the end.
fn show(
    raw: &mut RawTerminal,
    mut model: Model,
    (news, settings): (&Receiver<News>, &Sender<Setting>),
    interrupt: &Interrupt,
    has_failed: &dyn Fn() -> bool,
) -> io::Result<End> {
    let is_coloured = terminal::is_stdout_coloured();
    loop {
        // A thread that ended normally has already sent the reason.
        let failed = has_failed();
        for new in news.try_iter() {
            match new {
                News::Snapshot(snapshot) => model.add(*snapshot),
                News::Problem(problem) => model.show_problem(&problem),
                News::Outcome(count, outcome) => model.outcome(count, outcome),
                News::Record(text) => model.record(&text),
                News::Ended => return Ok(End::Waveform),
            }
        }
        if failed {
            return Ok(End::Panic);
        }
        if interrupt.is_set() {
            return Ok(End::Quit);
        }
        // A terminal that has hung up takes no output. The input reports the end.
        let drawn = raw.draw(&model.frame(RawTerminal::size(), is_coloured));
        let keys = match raw.input(POLL_TIME)? {
            Input::Keys(keys) => keys,
            Input::End => return Ok(End::Quit),
        };
        drawn?;
        for key in keys {
            match model.key(key) {
                Action::Nothing => {}
                Action::Quit => return Ok(End::Quit),
                Action::Set(setting) => drop(settings.send(setting)),
            }
        }
    }
}

/// Takes snapshots until the waveform or the view has ended.
fn read_until_end(client: &ControlClient, every: Duration, news: &Sender<News>) {
    loop {
        let begin = Instant::now();
        let new = match Snapshot::take(client) {
            Ok(snapshot) => News::Snapshot(Box::new(snapshot)),
            Err(ControlError::Gone { .. }) => News::Ended,
            Err(error) => News::Problem(error.to_string()),
        };
        let has_ended = matches!(new, News::Ended);
        if news.send(new).is_err() || has_ended {
            return;
        }
        // If a snapshot takes longer than half of the interval, the pause is as long as the
        // snapshot.
        let took = begin.elapsed();
        std::thread::sleep(every.saturating_sub(took).max(took));
    }
}

/// Sets properties until the view has ended.
fn set_until_end(client: &ControlClient, requests: &Receiver<Setting>, news: &Sender<News>) {
    while let Ok(first) = requests.recv() {
        let all: Vec<Setting> = [first].into_iter().chain(requests.try_iter()).collect();
        let count = all.len();
        // If a property has several new values, only the last one is set.
        let last: BTreeMap<(String, String), Setting> = all
            .into_iter()
            .map(|setting| ((setting.component.clone(), setting.property.clone()), setting))
            .collect();
        let outcomes: Vec<_> = last.into_values().map(|setting| set(client, setting)).collect();
        let problem = outcomes.iter().find(|outcome| outcome.is_err()).cloned();
        let outcome = problem.or(outcomes.last().cloned()).unwrap_or(Ok(String::new()));
        if news.send(News::Outcome(count, outcome)).is_err() {
            return;
        }
    }
}

/// Sets a property. Returns the text to show.
fn set(client: &ControlClient, setting: Setting) -> Result<String, String> {
    let place = format!("{}.{}", setting.component, setting.property);
    let changes = client.set(&[setting], SET_TIMEOUT).map_err(|error| format!("{place}: {error}"))?;
    if let Some(change) = changes.iter().find(|change| change.taken != ChangeState::Applied) {
        return Err(crate::control::not_taken(change));
    }
    let values = changes.iter().flat_map(|change| {
        change
            .values
            .iter()
            .map(|(name, new)| format!("{}.{}", change.component, crate::control::new_value(name, new)))
    });
    Ok(values.collect::<Vec<_>>().join(", "))
}
