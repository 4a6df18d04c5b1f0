//! The levels of log records: for all targets and for single ones.

use std::fmt;

use log::LevelFilter;

/// The environment variable that sets the levels.
pub const LOG_VARIABLE: &str = "STRIPLINE_LOG";

/// Levels such as `info` or `warn,stripline::node=debug`. The longest matching target decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFilter {
    default: Option<LevelFilter>,
    targets: Vec<(String, LevelFilter)>,
}

impl Default for LogFilter {
    /// Returns the filter for programs without a setting: this library's warnings and errors.
    fn default() -> Self {
        Self { default: None, targets: vec![("stripline".into(), LevelFilter::Warn)] }
    }
}

impl LogFilter {
    /// Parses levels separated by commas.
    ///
    /// # Errors
    /// The item that is neither a level nor `target=level`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut filter = Self { default: None, targets: Vec::new() };
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            match item.split_once('=').map(|(target, level)| (target.trim(), level.trim())) {
                Some(("", _)) => return Err(format!("`{item}` has no target before `=`")),
                Some((target, level)) => filter.targets.push((target.into(), parse_level(level)?)),
                None => filter.default = Some(parse_level(item)?),
            }
        }
        if filter.default.is_none() && !filter.targets.iter().any(|(target, _)| target == "stripline") {
            filter.targets.extend(Self::default().targets);
        }
        Ok(filter)
    }

    /// Reads the environment variable. `None`: it is unset or empty.
    ///
    /// # Errors
    /// The problem with the variable's value, and the remedy.
    pub fn from_environment() -> Result<Option<Self>, String> {
        let Some(text) = std::env::var_os(LOG_VARIABLE).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let parsed = text.to_str().ok_or_else(|| "it is not UTF-8".to_string()).and_then(Self::parse);
        parsed.map(Some).map_err(|problem| {
            format!("{LOG_VARIABLE}={}: {problem}; an example: warn,stripline::node=debug", text.display())
        })
    }

    /// Returns the level of a target.
    pub fn level(&self, target: &str) -> LevelFilter {
        let fits = |name: &str| {
            target.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        let fitting = self.targets.iter().filter(|(name, _)| fits(name));
        let longest = fitting.max_by_key(|(name, _)| name.len()).map(|(_, level)| *level);
        longest.or(self.default).unwrap_or(LevelFilter::Off)
    }

    /// Returns the most verbose level of any target.
    pub fn max_level(&self) -> LevelFilter {
        let levels = self.targets.iter().map(|(_, level)| *level).chain(self.default);
        levels.max().unwrap_or(LevelFilter::Off)
    }

    /// Returns whether there is a level for all targets.
    pub fn has_default(&self) -> bool {
        self.default.is_some()
    }

    /// Raises every level to at least the given level.
    #[must_use]
    pub fn at_least(mut self, level: LevelFilter) -> Self {
        self.targets.iter_mut().for_each(|(_, own)| *own = level.max(*own));
        self.default = Some(self.default.map_or(level, |own| own.max(level)));
        self
    }
}

impl fmt::Display for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = |level: LevelFilter| level.as_str().to_lowercase();
        let pairs = self.targets.iter().map(|(target, own)| format!("{target}={}", level(*own)));
        let items: Vec<String> = self.default.map(level).into_iter().chain(pairs).collect();
        f.write_str(&items.join(","))
    }
}

fn parse_level(text: &str) -> Result<LevelFilter, String> {
    let problem = || format!("`{text}` is not a level; there are off, error, warn, info, debug, trace");
    text.parse().map_err(|_| problem())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_target_decides() {
        let filter = LogFilter::parse("warn, stripline=error,stripline::node=Debug").unwrap();
        assert_eq!(filter.level("stripline::node::deep"), LevelFilter::Debug);
        assert_eq!(filter.level("stripline::nodes"), LevelFilter::Error);
        assert_eq!(filter.level("other"), LevelFilter::Warn);
        assert_eq!(filter.max_level(), LevelFilter::Debug);
        assert_eq!(LogFilter::parse(&filter.to_string()), Ok(filter));
    }

    #[test]
    fn warnings_of_the_library_stay_unless_they_are_set() {
        assert_eq!(LogFilter::parse("mine=info").unwrap().level("stripline::call"), LevelFilter::Warn);
        assert_eq!(LogFilter::parse("stripline=off").unwrap().level("stripline::call"), LevelFilter::Off);
        assert_eq!(LogFilter::default().level("other"), LevelFilter::Off);
        assert_eq!(LogFilter::parse(" , "), Ok(LogFilter::default()));
    }

    #[test]
    fn levels_are_raised_and_never_lowered() {
        let filter = LogFilter::parse("stripline::node=trace").unwrap().at_least(LevelFilter::Info);
        assert_eq!(filter.level("stripline::node"), LevelFilter::Trace);
        assert_eq!(filter.level("stripline::call"), LevelFilter::Info);
        assert_eq!(filter.level("other"), LevelFilter::Info);
    }

    #[test]
    fn bad_items_are_named() {
        for (bad, words) in
            [("loud", "`loud` is not a level"), ("a=", "`` is not a level"), ("=info", "no target")]
        {
            assert!(LogFilter::parse(bad).unwrap_err().contains(words), "{bad}");
        }
    }
}
