//! The channels of devices that components of this process use.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stripline::Result;

use super::library::{Device, Way};
use super::settings::wrong;

/// A channel of a device: the place of the open device, the direction, and the number.
type Channel = (usize, bool, usize);

static CLAIMED: Mutex<BTreeSet<Channel>> = Mutex::new(BTreeSet::new());

/// An open device, with channels for one component alone. SoapySDR returns the same device to a
/// second component of the process, also if other arguments select the device, and each of them
/// would get a part of the samples.
pub(super) struct ClaimedDevice {
    channels: Vec<Channel>,
    device: Arc<Device>,
}

impl ClaimedDevice {
    /// Claims channels, until the value is dropped.
    ///
    /// # Errors
    /// Another component of this process uses one of them.
    pub fn new(device: Arc<Device>, name: &str, way: Way, channels: &[usize]) -> Result<Self> {
        let of_channel = |channel: &usize| (device.place(), way == Way::Receive, *channel);
        let wanted: Vec<Channel> = channels.iter().map(of_channel).collect();
        let mut claimed = claimed();
        if let Some((.., channel)) = wanted.iter().find(|one| claimed.contains(one)) {
            return Err(wrong(
                "device",
                format!("another component of this process uses channel {channel} of `{name}`"),
                "use one component for the device, and a `tee` or a `demultiplexer` behind it",
            ));
        }
        claimed.extend(&wanted);
        Ok(Self { channels: wanted, device })
    }
}

impl Deref for ClaimedDevice {
    type Target = Arc<Device>;

    fn deref(&self) -> &Arc<Device> {
        &self.device
    }
}

impl Drop for ClaimedDevice {
    fn drop(&mut self) {
        let mut claimed = claimed();
        for channel in &self.channels {
            claimed.remove(channel);
        }
    }
}

fn claimed() -> MutexGuard<'static, BTreeSet<Channel>> {
    CLAIMED.lock().unwrap_or_else(PoisonError::into_inner)
}
