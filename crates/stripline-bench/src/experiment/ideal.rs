//! The time of a pipeline with links that cost nothing.

/// The parameters of the ideal, in addition to the work.
///
/// ```
/// use stripline_bench::experiment::{Shape, ideal};
///
/// // 1000 packets, 3 components of 5 ms each with its own thread: 2 periods to fill, then 1000.
/// let own_threads = Shape { packets: 1000, ..Shape::default() };
/// assert!((ideal(&[0.005; 3], &own_threads) - 5.010).abs() < 1e-9);
/// // Nested calls: one packet at a time in the whole pipeline.
/// assert!((ideal(&[0.005; 3], &Shape { nested: true, ..own_threads }) - 15.0).abs() < 1e-9);
/// // 8 threads per component, and so 8 packets at a time.
/// assert!((ideal(&[0.005; 3], &Shape { threads: 8, ..own_threads }) - 0.635).abs() < 1e-9);
/// // 3 busy components on 2 processors.
/// assert!((ideal(&[0.005; 3], &Shape { cpus: Some(2), ..own_threads }) - 7.5).abs() < 1e-9);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Number of packets that the producer sends.
    pub packets: u32,
    /// Intended seconds between two sends; 0 for no pause.
    pub pace_s: f64,
    /// Whether a send returns only after the next component has finished with the packet and passed
    /// it on. In this case there is never more than one packet in the pipeline.
    pub nested: bool,
    /// Number of packets that a component processes at the same time.
    pub threads: u32,
    /// Number of processors that the work shares; `None` if the work needs no processor.
    pub cpus: Option<usize>,
}

impl Default for Shape {
    fn default() -> Self {
        Self { packets: 1, pace_s: 0.0, nested: false, threads: 1, cpus: None }
    }
}

/// Returns the earliest time at which the last packet can leave the last component, in seconds
/// since the first send. Links and dispatch cost nothing here.
///
/// `services_s` has the mean time for which each component worked on a packet, as *measured*. A
/// sleep takes longer than requested, which is not a cost of the link.
///
/// With `n` packets, service times `s`, pace `p`, and `t` threads per component:
///
/// - Components with separate threads: `Σs + (n / t − 1) · max s`. The slowest component processes
///   all packets, `t` at a time. One packet must reach this component, and must then pass the
///   components after it. The time is at least `Σs + (n − 1) · p`, and at least `Σs`.
/// - Nested calls: `n · Σs`, and at least `Σs + (n − 1) · p`.
/// - Work that needs a processor, on `c` processors: at least the time for all work shared evenly,
///   `n · Σs / c`.
pub fn ideal(services_s: &[f64], shape: &Shape) -> f64 {
    let one: f64 = services_s.iter().sum();
    let slowest = services_s.iter().copied().fold(0.0, f64::max);
    let packets = f64::from(shape.packets);
    let (turn, turns) =
        if shape.nested { (one, packets) } else { (slowest, packets / f64::from(shape.threads.max(1))) };
    let paced = (packets - 1.0).max(0.0) * shape.pace_s;
    let structure = one + (turn * (turns - 1.0).max(0.0)).max(paced);
    let work = shape.cpus.map_or(0.0, |cpus| packets * one / cpus.max(1) as f64);
    structure.max(work)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn is(value: f64, wanted: f64) {
        assert!((value - wanted).abs() < 1e-9, "{value} is not {wanted}");
    }

    #[test]
    fn the_slowest_sets_the_rate_wherever_it_is() {
        let shape = Shape { packets: 11, ..Shape::default() };
        for services in [[3.0, 1.0, 1.0], [1.0, 3.0, 1.0], [1.0, 1.0, 3.0]] {
            is(ideal(&services, &shape), 5.0 + 30.0);
        }
    }

    #[test]
    fn a_slow_producer_sets_it_if_it_is_slower() {
        let shape = Shape { packets: 11, pace_s: 2.0, ..Shape::default() };
        is(ideal(&[1.0, 1.0], &shape), 2.0 + 20.0);
        is(ideal(&[3.0, 1.0], &shape), 4.0 + 30.0);
        is(ideal(&[0.5, 0.5], &Shape { nested: true, ..shape }), 1.0 + 20.0);
        is(ideal(&[2.0, 1.0], &Shape { nested: true, ..shape }), 33.0);
    }

    #[test]
    fn a_pool_works_on_as_many_packets_at_once_as_it_has_threads() {
        let pool = Shape { packets: 12, threads: 4, ..Shape::default() };
        is(ideal(&[4.0, 8.0], &pool), 4.0 + 24.0);
        is(ideal(&[4.0, 8.0], &Shape { packets: 4, ..pool }), 12.0);
        is(ideal(&[4.0, 8.0], &Shape { packets: 2, ..pool }), 12.0);
        is(ideal(&[4.0, 8.0], &Shape { pace_s: 3.0, ..pool }), 12.0 + 33.0);
    }

    #[test]
    fn processors_bound_only_what_needs_them() {
        let shape = Shape { packets: 10, cpus: Some(2), ..Shape::default() };
        is(ideal(&[1.0; 4], &shape), 20.0);
        is(ideal(&[1.0; 4], &Shape { cpus: Some(8), ..shape }), 4.0 + 9.0);
        is(ideal(&[1.0; 4], &Shape { nested: true, ..shape }), 40.0);
        is(ideal(&[1.0; 4], &Shape { cpus: Some(0), ..shape }), 40.0);
    }

    #[test]
    fn nothing_takes_no_time() {
        is(ideal(&[], &Shape { packets: 0, ..Shape::default() }), 0.0);
        is(ideal(&[2.0], &Shape::default()), 2.0);
    }
}
