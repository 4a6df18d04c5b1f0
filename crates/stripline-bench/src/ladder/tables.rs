//! The tables of a ladder.

use std::collections::BTreeMap;

use stripline::component::kit::{counted, grouped};
use stripline_waveform::internal::quantity;

use super::{Report, Row, plot};
use crate::figure;
use crate::report::{Grid, Measured, Section, ns};

impl Measured for Report {
    fn head(&self) -> Vec<String> {
        let time =
            format!("{:.0} ms each; a clock reading costs {}", self.seconds_per_run * 1e3, ns(self.clock_ns));
        let noise = format!("a loop without a peer is interrupted for {} at most", ns(self.noise.max));
        vec![
            self.machine.to_string(),
            format!("{} runs of each group of cases, {time}, {noise}", self.rounds),
        ]
    }

    fn sections(&self) -> Vec<Section> {
        let coverage = self.ratios.iter().filter_map(|ratio| ratio.coverage).reduce(f64::min);
        let coverage = coverage.map_or_else(|| "-".into(), |coverage| format!("{:.0}", coverage * 100.0));
        let ratios = format!(
            "the median over runs, and an interval that covers it with {coverage} %; NULL: the interval of the reference \
             over itself; SMALLEST: the smallest difference that these runs could show. Not decided: a null wider than the distance to the target, a target inside the interval, or \
             fewer than 3 runs"
        );
        let one_way = "between two processes (inproc: threads), one processor each; for memcpy, one copy.\nTypical: half \
                       of a round trip, by blocks without the clock. Percentiles: single packets, by one clock for both \
                       sides; each needs 100 samples beyond it.";
        let burst = "the cost of one, in bursts of 1024, all readers polled in turn by one process";
        let chain = "a chain of processes that each copy the packet, on the same two processors";
        let mut sections = vec![
            Section::new("ONE WAY", one_way, self.latency()),
            Section::new("THROUGHPUT", "one way, at full rate", self.throughput()),
        ];
        let optional = [
            ("CALLS", "two-way, OUTSTANDING at a time", self.calls()),
            ("PUBLISH", burst, self.publish()),
            ("PIPELINE", chain, self.pipeline()),
        ];
        let measured = optional.into_iter().filter(|(.., grid)| !grid.rows.is_empty());
        sections.extend(measured.map(|(title, text, grid)| Section::new(title, text, grid)));
        let titles = ["RATIO", "VALUE", "INTERVAL", "NULL", "SMALLEST", "NEAR", "FAR", "TARGET", ""];
        let grid = figure::grid(&titles, &["FAR", "NEAR", "NULL", "INTERVAL", "SMALLEST"], &self.ratios);
        sections.push(Section { lines: self.absent(), ..Section::new("RATIOS", ratios, grid) });
        sections
    }

    fn notes(&self) -> Vec<String> {
        let lost: u64 = self.rows.iter().map(|row| row.lost + row.reordered).sum();
        let warning = || format!("warning: {} lost or out of order; see the JSON", counted(lost, "packet"));
        let notes = self.notes.iter().map(|note| format!("note: {note}"));
        notes.chain((lost > 0).then(warning)).collect()
    }

    fn targets(&self) -> Vec<Result<(), String>> {
        self.ratios.iter().filter_map(|ratio| ratio.target("target")).collect()
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    fn drawing(&self) -> Result<String, String> {
        plot(self)
    }
}

impl Report {
    fn latency(&self) -> Grid {
        let titles = ["SUBJECT", "TRANSPORT", "WAIT", "SIZE", "TYPICAL", "p50", "p99", "p99.9", "MAX"];
        let times = |row: &Row| {
            let times = &row.one_way_ns;
            times.typical?;
            Some([times.typical, times.p50, times.p99, times.p999, times.max].map(ns).to_vec())
        };
        self.grid(&titles, 3, &["p99.9", "p50", "MAX", "p99", "WAIT"], |row| {
            let size = if row.size == 0 { "-".into() } else { grouped(row.size as u64) };
            Some([named(row), vec![size], times(row)?].concat())
        })
    }

    fn throughput(&self) -> Grid {
        let titles = ["SUBJECT", "TRANSPORT", "WAIT", "SIZE", "PACKETS", "BYTES"];
        self.grid(&titles, 3, &["WAIT", "BYTES"], |row| {
            let is_stream = row.per_packet_ns.is_none() && row.outstanding.is_none();
            let rate = row.packets_per_s.filter(|_| is_stream)?;
            let bytes = quantity(row.bytes_per_s.unwrap_or(0.0), "B/s");
            Some([named(row), vec![grouped(row.size as u64), quantity(rate, "/s"), bytes]].concat())
        })
    }

    fn calls(&self) -> Grid {
        self.grid(&["TRANSPORT", "WAIT", "SIZE", "OUTSTANDING", "CALLS"], 2, &[], |row| {
            let outstanding = grouped(row.outstanding?.into());
            let rate = quantity(row.packets_per_s.unwrap_or(0.0), "/s");
            Some(vec![row.transport.clone(), row.wait.clone(), row.size.to_string(), outstanding, rate])
        })
    }

    fn publish(&self) -> Grid {
        self.grid(&["TRANSPORT", "SIZE", "READERS", "A PUBLISH"], 1, &[], |row| {
            let time = ns(Some(row.publish_ns?));
            Some(vec![row.transport.clone(), row.size.to_string(), row.readers.to_string(), time])
        })
    }

    fn pipeline(&self) -> Grid {
        self.grid(&["TRANSPORT", "WAIT", "SIZE", "COMPONENTS", "A PACKET", "PACKETS"], 2, &[], |row| {
            let (size, time) = (grouped(row.size as u64), ns(Some(row.per_packet_ns?)));
            let rate = quantity(row.packets_per_s.unwrap_or(0.0), "/s");
            let names = vec![row.transport.clone(), row.wait.clone(), size, row.components.to_string()];
            Some([names, vec![time, rate]].concat())
        })
    }

    /// Returns a table of the rows that have cells in it.
    fn grid(
        &self,
        titles: &[&'static str],
        words: usize,
        droppable: &'static [&'static str],
        cells: impl Fn(&Row) -> Option<Vec<String>>,
    ) -> Grid {
        let rows = self.rows.iter().filter_map(cells).collect();
        Grid { rows, ..Grid::new(titles, words, droppable) }
    }

    /// Returns the ratios that were not measured, by reason.
    fn absent(&self) -> Vec<String> {
        let mut absent: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for ratio in &self.ratios {
            if let Some(missing) = &ratio.missing {
                absent.entry(missing).or_default().push(&ratio.name);
            }
        }
        let line = |(missing, names): (&str, Vec<&str>)| match names.len() {
            ..=3 => format!("{}: {missing}", names.join(", ")),
            count => format!("{}: {missing}", counted(count as u64, "ratio")),
        };
        absent.into_iter().map(line).collect()
    }
}

/// Returns the first cells of a row: the subject, the transport and the way of waiting.
fn named(row: &Row) -> Vec<String> {
    let what = if row.statistics { row.what.clone() } else { format!("{}, no statistics", row.what) };
    vec![what, row.transport.clone(), row.wait.clone()]
}
