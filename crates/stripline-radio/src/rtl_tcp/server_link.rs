//! The connection of `rtl-tcp-source` to its server, which the tuner shares.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::ioctl_fionread;

use super::protocol::{Command, Header};
use crate::tuner::{Tuner, TunerAbilities, TunerError, TunerRange, TunerSetting, missing};

/// The most changes of the description that wait for their sample.
const CHANGES_MAX: usize = 1024;

/// The gain that a command can have, in dB.
const GAIN_RANGE: TunerRange = TunerRange { min: -100.0, max: 200.0, step: 0.1 };

/// The settings of a server. The protocol does not report the values that the device has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServerSettings {
    pub frequency_hz: u32,
    pub rate_hz: u32,
    /// In tenths of dB.
    pub gain: i32,
    pub agc: bool,
    pub correction: i32,
    pub bias_tee: bool,
}

impl ServerSettings {
    /// Returns the commands that bring a server from other settings to these; all: `None`.
    fn commands(self, from: Option<Self>) -> Vec<Command> {
        let is_new = |differs: fn(&Self, &Self) -> bool| from.is_none_or(|from| differs(&from, &self));
        let mut commands = Vec::new();
        if is_new(|a, b| a.rate_hz != b.rate_hz) {
            commands.push(Command::Rate(self.rate_hz));
        }
        if is_new(|a, b| a.correction != b.correction) {
            commands.push(Command::Correction(self.correction));
        }
        if is_new(|a, b| a.frequency_hz != b.frequency_hz) {
            commands.push(Command::Frequency(self.frequency_hz));
        }
        if is_new(|a, b| a.agc != b.agc) {
            commands.extend([Command::ManualGain(!self.agc), Command::Agc(self.agc)]);
        }
        if !self.agc && is_new(|a, b| a.gain != b.gain || a.agc != b.agc) {
            commands.push(Command::Gain(self.gain));
        }
        // Power on an antenna port may harm a device: a server that never gave it gets no command.
        if from.map_or(self.bias_tee, |from| from.bias_tee != self.bias_tee) {
            commands.push(Command::BiasTee(self.bias_tee));
        }
        commands
    }
}

/// The next part of a stream.
#[derive(Debug)]
pub(super) enum Arrival {
    /// Bytes of whole samples.
    Samples(usize),
    /// The settings of the samples from here on.
    Settings(ServerSettings),
    /// Nothing has arrived.
    Nothing,
    /// The server has closed the connection; the number of bytes of an incomplete sample.
    End(usize),
}

/// A connection, or the lack of one, and the settings.
pub(super) struct ServerLink {
    address: String,
    state: Mutex<LinkState>,
}

struct LinkState {
    settings: ServerSettings,
    connection: Option<Connection>,
}

struct Connection {
    socket: TcpStream,
    header: Header,
    /// Bytes of whole samples that were passed on.
    passed: u64,
    /// The first byte of an incomplete sample.
    carried: Option<u8>,
    /// Settings, and the number of bytes before their first sample.
    changes: VecDeque<(u64, ServerSettings)>,
}

impl ServerLink {
    pub fn new(address: &str, settings: ServerSettings) -> Arc<Self> {
        let state = Mutex::new(LinkState { settings, connection: None });
        Arc::new(Self { address: address.to_owned(), state })
    }

    /// Begins a connection behind its header: sends all settings, and returns them.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn begin(&self, socket: TcpStream, header: Header) -> io::Result<ServerSettings> {
        let mut state = self.lock();
        state.settings.gain = snapped(header, state.settings.gain);
        let mut connection =
            Connection { socket, header, passed: 0, carried: None, changes: VecDeque::new() };
        connection.send(&state.settings.commands(None))?;
        state.connection = Some(connection);
        Ok(state.settings)
    }

    /// Ends the connection.
    pub fn end(&self) {
        self.lock().connection = None;
    }

    /// Changes the settings, and sends the difference to the server, if there is one.
    ///
    /// # Errors
    /// Too many changes wait, or the server takes no commands. The settings are unchanged.
    pub fn change(&self, change: impl FnOnce(&mut ServerSettings)) -> io::Result<ServerSettings> {
        let mut state = self.lock();
        let mut settings = state.settings;
        change(&mut settings);
        if let Some(connection) = &mut state.connection {
            settings.gain = snapped(connection.header, settings.gain);
        }
        let from = state.settings;
        if let Some(connection) = &mut state.connection {
            let commands = settings.commands(Some(from));
            if !commands.is_empty() {
                connection.change(settings, &commands)?;
            }
        }
        state.settings = settings;
        Ok(settings)
    }

    /// Reads samples that have arrived. Does not wait. `out` has place for one sample at least.
    ///
    /// # Errors
    /// The connection has failed.
    pub fn read(&self, out: &mut [u8]) -> io::Result<Arrival> {
        match &mut self.lock().connection {
            Some(connection) => connection.read(out),
            None => Ok(Arrival::End(0)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the header of a server that is there.
    fn header(&self) -> Result<Header, TunerError> {
        let header = self.lock().connection.as_ref().map(|connection| connection.header);
        header.ok_or_else(|| TunerError::Gone { device: self.device(None) })
    }

    /// Returns the settings of a server that is there.
    fn settings(&self) -> Result<ServerSettings, TunerError> {
        self.header()?;
        Ok(self.lock().settings)
    }

    fn device(&self, header: Option<Header>) -> String {
        let name = header.map_or("the rtl_tcp server", Header::name);
        format!("{name} at {}", self.address)
    }

    /// Changes the settings for a client of the tuner.
    fn tune(
        &self,
        setting: TunerSetting,
        at_ns: Option<i64>,
        change: impl FnOnce(&mut ServerSettings),
    ) -> Result<ServerSettings, TunerError> {
        self.settings()?;
        TunerError::check_untimed(setting, at_ns, "rtl_tcp")?;
        self.change(change).map_err(|error| TunerError::Failed { setting, reason: error.to_string() })
    }
}

impl Connection {
    fn change(&mut self, settings: ServerSettings, commands: &[Command]) -> io::Result<()> {
        if self.changes.len() >= CHANGES_MAX {
            return Err(io::Error::other(format!("{CHANGES_MAX} changes wait for their samples")));
        }
        self.send(commands)?;
        // The bytes that have arrived were sampled before the command.
        let arrived = self.passed + u64::from(self.carried.is_some()) + ioctl_fionread(&self.socket)?;
        let from = arrived.next_multiple_of(2);
        match self.changes.back_mut() {
            Some(last) if last.0 == from => last.1 = settings,
            _ => self.changes.push_back((from, settings)),
        }
        Ok(())
    }

    /// Sends commands. A command that is sent in part would shift all later ones: the connection
    /// then ends.
    fn send(&mut self, commands: &[Command]) -> io::Result<()> {
        let bytes: Vec<u8> = commands.iter().flat_map(|command| command.encode()).collect();
        let sent = self.socket.write(&bytes);
        match sent {
            Ok(count) if count == bytes.len() => Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                Err(io::Error::other("the server takes no commands"))
            }
            sent => {
                self.socket.shutdown(Shutdown::Both)?;
                let error = sent.err().unwrap_or_else(|| io::Error::other("the server takes no commands"));
                Err(error)
            }
        }
    }

    fn read(&mut self, out: &mut [u8]) -> io::Result<Arrival> {
        let mut room = out.len() - out.len() % 2;
        if let Some((from, settings)) = self.changes.front().copied() {
            let before = from.saturating_sub(self.passed);
            if before == 0 {
                self.changes.pop_front();
                return Ok(Arrival::Settings(settings));
            }
            room = room.min(usize::try_from(before).unwrap_or(usize::MAX));
        }
        let mut filled = 0;
        if let Some(byte) = self.carried {
            (out[0], filled) = (byte, 1);
        }
        match self.socket.read(&mut out[filled..room]) {
            Ok(0) => return Ok(Arrival::End(filled)),
            Ok(count) => filled += count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(Arrival::Nothing);
            }
            Err(error) => return Err(error),
        }
        let whole = filled - filled % 2;
        self.carried = (whole < filled).then(|| out[whole]);
        self.passed += whole as u64;
        Ok(if whole > 0 { Arrival::Samples(whole) } else { Arrival::Nothing })
    }
}

/// Returns the gain of the tuner's table that is nearest to a gain, in tenths of dB.
fn snapped(header: Header, gain: i32) -> i32 {
    header.gain_table().iter().copied().min_by_key(|own| (own - gain).abs()).unwrap_or(gain)
}

/// Returns a whole number of Hz.
fn hertz(setting: TunerSetting, value: f64, range: TunerRange) -> Result<u32, TunerError> {
    TunerRange::check(setting, value, &[range])?;
    Ok(value.round() as u32)
}

/// The frequencies that a command can have. The ranges of the tuners are narrower, but a server may
/// have another device than the header names.
const FREQUENCY_RANGE: TunerRange = TunerRange { min: 0.0, max: u32::MAX as f64, step: 1.0 };

/// The rates that a command can have.
const RATE_RANGE: TunerRange = TunerRange { min: 1.0, max: u32::MAX as f64, step: 1.0 };

/// The tuner of a server.
pub(super) struct ServerTuner(pub Arc<ServerLink>);

impl Tuner for ServerTuner {
    fn frequency(&self) -> Result<f64, TunerError> {
        Ok(self.0.settings()?.frequency_hz.into())
    }

    fn set_frequency(&self, frequency_hz: f64, at_ns: Option<i64>) -> Result<f64, TunerError> {
        let hz = hertz(TunerSetting::Frequency, frequency_hz, FREQUENCY_RANGE)?;
        let reached = self.0.tune(TunerSetting::Frequency, at_ns, |settings| settings.frequency_hz = hz)?;
        Ok(reached.frequency_hz.into())
    }

    fn rate(&self) -> Result<f64, TunerError> {
        Ok(self.0.settings()?.rate_hz.into())
    }

    fn set_rate(&self, rate_hz: f64, at_ns: Option<i64>) -> Result<f64, TunerError> {
        let hz = hertz(TunerSetting::Rate, rate_hz, RATE_RANGE)?;
        let reached = self.0.tune(TunerSetting::Rate, at_ns, |settings| settings.rate_hz = hz)?;
        Ok(reached.rate_hz.into())
    }

    fn gain(&self) -> Result<f64, TunerError> {
        let settings = self.0.settings()?;
        // The device does not report the gain that it has set.
        match settings.agc {
            false => Ok(f64::from(settings.gain) / 10.0),
            true => missing(self, TunerSetting::Gain),
        }
    }

    fn set_gain(&self, gain_db: f64, at_ns: Option<i64>) -> Result<f64, TunerError> {
        let table = self.0.header()?.gain_table();
        let range = match (table.first(), table.last()) {
            (Some(min), Some(max)) => {
                TunerRange { min: f64::from(*min) / 10.0, max: f64::from(*max) / 10.0, step: 0.0 }
            }
            _ => GAIN_RANGE,
        };
        TunerRange::check(TunerSetting::Gain, gain_db, &[range])?;
        let gain = (gain_db * 10.0).round() as i32;
        let reached = self.0.tune(TunerSetting::Gain, at_ns, |settings| {
            (settings.gain, settings.agc) = (gain, false);
        })?;
        Ok(f64::from(reached.gain) / 10.0)
    }

    fn automatic_gain(&self) -> Result<bool, TunerError> {
        Ok(self.0.settings()?.agc)
    }

    fn set_automatic_gain(&self, is_on: bool, at_ns: Option<i64>) -> Result<bool, TunerError> {
        Ok(self.0.tune(TunerSetting::AutomaticGain, at_ns, |settings| settings.agc = is_on)?.agc)
    }

    fn abilities(&self) -> Result<TunerAbilities, TunerError> {
        let header = self.0.header()?;
        let gains =
            header.gain_table().iter().map(|gain| TunerRange::only(f64::from(*gain) / 10.0)).collect();
        Ok(TunerAbilities {
            device: self.0.device(Some(header)),
            frequency_hz: vec![FREQUENCY_RANGE],
            rate_hz: vec![RATE_RANGE],
            gain_db: if header.gain_table().is_empty() { vec![GAIN_RANGE] } else { gains },
            has_automatic_gain: true,
            ..TunerAbilities::default()
        })
    }
}
