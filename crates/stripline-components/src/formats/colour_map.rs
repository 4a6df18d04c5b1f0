//! Colours for levels, with evenly growing brightness: dark for low levels, bright for high levels.

/// Colours at even distances, from the lowest level to the highest: the map "viridis" of matplotlib
/// (CC0). The brightness grows evenly, also in print and for colour-blind readers.
const COLOURS: [[u8; 3]; 9] = [
    [68, 1, 84],
    [71, 44, 122],
    [59, 81, 139],
    [44, 113, 142],
    [33, 144, 141],
    [39, 173, 129],
    [92, 200, 99],
    [170, 220, 50],
    [253, 231, 37],
];

/// Returns the colour (red, green, blue) of a level from 0 to 1. Other levels are clamped to this
/// range, and NaN has the colour of 0.
pub(crate) fn colour(level: f32) -> [u8; 3] {
    let place = if level.is_nan() { 0.0 } else { level.clamp(0.0, 1.0) * (COLOURS.len() - 1) as f32 };
    let below = (place as usize).min(COLOURS.len() - 2);
    let part = place - below as f32;
    let mix = |k: usize| {
        let (a, b) = (f32::from(COLOURS[below][k]), f32::from(COLOURS[below + 1][k]));
        (a + (b - a) * part).round() as u8
    };
    [mix(0), mix(1), mix(2)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brightness_grows_with_the_level() {
        let brightness = |level: f32| {
            let [r, g, b] = colour(level).map(f32::from);
            0.299 * r + 0.587 * g + 0.114 * b
        };
        for n in 0..100 {
            let level = n as f32 / 100.0;
            assert!(brightness(level + 0.01) > brightness(level), "{level}");
        }
        assert_eq!((colour(-1.0), colour(f32::NAN), colour(9.0)), (COLOURS[0], COLOURS[0], COLOURS[8]));
    }
}
