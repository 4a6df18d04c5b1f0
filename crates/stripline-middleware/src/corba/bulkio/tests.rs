//! Tests of an input without an ORB, and of references.

use super::*;

fn shared(is_complex: bool) -> Arc<InputShared> {
    Arc::new(InputShared {
        name: "test".into(),
        kind: BulkioType::Float,
        is_complex,
        state: Mutex::default(),
        arrived: Condvar::new(),
        has_room: Condvar::new(),
    })
}

const NO_TIME: BulkioTime = BulkioTime { mode: 0, status: 0, offset: 0.0, whole: 0.0, fraction: 0.0 };

#[test]
fn a_call_waits_while_eight_packets_are_ahead_and_an_end_ends_it() {
    let shared = shared(true);
    for number in 0..PACKETS_MAX as u8 {
        assert_eq!(shared.take_packet("s", &[number; 8], NO_TIME, false), Answer::Taken);
    }
    let push = |number: u8| {
        let shared = Arc::clone(&shared);
        std::thread::spawn(move || shared.take_packet("s", &[number; 8], NO_TIME, false))
    };
    let waits = push(8);
    let first = lock(&shared.state).packets.pop_front().unwrap();
    shared.has_room.notify_all();
    assert_eq!((first.bytes, waits.join().unwrap()), (vec![0; 8], Answer::Taken));
    let waits = push(9);
    lock(&shared.state).is_ended = true;
    shared.has_room.notify_all();
    assert_eq!(waits.join().unwrap(), Answer::Ended);
    let state = lock(&shared.state);
    let numbers: Vec<_> = state.packets.iter().map(|packet| packet.bytes[0]).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn streams_have_a_limit_and_end() {
    let shared = shared(false);
    for number in 0..STREAMS_MAX {
        let sri = BulkioSri::unknown(&format!("s{number}"), false);
        assert_eq!(shared.take_stream(&sri), Answer::Taken);
    }
    let one_more = BulkioSri::unknown("more", false);
    assert_eq!(shared.take_stream(&one_more), Answer::Refused);
    assert_eq!(shared.take_packet("more", &[0; 4], NO_TIME, false), Answer::Refused);
    assert_eq!(shared.take_packet("s7", &[], NO_TIME, true), Answer::Taken);
    assert_eq!(shared.take_stream(&one_more), Answer::Taken);
    assert_eq!(lock(&shared.state).refused, 2);
}

#[test]
fn half_of_a_complex_sample_is_refused() {
    let shared = shared(true);
    assert_eq!(shared.take_packet("s", &[0; 12], NO_TIME, false), Answer::Refused);
    assert_eq!(shared.take_stream(&BulkioSri::unknown("s", false)), Answer::Refused);
    assert_eq!(shared.take_packet("s", &[0; 16], NO_TIME, true), Answer::Taken);
    assert!(lock(&shared.state).packets[0].ends);
}

#[test]
fn a_reference_is_one_or_the_name_of_a_file_with_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ior");
    let text = path.to_str().unwrap();
    std::fs::write(&path, "IOR:00ff\n").unwrap();
    assert_eq!(reference_of(text).unwrap().to_str(), Ok("IOR:00ff"));
    assert_eq!(reference_of("corbaloc::127.0.0.1:1/a").unwrap().to_str(), Ok("corbaloc::127.0.0.1:1/a"));
    for (content, expected) in
        [(&b""[..], "has no object reference"), (b"\xff\xfe", "has no object reference")]
    {
        std::fs::write(&path, content).unwrap();
        assert!(reference_of(text).unwrap_err().to_string().contains(expected));
    }
    let large = format!("IOR:{}", "0".repeat(REFERENCE_MAX));
    assert!(reference_of(&large).unwrap_err().to_string().contains("bytes"));
    assert!(reference_of("none.ior").unwrap_err().to_string().contains("cannot read"));
}
