//! The channels of devices that components of this process use.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stripline::Result;

use super::library::Way;
use super::settings::wrong;

/// A channel of a device: the arguments that open the device, the direction, and the number.
type Channel = (String, bool, usize);

static CLAIMED: Mutex<BTreeSet<Channel>> = Mutex::new(BTreeSet::new());

/// The use of channels by one component. SoapySDR returns the same device to a second component of
/// the process with the same arguments, and each of them would get a part of the samples.
pub(super) struct Claim(Vec<Channel>);

impl Claim {
    /// Claims channels, until the claim is dropped.
    ///
    /// # Errors
    /// Another component of this process uses one of them.
    pub fn new(device: &str, way: Way, channels: &[usize]) -> Result<Self> {
        let wanted: Vec<Channel> =
            channels.iter().map(|channel| (device.to_owned(), way == Way::Receive, *channel)).collect();
        let mut claimed = claimed();
        if let Some((device, _, channel)) = wanted.iter().find(|one| claimed.contains(one)) {
            return Err(wrong(
                "device",
                format!("another component of this process uses channel {channel} of `{device}`"),
                "use one component for the device, and a `tee` or a `demultiplexer` behind it",
            ));
        }
        claimed.extend(wanted.iter().cloned());
        Ok(Self(wanted))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claimed = claimed();
        for channel in &self.0 {
            claimed.remove(channel);
        }
    }
}

fn claimed() -> MutexGuard<'static, BTreeSet<Channel>> {
    CLAIMED.lock().unwrap_or_else(PoisonError::into_inner)
}
