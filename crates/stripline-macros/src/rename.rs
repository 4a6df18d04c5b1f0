//! The rules of serde's `rename_all`.

use syn::{Error, LitStr, Result};

/// A rule for the names of all fields or variants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Case {
    Lower,
    Upper,
    Pascal,
    Camel,
    Snake,
    ScreamingSnake,
    Kebab,
    ScreamingKebab,
}

impl Case {
    const ALL: [(&'static str, Self); 8] = [
        ("lowercase", Self::Lower),
        ("UPPERCASE", Self::Upper),
        ("PascalCase", Self::Pascal),
        ("camelCase", Self::Camel),
        ("snake_case", Self::Snake),
        ("SCREAMING_SNAKE_CASE", Self::ScreamingSnake),
        ("kebab-case", Self::Kebab),
        ("SCREAMING-KEBAB-CASE", Self::ScreamingKebab),
    ];

    /// Returns the rule of that name.
    pub(crate) fn parse(text: &LitStr) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|(name, _)| *name == text.value());
        known.map(|(_, case)| case).ok_or_else(|| Error::new_spanned(text, "serde has no such rule"))
    }

    /// Returns the name of a field. In Rust, fields are written with underscores.
    pub(crate) fn of_field(self, name: &str) -> String {
        let pascal =
            || -> String { name.split('_').map(|word| first(word, char::to_ascii_uppercase)).collect() };
        match self {
            Self::Lower | Self::Snake => name.into(),
            Self::Upper | Self::ScreamingSnake => name.to_ascii_uppercase(),
            Self::Pascal => pascal(),
            Self::Camel => first(&pascal(), char::to_ascii_lowercase),
            Self::Kebab => name.replace('_', "-"),
            Self::ScreamingKebab => name.to_ascii_uppercase().replace('_', "-"),
        }
    }

    /// Returns the name of a variant. In Rust, variants are written with capitals.
    pub(crate) fn of_variant(self, name: &str) -> String {
        let snake = || {
            let mut snake = String::new();
            for (index, letter) in name.char_indices() {
                if index > 0 && letter.is_uppercase() {
                    snake.push('_');
                }
                snake.push(letter.to_ascii_lowercase());
            }
            snake
        };
        match self {
            Self::Pascal => name.into(),
            Self::Lower => name.to_ascii_lowercase(),
            Self::Upper => name.to_ascii_uppercase(),
            Self::Camel => first(name, char::to_ascii_lowercase),
            Self::Snake => snake(),
            Self::ScreamingSnake => snake().to_ascii_uppercase(),
            Self::Kebab => snake().replace('_', "-"),
            Self::ScreamingKebab => snake().to_ascii_uppercase().replace('_', "-"),
        }
    }
}

/// Returns a word with the first letter converted.
fn first(word: &str, letter: fn(&char) -> char) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| letter(&first)).into_iter().chain(letters).collect()
}
