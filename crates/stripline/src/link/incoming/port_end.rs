//! The end of a receiving port: by the ends of its senders, and by its own drop.

use super::Incoming;

/// The condition that ends a receiving port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EndsWhen {
    /// The port ends when all its senders have sent their end of stream.
    WithStreams,
    /// The port ends when its only sender is gone, with or without an end of stream.
    WithSender,
    /// The port never ends, because other senders may connect.
    Never,
    /// The only sender has failed, so the port ends behind the packets that have arrived, and each
    /// receive returns this failure.
    Failed(String),
}

impl Incoming {
    /// Makes the drop send a goodbye: no receiver will replace this one. Used for ports that any
    /// process may receive on. A component that fails is restarted instead.
    pub(crate) fn say_goodbye_on_drop(&mut self) {
        self.says_goodbye_on_drop = true;
    }

    /// Makes the drop send a goodbye like [`Incoming::say_goodbye_on_drop`], also in a panic.
    pub(crate) fn always_say_goodbye(&mut self) {
        (self.says_goodbye_on_drop, self.says_goodbye_in_panic) = (true, true);
    }

    /// Sets the condition that ends the port.
    pub(crate) fn set_ends(&mut self, ends: EndsWhen) {
        if ends == EndsWhen::Never {
            // Only a server of calls outlives all its senders.
            self.view.set_serving();
        }
        self.ends = ends;
    }

    /// Returns whether every sender so far has ended.
    pub(crate) fn has_ended(&self) -> bool {
        match &self.ends {
            EndsWhen::WithStreams => {
                !self.events.is_pending()
                    && self.connections.iter().all(|connection| connection.ended)
                    && !(self.open && self.connections.is_empty())
            }
            EndsWhen::WithSender => {
                !self.events.is_pending()
                    && self.connections.iter().all(|connection| connection.inlet.is_none())
            }
            EndsWhen::Never => false,
            // The connections were polled before, and had nothing.
            EndsWhen::Failed(_) => !self.events.is_pending(),
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if !self.connections.is_current() {
            return;
        }
        if let Some(progress) = &self.progress {
            progress.close();
        }
        // A program that panics may be restarted, so it sends no goodbye.
        let says_goodbye = self.says_goodbye_on_drop
            && (self.says_goodbye_in_panic || !std::thread::panicking())
            && !crate::fail_point::is_silent();
        // Senders that no receive has taken up yet get the goodbye as well.
        let mut fresh = self.events.end(says_goodbye);
        if says_goodbye {
            crate::fail_point::fail_point!("goodbye");
            let taken_up = self.connections.iter_mut().filter_map(|o| o.inlet.as_mut());
            taken_up.chain(&mut fresh).for_each(|inlet| inlet.say_goodbye());
            crate::fail_point::fail_point!("goodbye-sent");
        }
    }
}
