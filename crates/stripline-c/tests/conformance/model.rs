//! The output that a receiver must print for a stream: the simplest model, which counts.

/// A stream under way.
#[derive(Default)]
pub struct Stream {
    sequence: u64,
    index: u64,
}

impl Stream {
    /// Returns the tokens of the next `count` packets. The sizes are taken in turn.
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

/// Returns the tokens with a gap before the first one.
pub fn behind(gap: &str, mut tokens: Vec<String>) -> Vec<String> {
    if let Some(first) = tokens.first_mut() {
        first.push_str(&format!("/{gap}"));
    }
    tokens
}

/// Returns the line for these tokens, followed by an outcome.
pub fn line(tokens: &[String], outcome: &str) -> String {
    [tokens, &[outcome.to_string()]].concat().join(" ")
}

/// Returns the numbers of samples in the form of a command.
pub fn list(sizes: &[u64]) -> String {
    sizes.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}
