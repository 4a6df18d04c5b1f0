//! Tests of recordings, with every kind of damage.

use super::*;
use proptest::prelude::*;

fn gap() -> Gap {
    Gap { first: 2, packets: 3, samples: 30, reason: GapReason::Overflow }
}

/// Writes a recording with every kind of entry.
fn written(folder: &Path) -> Vec<u8> {
    let path = folder.join("a.slrec");
    let info = RecordingInfo { port: "a.out".into(), ..RecordingInfo::new(TypeName::of::<u8>()) };
    let mut writer = RecordingWriter::create(&path, &info).unwrap();
    writer.stream(&StreamInfo::new("a").sample_rate_hz(10.0)).unwrap();
    writer.packet(&RecordedPacket { sequence: 1, time_ns: -5, ..Default::default() }, b"hello").unwrap();
    writer.gap(&gap()).unwrap();
    writer.packet(&RecordedPacket { sequence: 5, sample_index: 40, ..Default::default() }, b"").unwrap();
    writer.restart().unwrap();
    let bytes = writer.finish().unwrap();
    let all = std::fs::read(&path).unwrap();
    assert_eq!(all.len() as u64, bytes);
    assert!(RecordingWriter::create(&path, &info).is_err(), "an existing file is kept");
    all
}

/// An entry, with the payload of a packet.
type Found = (RecordingEntry, Vec<u8>);

/// Reads all entries. Returns them, and whether the recording is truncated.
fn read(bytes: &[u8]) -> Result<(Vec<Found>, bool), FormatError> {
    let mut reader = RecordingReader::new(bytes, Path::new("x.slrec"))?;
    let mut entries = Vec::new();
    while let Some(entry) = reader.next_entry()? {
        let payload = if matches!(entry, RecordingEntry::Packet(_)) { reader.payload() } else { &[] };
        entries.push((entry, payload.to_vec()));
    }
    Ok((entries, reader.is_truncated()))
}

#[test]
fn every_entry_comes_back_and_a_truncated_file_is_read_up_to_there() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = written(folder.path());
    let (all, truncated) = read(&bytes).unwrap();
    assert!(!truncated);
    assert_eq!((all.len(), &all[1].1[..]), (6, &b"hello"[..]));
    assert_eq!(all[2].0, RecordingEntry::Gap(gap()));
    assert_eq!(all[5].0, RecordingEntry::End { packets: 2, missing: 3 });
    let mut most = 0;
    for length in 0..bytes.len() {
        match read(&bytes[..length]) {
            Ok((entries, truncated)) => {
                assert!(truncated && entries[..] == all[..entries.len()] && entries.len() >= most);
                most = entries.len();
            }
            Err(error) => assert!(most == 0 && error.to_string().contains("x.slrec"), "{error}"),
        }
    }
    assert_eq!(most, 5);
}

#[test]
fn packets_that_another_program_has_removed_are_missing() {
    let folder = tempfile::tempdir().unwrap();
    let info = RecordingInfo::new(TypeName::of::<i16>());
    for (removed, is_replaced) in [(0, false), (1, false), (3, false), (4, true)] {
        let path = folder.path().join(format!("{removed}.slrec"));
        let mut writer = RecordingWriter::create(&path, &info).unwrap();
        for sequence in 0..4 {
            let place = RecordedPacket { sequence, ..Default::default() };
            writer.packet(&place, &[1; 20]).unwrap();
        }
        writer.flush().unwrap();
        let length = path.metadata().unwrap().len();
        // A record of 48 bytes, 20 of samples and 4 of zeros. The rest of the next one stays.
        let left = if removed == 0 { length } else { length - 72 * removed + 7 };
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len(left).unwrap();
        if is_replaced {
            std::fs::remove_file(&path).unwrap();
            std::fs::copy(folder.path().join("0.slrec"), &path).unwrap();
        }
        let outcome = writer.finish().map_err(|error| error.to_string());
        match removed {
            0 => assert!(outcome.is_ok(), "{outcome:?}"),
            _ => assert!(outcome.unwrap_err().contains("shortened by another program meanwhile")),
        }
        let found = RecordingCounts {
            packets: 4 - removed,
            bytes: 20 * (4 - removed),
            missing: removed,
            missing_samples: 10 * removed,
            gaps: u64::from(removed > 0),
        };
        assert_eq!(writer.kept(), found);
        let (entries, truncated) = read(&std::fs::read(&path).unwrap()).unwrap();
        if !is_replaced {
            let packets = entries.iter().filter(|entry| matches!(entry.0, RecordingEntry::Packet(_)));
            assert_eq!((packets.count() as u64, truncated), (found.packets, removed > 0));
        }
    }
}

#[test]
fn foreign_files_and_other_versions_are_refused() {
    let refused = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    assert!(refused(b"RIFF0000WAVEfmt 0000").contains("not a recording of a port"));
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = written(folder.path());
    bytes[8] = 2;
    assert!(refused(&bytes).contains("version 2"));
    bytes[8] = 1;
    bytes[12..16].fill(255);
    assert!(refused(&bytes).contains("description"));
}

#[test]
fn a_damaged_record_is_an_error_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = written(folder.path());
    let last = bytes.len() - RECORD_BYTES;
    bytes[last..last + 4].copy_from_slice(&9u32.to_le_bytes());
    let error = read(&bytes).unwrap_err().to_string();
    assert!(error.contains(&format!("damaged at byte {last}")), "{error}");
    bytes[last + 44] ^= 1;
    assert!(read(&bytes).unwrap_err().to_string().contains("there is no record"));
}

/// Writes a recording of packets of equal size, with every kind of entry.
fn filled(folder: &Path, name: &str, first: u8) -> Vec<u8> {
    let path = folder.join(name);
    let payload = TypeName::of::<u8>();
    let info = RecordingInfo { started_ns: first.into(), ..RecordingInfo::new(payload) };
    let mut writer = RecordingWriter::create(&path, &info).unwrap();
    let packet = |writer: &mut RecordingWriter, number: u8, sequence: u64| {
        let place = RecordedPacket { sequence, sample_index: 11 * sequence, time_ns: 7, received_ns: 3 };
        writer.packet(&place, &[first + number; 11]).unwrap();
    };
    writer.stream(&StreamInfo::new("a").sample_rate_hz(10.0)).unwrap();
    (0..3).for_each(|number| packet(&mut writer, number, number.into()));
    writer.gap(&Gap { first: 3, packets: 2, samples: 22, reason: GapReason::Overflow }).unwrap();
    packet(&mut writer, 3, 5);
    writer.stream(&StreamInfo::new("b").sample_rate_hz(10.0)).unwrap();
    packet(&mut writer, 4, 6);
    writer.restart().unwrap();
    packet(&mut writer, 5, 0);
    writer.finish().unwrap();
    std::fs::read(&path).unwrap()
}

/// Returns the parts of a recording: the description, and each record.
fn parts(bytes: &[u8]) -> Vec<Vec<u8>> {
    let length = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().unwrap()) as usize;
    let mut start = (PREFIX_BYTES + length(12)).next_multiple_of(ALIGN);
    let mut parts = vec![bytes[..start].to_vec()];
    while start < bytes.len() {
        let end = start + RECORD_BYTES + length(start + 4).next_multiple_of(ALIGN);
        parts.push(bytes[start..end].to_vec());
        start = end;
    }
    parts
}

/// Returns a recording in the earlier form without checksums.
fn without_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut parts = parts(bytes);
    parts[0][INFO_CHECKSUM].fill(0);
    for record in &mut parts[1..] {
        let head = Head::parse(record.first_chunk().unwrap()).unwrap();
        record[head.checksum_place()].fill(0);
    }
    parts.concat()
}

/// Reads a damaged recording. Asserts that only entries of the whole recording are returned, in
/// order, and that missing entries are reported as an error or a truncation.
#[track_caller]
fn assert_no_silent_loss(whole: &[u8], damaged: &[u8], damage: &str) {
    let (all, _) = read(whole).unwrap();
    let mut found = Vec::new();
    let outcome = RecordingReader::new(damaged, Path::new("x.slrec")).and_then(|mut reader| {
        while let Some(entry) = reader.next_entry()? {
            let payload = if matches!(entry, RecordingEntry::Packet(_)) { reader.payload() } else { &[] };
            found.push((entry, payload.to_vec()));
        }
        Ok(reader.is_truncated())
    });
    assert!(all.starts_with(&found), "{damage}: {found:?}");
    match outcome {
        Ok(true) => {
            // A recording that still has its end record is damaged, not truncated.
            assert!(!damaged.ends_with(&whole[whole.len() - RECORD_BYTES..]), "{damage}: as if truncated");
        }
        Ok(false) => assert_eq!(found.len(), all.len(), "{damage}: silent"),
        Err(error) => {
            let error = error.to_string();
            assert!(error.starts_with("x.slrec: ") && error.matches(": ").count() >= 2, "{damage}: {error}");
        }
    }
}

#[test]
fn no_changed_byte_is_silent() {
    let folder = tempfile::tempdir().unwrap();
    let whole = filled(folder.path(), "a.slrec", 1);
    for at in 0..whole.len() {
        let flipped = (0..8).map(|bit| whole[at] ^ 1 << bit);
        for byte in flipped.chain([0, 255, whole[at].wrapping_add(1)]).filter(|byte| *byte != whole[at]) {
            let mut damaged = whole.clone();
            damaged[at] = byte;
            assert_no_silent_loss(&whole, &damaged, &format!("byte {at} is {byte}"));
            assert!(read(&damaged).is_err(), "byte {at} is {byte}");
        }
    }
}

#[test]
fn a_damaged_description_is_refused_before_it_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let whole = filled(folder.path(), "a.slrec", 1);
    // If its own checksum is damaged, the description is verified with the first record.
    for at in (0..parts(&whole)[0].len()).filter(|at| !INFO_CHECKSUM.contains(at)) {
        for bit in 0..8 {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << bit;
            let opened = RecordingReader::new(&damaged[..], Path::new("x.slrec"));
            assert!(opened.is_err(), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn no_lost_added_or_moved_part_is_silent() {
    let folder = tempfile::tempdir().unwrap();
    let whole = filled(folder.path(), "a.slrec", 1);
    let (mine, whole_other) = (parts(&whole), filled(folder.path(), "b.slrec", 100));
    let other = parts(&whole_other);
    let check = |parts: &[Vec<u8>], damage: &str| {
        let damaged = parts.concat();
        if damaged != whole && damaged != whole_other {
            assert_no_silent_loss(&whole, &damaged, damage);
        }
    };
    for at in 0..mine.len() {
        let changed = |change: &dyn Fn(&mut Vec<Vec<u8>>)| {
            let mut parts = mine.clone();
            change(&mut parts);
            parts
        };
        check(&changed(&|parts| drop(parts.remove(at))), &format!("part {at} is missing"));
        check(&changed(&|parts| parts[at].fill(0)), &format!("part {at} is zero"));
        check(&changed(&|parts| parts[at].clone_from(&other[at])), &format!("part {at} is another's"));
        check(&[&mine[..at], &other[at..]].concat(), &format!("all from part {at} on is another's"));
        check(&mine[..at], &format!("it ends before part {at}"));
        for second in 0..mine.len() {
            check(&changed(&|parts| parts.swap(at, second)), &format!("parts {at} and {second} are swapped"));
            check(
                &changed(&|parts| parts.insert(second, mine[at].clone())),
                &format!("part {at} is there twice, again before {second}"),
            );
            let moved = changed(&|parts| {
                let part = parts.remove(at);
                parts.insert(second, part);
            });
            check(&moved, &format!("part {at} is moved to {second}"));
            if second > at {
                check(
                    &changed(&|parts| drop(parts.drain(at..second))),
                    &format!("parts {at} to {second} are missing"),
                );
            }
        }
    }
}

#[test]
fn no_hole_cut_or_addition_is_silent() {
    let folder = tempfile::tempdir().unwrap();
    let whole = filled(folder.path(), "a.slrec", 1);
    for at in 0..=whole.len() {
        for length in [1, 4, 8, 48, 64, 512].map(|length: usize| length.min(whole.len() - at)) {
            let behind = at + length;
            let zero = [&whole[..at], &vec![0; length], &whole[behind..]].concat();
            if zero != whole {
                assert_no_silent_loss(&whole, &zero, &format!("{length} bytes at {at} are zero"));
            }
            let cut = [&whole[..at], &whole[behind..]].concat();
            if cut != whole {
                assert_no_silent_loss(&whole, &cut, &format!("{length} bytes at {at} are cut out"));
            }
        }
        for more in [&[0][..], &[0; 8], &[0; 4096], b"SLREC\r\n\x1a", &whole[..]] {
            let added = [&whole[..at], more, &whole[at..]].concat();
            assert_no_silent_loss(&whole, &added, &format!("{} bytes more at {at}", more.len()));
        }
        // A file system may leave such zeros of a file that was being written.
        let torn = [&whole[..at], &[0; 4096]].concat();
        assert_no_silent_loss(&whole, &torn, &format!("zeros from {at} on"));
    }
}

#[test]
fn a_recording_behind_another_and_other_bytes_there_are_errors_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let whole = filled(folder.path(), "a.slrec", 1);
    for bytes in [whole.clone(), without_checksums(&whole)] {
        for more in [&bytes[..], b"\n", &[0; 512]] {
            let error = read(&[&bytes[..], more].concat()).unwrap_err().to_string();
            let place = format!("damaged at byte {}, the file goes on", bytes.len());
            assert!(error.contains(&place), "{error}");
        }
    }
}

#[test]
fn a_truncated_recording_names_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let whole = filled(folder.path(), "a.slrec", 1);
    let kept = whole.len() - RECORD_BYTES;
    for length in [kept, kept + 7, whole.len() - 1] {
        let mut reader = RecordingReader::new(&whole[..length], Path::new("x.slrec")).unwrap();
        while reader.next_entry().unwrap().is_some() {}
        let report = reader.truncation().unwrap().to_string();
        assert!(report.contains(&format!("truncated at byte {kept}, and its end is missing")), "{report}");
    }
    let mut reader = RecordingReader::new(&whole[..], Path::new("x.slrec")).unwrap();
    while reader.next_entry().unwrap().is_some() {}
    assert!(reader.truncation().is_none() && reader.has_checksums());
}

#[test]
fn a_writer_that_is_dropped_has_written_its_packets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.slrec");
    let mut writer = RecordingWriter::create(&path, &RecordingInfo::new(TypeName::of::<u8>())).unwrap();
    writer.packet(&RecordedPacket::default(), b"hello").unwrap();
    drop(writer);
    let (entries, truncated) = read(&std::fs::read(&path).unwrap()).unwrap();
    let packet = RecordingEntry::Packet(RecordedPacket::default());
    assert_eq!((entries, truncated), (vec![(packet, b"hello".to_vec())], true));
}

#[test]
fn a_recording_without_checksums_is_read_and_its_records_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let with = filled(folder.path(), "a.slrec", 1);
    let whole = without_checksums(&with);
    assert!(!RecordingReader::new(&whole[..], Path::new("x.slrec")).unwrap().has_checksums());
    assert_eq!(read(&whole).unwrap(), read(&with).unwrap());
    let mine = parts(&whole);
    // Remove or repeat a record of a packet or a gap.
    for at in (1..mine.len()).filter(|at| [PACKET, GAP].contains(&u32::from(mine[*at][0]))) {
        let (mut less, mut more) = (mine.clone(), mine.clone());
        less.remove(at);
        more.insert(at, mine[at].clone());
        for parts in [less, more] {
            let error = read(&parts.concat()).unwrap_err().to_string();
            assert!(error.contains("when it was ended") && error.contains("copy it again"), "{error}");
        }
    }
    // A record length that reaches beyond the end of the file is not taken for a truncation.
    let mut longer = whole.clone();
    longer[mine[0].len() + mine[1].len() + 6] = 1;
    let error = read(&longer).unwrap_err().to_string();
    assert!(error.contains("longer than the rest of the file"), "{error}");
}

#[test]
fn a_recording_that_was_written_with_checksums_needs_all_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = filled(folder.path(), "a.slrec", 1);
    bytes[INFO_CHECKSUM].fill(0);
    let error = read(&bytes).unwrap_err().to_string();
    assert!(error.contains(&format!("damaged at byte {}", parts(&bytes)[0].len())), "{error}");
}

proptest! {
    #[test]
    fn arbitrary_records_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let folder = tempfile::tempdir().unwrap();
        let all = written(folder.path());
        let _ = read(&[&all[..all.len() - RECORD_BYTES], &bytes].concat());
    }

    #[test]
    fn arbitrary_changes_are_not_silent(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let whole = filled(folder.path(), "a.slrec", 1);
        let mut damaged = whole.clone();
        changes.iter().for_each(|(at, byte)| damaged[at.index(whole.len())] = *byte);
        if damaged != whole {
            assert_no_silent_loss(&whole, &damaged, "arbitrary bytes");
        }
    }
}
