//! What a receiver must print of a stream: the simplest model, which counts.

/// A stream under way.
#[derive(Default)]
pub struct Stream {
    sequence: u64,
    index: u64,
}

impl Stream {
    /// Returns the tokens of packets that are sent next, of these numbers of samples in turn.
    pub fn send(&mut self, count: usize, sizes: &[u64]) -> Vec<String> {
        let packet = |number: usize| {
            let samples = sizes[number % sizes.len()];
            let token = format!("{}/{}/{samples}", self.sequence, self.index);
            self.sequence += 1;
            self.index += samples;
            token
        };
        (0..count).map(packet).collect()
    }
}

/// Returns the tokens with a gap before the first.
pub fn behind(gap: &str, mut tokens: Vec<String>) -> Vec<String> {
    if let Some(first) = tokens.first_mut() {
        first.push_str(&format!("/{gap}"));
    }
    tokens
}

/// Returns what is printed of tokens with an outcome behind them.
pub fn line(tokens: &[String], outcome: &str) -> String {
    [tokens, &[outcome.to_string()]].concat().join(" ")
}

/// Returns numbers of samples as a command has them.
pub fn list(sizes: &[u64]) -> String {
    sizes.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}
