//! iceoryx2: publish-subscribe, with payloads written in place. Both sides poll.

use std::hint::spin_loop;

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::port::update_connections::UpdateConnections;
use iceoryx2::prelude::*;

use super::super::case::{Case, Measure};
use super::super::measure::{self, Receiver, Sender, Side};
use crate::Problem;
use crate::timeout::wait_until;

/// Connects one side, which publishes on one service and subscribes to the service of the peer.
pub(crate) fn connect(case: &Case, place: u32, domain: &str) -> Result<Box<dyn Side>, Problem> {
    set_log_level(LogLevel::Fatal);
    let depth = case.places();
    let node = NodeBuilder::new().create::<ipc::Service>().map_err(text("node"))?;
    let service = |name: &str| {
        let name = format!("{domain}-{name}");
        node.service_builder(&name.as_str().try_into().map_err(text("name"))?)
            .publish_subscribe::<[u8]>()
            // Without overflow, no packet is lost.
            .enable_safe_overflow(false)
            .subscriber_max_buffer_size(depth)
            .max_publishers(1)
            .max_subscribers(1)
            .open_or_create()
            .map_err(text("service"))
    };
    let (own, peers) = if place == 0 { ("there", "back") } else { ("back", "there") };
    let (own, peers) = (service(own)?, service(peers)?);
    let publisher = own
        .publisher_builder()
        .initial_max_slice_len(case.size)
        .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
        .create()
        .map_err(text("publisher"))?;
    let subscriber = peers.subscriber_builder().create().map_err(text("subscriber"))?;
    // In a stream, each side keeps only one end, and drops the other end as soon as it is
    // connected.
    let is_stream = case.measure == Measure::Throughput;
    wait_until::<Problem>("iceoryx2: the peer did not connect", || {
        let has_reader = is_stream && place > 0 || own.dynamic_config().number_of_subscribers() > 0;
        Ok(has_reader && (is_stream && place == 0 || peers.dynamic_config().number_of_publishers() > 0))
    })?;
    publisher.update_connections().map_err(text("connections"))?;
    let sender = Iceoryx2Sender { publisher, size: case.size };
    Ok(measure::side(case, place, sender, Iceoryx2Receiver { subscriber }))
}

fn text<E: std::fmt::Debug>(what: &str) -> impl Fn(E) -> Problem + '_ {
    move |error| format!("iceoryx2: {what}: {error:?}")
}

struct Iceoryx2Sender {
    publisher: Publisher<ipc::Service, [u8], ()>,
    size: usize,
}

impl Sender for Iceoryx2Sender {
    fn send(&mut self, word: u64) -> Result<(), Problem> {
        let mut sample = self.publisher.loan_slice_uninit(self.size).map_err(text("loan"))?;
        let place = sample.payload_mut();
        // SAFETY: any bytes are valid, and all of these are written before they are read.
        let bytes = unsafe { &mut *(std::ptr::from_mut(place) as *mut [u8]) };
        measure::write(bytes, word);
        // SAFETY: the complete payload was just written.
        unsafe { sample.assume_init() }.send().map_err(text("send"))?;
        Ok(())
    }
}

struct Iceoryx2Receiver {
    subscriber: Subscriber<ipc::Service, [u8], ()>,
}

impl Receiver for Iceoryx2Receiver {
    fn receive(&mut self) -> Result<u64, Problem> {
        loop {
            if let Some(sample) = self.subscriber.receive().map_err(text("receive"))? {
                return measure::read(&sample);
            }
            spin_loop();
        }
    }
}
