//! Times and defaults in the documents and docstrings: the values in the source.

use crate::tree;

/// A time in the source, and the texts that state it.
struct Stated {
    file: &'static str,
    /// The declaration or the signature with the value.
    source: &'static str,
    /// Documents and other sources, each with the words that state the time.
    texts: &'static [(&'static str, &'static str)],
}

const STATED: &[Stated] = &[
    Stated {
        file: "crates/stripline/src/node/publisher.rs",
        source: "const FINISH_TIME: Duration = Duration::from_secs(10);",
        texts: &[
            ("docs/cpp.md", "The destructor of a publisher ends the stream, and waits at most ten seconds"),
            ("crates/stripline-c/include/stripline.h", "have left this process, ten seconds at most"),
            (
                "bindings/python/python/stripline/_stripline.pyi",
                "def finish(self, timeout: float | None = 10.0)",
            ),
            ("bindings/gnuradio/lib/sending_end.cpp", "constexpr std::chrono::seconds finish_timeout{10};"),
        ],
    },
    Stated {
        file: "crates/stripline/src/component/harness.rs",
        source: "const END_TIME: Duration = Duration::from_secs(60);",
        texts: &[
            ("crates/stripline-c/include/stripline.h", "waits up to a minute"),
            (
                "bindings/cpp/include/stripline/harness.hpp",
                "waits for the end of the component, a minute at most",
            ),
            ("bindings/python/python/stripline/testing.py", "def finish(self, timeout: float | None = 60.0)"),
        ],
    },
    Stated {
        file: "crates/stripline/src/component/harness.rs",
        source: "const ANSWER_TIME: Duration = Duration::from_secs(10);",
        texts: &[
            ("crates/stripline-c/include/stripline.h", "taken or refused the value, ten seconds at most"),
            ("bindings/cpp/include/stripline/harness.hpp", "refused the value, ten seconds at most"),
            ("bindings/python/python/stripline/testing.py", "value: Any, timeout: float | None = 10.0"),
        ],
    },
    Stated {
        file: "crates/stripline/src/call/options.rs",
        source: "deadline: Duration::from_secs(5),",
        texts: &[
            ("docs/guide.md", "and none came within 5s"),
            ("bindings/python/src/node.rs", "signature = (service, *, deadline=5.0"),
        ],
    },
    Stated {
        file: "bindings/python/src/node.rs",
        source: "(topic, samples, *, hold=4, copy=false)",
        texts: &[("docs/python.md", "Up to `hold` packets are in use at once (4 by default)")],
    },
    Stated {
        file: "crates/stripline-cli/src/arguments.rs",
        source: "How long to wait until the components apply the changes #[arg(long, value_name = \"SECONDS\", \
                 value_parser = seconds, default_value = \"5\"",
        texts: &[("docs/control.md", "has not polled within `--timeout` (5 s)")],
    },
    Stated {
        file: "crates/stripline-cli/src/arguments.rs",
        source: "How long to wait until the component has run them #[arg(long, value_name = \"SECONDS\", \
                 value_parser = seconds, default_value = \"30\"",
        texts: &[("docs/control.md", "has not begun within `--timeout` (30 s)")],
    },
    Stated {
        file: "crates/stripline-waveform/src/describe.rs",
        source: "const TIME_MAX: Duration = Duration::from_secs(20);",
        texts: &[
            ("docs/waveform-file.md", "--describe`, for at most 20 s"),
            ("docs/gnuradio.md", "makes the flowgraph, in at most 20 seconds"),
        ],
    },
    Stated {
        file: "crates/stripline-waveform/src/launch/supervisor.rs",
        source: "const STOP_TIME: Duration = Duration::from_secs(5);",
        texts: &[
            ("docs/control.md", "no receiver has taken a packet for five seconds"),
            ("docs/control.md", "still runs after five further seconds is killed"),
            ("crates/stripline-cli/src/arguments.rs", "no receiver has taken one for 5 s"),
        ],
    },
    Stated {
        file: "crates/stripline-waveform/src/launch/supervisor.rs",
        source: "const DRAIN_TIME: Duration = Duration::from_secs(60);",
        texts: &[
            ("docs/control.md", "for five seconds, or after a minute"),
            ("crates/stripline-cli/src/arguments.rs", "for 5 s, or after a minute"),
        ],
    },
    Stated {
        file: "crates/stripline-waveform/src/launch/supervisor/requests.rs",
        source: "const END_TIME: Duration = Duration::from_secs(10);",
        texts: &[("docs/control.md", "still runs after ten seconds, it is left alone")],
    },
    Stated {
        file: "crates/stripline-waveform/src/restart.rs",
        source: "const RECOVERY_TIME: Duration = Duration::from_secs(10);",
        texts: &[("docs/waveform-file.md", "after ten seconds of running it is 20 ms again")],
    },
    Stated {
        file: "crates/stripline-cli/src/web/stream.rs",
        source: "const SEND_TIME: Duration = Duration::from_secs(10);",
        texts: &[("docs/web.md", "within ten seconds is closed")],
    },
    Stated {
        file: "crates/stripline-cli/src/web/stream.rs",
        source: "const REQUEST_TIME: Duration = Duration::from_secs(5);",
        texts: &[("docs/web.md", "complete within 5 s")],
    },
    Stated {
        file: "crates/stripline/src/sys/runtime_folder.rs",
        source: "const LOCK_TIME: Duration = Duration::from_secs(5);",
        texts: &[("docs/guide.md", "others get an error after five seconds")],
    },
    Stated {
        file: "crates/stripline/src/sys/lease.rs",
        source: "const LEASE: Duration = Duration::from_secs(20);",
        texts: &[("docs/transports.md", "after twenty while data is on its way")],
    },
    Stated {
        file: "crates/stripline-middleware/src/zeromq/push.rs",
        source: "const FINISH_TIME: Duration = Duration::from_secs(5);",
        texts: &[("docs/transports/zeromq.md", "at most 5 s if the receiver's process is stopped")],
    },
    Stated {
        file: "crates/stripline-middleware/src/zenoh/zenoh_sink.rs",
        source: "const FINISH_TIME: Duration = Duration::from_secs(5);",
        texts: &[("docs/transports/zenoh.md", "at most 5 s if the receiver's process is stopped")],
    },
    Stated {
        file: "crates/stripline-middleware/src/dds/dds_writer.rs",
        source: "const FINISH_TIME: Duration = Duration::from_secs(5);",
        texts: &[("docs/transports/dds.md", "at most 5 s if that")],
    },
    Stated {
        file: "crates/stripline-middleware/src/zeromq/gr_zeromq/mod.rs",
        source: "\"repeat_s\", 1.0,",
        texts: &[("docs/gnuradio.md", "repeats these three each second (`repeat_s`)")],
    },
    Stated {
        file: "crates/stripline-components/src/components/network/connector.rs",
        source: "(Duration::from_secs(30), Duration::from_secs(10), 3);",
        texts: &[("docs/join.md", "A vanished host is noticed after a minute")],
    },
];

/// Returns the text with one space between words, without the marks of comments.
fn words(path: &str) -> String {
    let text = tree::read(path);
    let words = text.split_whitespace().filter(|word| !["///", "//", "*", "\\"].contains(word));
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn times_in_the_documents_are_those_of_the_source() {
    let mut missing = Vec::new();
    for Stated { file, source, texts } in STATED {
        let here = [(*file, *source)];
        for (path, stated) in here.iter().chain(*texts) {
            if !words(path).contains(stated) {
                missing.push(format!("{path} does not state `{stated}`, as `{source}` in {file}"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
