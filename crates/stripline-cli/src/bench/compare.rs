//! `stripline bench compare OLD NEW`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use stripline_bench::compare::{self, BenchResult, RESULT_BYTES_MAX};

use super::arguments::CompareArguments;
use super::{Outputs, wrong};
use crate::Exit;

pub(crate) fn compare(arguments: &CompareArguments) -> Exit {
    let found = read(&arguments.old).and_then(|old| {
        let new = read(&arguments.new)?;
        compare::compare(&old, &new, arguments.limit)
    });
    match found {
        Ok(found) => {
            let json = arguments.json.destination();
            Outputs { json, drawing: None, requires_targets: false }.of(|_| Ok(found))
        }
        Err(problem) => wrong(&problem),
    }
}

fn read(path: &Path) -> Result<BenchResult, String> {
    let shown = path.display();
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(RESULT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("cannot read {shown}: {error}"))?;
    BenchResult::parse(&bytes).map_err(|problem| format!("{shown}: {problem}"))
}
