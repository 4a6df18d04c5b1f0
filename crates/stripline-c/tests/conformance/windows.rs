//! Windows: a number of samples in a row, across packets.

use crate::pair::Pair;

const SIZES: [u64; 6] = [7, 0, 100, 1, 3, 64];

pub fn windows_with_a_hop_cross_packets(pair: &mut Pair) {
    for (samples, hop) in [(16, 16), (16, 5), (50, 20), (1, 1)] {
        pair.open("");
        pair.receiver().ok("windows in numbers u8");
        pair.sender().ok("publish out numbers u8");
        pair.sender().ok("receivers out 1");
        pair.sender().expect("send out 6 7,0,100,1,3,64", "ok 6");
        pair.sender().ok("finish out 60000");
        let answer = pair.receiver().order(&format!("window in 1000 {samples} {hop} 60000"));
        let mut tokens: Vec<&str> = answer.split(' ').collect();
        assert_eq!(tokens.pop(), Some("ended"), "{answer}");
        assert_eq!(tokens, expected(samples, hop));
        pair.close();
    }
}

/// Returns the tokens of windows of `samples` samples and hop `hop`. The sequence is the number of
/// the packet with the first sample.
fn expected(samples: u64, hop: u64) -> Vec<String> {
    let all: u64 = SIZES.iter().sum();
    let (mut tokens, mut at) = (Vec::new(), 0);
    while at < all {
        let mut end = 0;
        let of = SIZES.iter().position(|size| {
            end += size;
            at < end
        });
        let length = samples.min(all - at);
        let whole = if length == samples { "whole" } else { "short" };
        tokens.push(format!("{}/{at}/{length}/{whole}", of.unwrap()));
        at += if length == samples { hop } else { length };
    }
    tokens
}
