//! What verification finds in exports that somebody has touched.

use toolgate_model::Action;

use super::*;

fn key() -> Key {
    Key::new(b"0123456789abcdef0123456789abcdef").unwrap()
}

/// The next record of a chain, and its head then.
fn next(recorder: &Recorder, head: &Head, fact: Fact) -> (Record, Head) {
    let (mut records, head) = recorder.chain(head.clone(), Timestamp(8), [fact]).unwrap();
    (records.remove(0), head)
}

/// An export of some records, as lines with their line feeds.
fn export(recorder: &Recorder, records: u64) -> Vec<String> {
    export_begun(Timestamp(7), recorder, records)
}

/// As [`export`], of a chain that began at another time.
fn export_begun(time: Timestamp, recorder: &Recorder, records: u64) -> Vec<String> {
    let (record, mut head) = recorder.begin(&"instance".into(), "chain", time);
    let mut lines = vec![record.line()];
    for number in 1..records {
        let fact = Fact {
            call: Some(CallId::from(format!("call-{number}").as_str())),
            rules: vec![Rule {
                permission: "bash".to_owned(),
                pattern: "*".to_owned(),
                action: Action::Ask,
            }],
            ..Fact::new(Kind::Admitted)
        };
        let (record, next) = next(recorder, &head, fact);
        lines.push(record.line());
        head = next;
    }
    lines.push(head.line(records));
    lines.into_iter().map(|line| line + "\n").collect()
}

fn verify(lines: &[String], keys: Vec<Key>) -> Result<Verified, Problem> {
    let verified = Verifier::new(keys).text(lines.concat().as_bytes());
    verified.map_err(|finding| finding.problem)
}

#[test]
fn what_was_done_to_an_export() {
    let check = |what: &str, touch: &dyn Fn(&mut Vec<String>), expected: Problem| {
        for key in [None, Some(key())] {
            let recorder = Recorder {
                key: key.clone(),
                ..Recorder::default()
            };
            let mut lines = export(&recorder, 8);
            let keys: Vec<Key> = key.into_iter().collect();
            assert_eq!(verify(&lines, keys.clone()).unwrap().count, 8);
            touch(&mut lines);
            assert_eq!(verify(&lines, keys), Err(expected), "{what}");
        }
    };
    check("a line less", &|lines| drop(lines.remove(3)), Problem::Missing);
    check("the first line less", &|lines| drop(lines.remove(0)), Problem::Missing);
    check(
        "the last record less",
        &|lines| drop(lines.remove(7)),
        Problem::Truncated,
    );
    check("the head less", &|lines| drop(lines.remove(8)), Problem::Truncated);
    check("nothing left", &Vec::clear, Problem::Truncated);
    check("two swapped", &|lines| lines.swap(3, 5), Problem::Reordered);
    check("the first two swapped", &|lines| lines.swap(0, 1), Problem::Reordered);
    check(
        "one twice",
        &|lines| lines.insert(4, lines[3].clone()),
        Problem::Duplicated,
    );
    check("the head twice", &|lines| lines.push(lines[8].clone()), Problem::Added);
    check(
        "another word",
        &|lines| lines[3] = lines[3].replace("call-3", "call-9"),
        Problem::Changed,
    );
    check(
        "spaces",
        &|lines| lines[3] = lines[3].replace(',', ", "),
        Problem::Changed,
    );
    check(
        "an escape",
        &|lines| lines[3] = lines[3].replace("call-3", "call\\u002d3"),
        Problem::Changed,
    );
    check(
        "a number",
        &|lines| lines[3] = lines[3].replace("\"sequence\":4", "\"sequence\":4.0"),
        Problem::Changed,
    );
    check(
        "a new member",
        &|lines| lines[3] = lines[3].replacen('{', "{\"a\":1,", 1),
        Problem::Changed,
    );
    check(
        "the last byte",
        &|lines| assert!(lines[8].pop().is_some()),
        Problem::Truncated,
    );
    check(
        "another count",
        &|lines| lines[8] = lines[8].replace("\"count\":8", "\"count\":7"),
        Problem::Changed,
    );
}

#[test]
fn a_forged_record_does_not_fit() {
    let recorder = Recorder::default();
    let mut lines = export(&recorder, 8);
    let third: Record = serde_json::from_str(&lines[2]).unwrap();
    let at = Head {
        chain: "chain".to_owned(),
        sequence: 3,
        hash: third.hash,
        key: String::new(),
        seal: String::new(),
    };
    let (forged, _) = next(&recorder, &at, Fact::new(Kind::Allowed));
    lines.insert(3, forged.line() + "\n");
    assert!(verify(&lines, Vec::new()).is_err());
    lines.remove(4);
    assert_eq!(verify(&lines, Vec::new()), Err(Problem::Changed));
}

#[test]
fn another_history_is_found_by_key_or_anchor() {
    let real = export(&Recorder::default(), 8);
    let noted: Record = serde_json::from_str(&real[5]).unwrap();
    let expecting = |lines: &[String]| {
        Verifier::default()
            .expect(&noted.hash)
            .text(lines.concat().as_bytes())
            .map_err(|finding| finding.problem)
    };
    assert!(expecting(&real).is_ok());
    let forged = export(
        &Recorder {
            key: Some(Key::new(b"another key of somebody who has not ours").unwrap()),
            ..Recorder::default()
        },
        8,
    );
    assert_eq!(verify(&forged, Vec::new()), Err(Problem::Key));
    let unkeyed = export_begun(Timestamp(6), &Recorder::default(), 9);
    assert!(
        verify(&unkeyed, Vec::new()).is_ok(),
        "nothing tells it from the real one"
    );
    assert_eq!(verify(&unkeyed, vec![key()]), Err(Problem::Key));
    assert_eq!(expecting(&unkeyed), Err(Problem::Anchor));
}

#[test]
fn a_shorter_copy_needs_the_key() {
    let recorder = Recorder {
        key: Some(key()),
        ..Recorder::default()
    };
    let mut lines = export(&recorder, 8);
    let fifth: Record = serde_json::from_str(&lines[4]).unwrap();
    lines.truncate(5);
    let head = Head {
        chain: "chain".to_owned(),
        sequence: 5,
        hash: fifth.hash,
        key: fifth.key,
        seal: "00".to_owned(),
    };
    lines.push(head.line(5) + "\n");
    assert_eq!(verify(&lines, vec![key()]), Err(Problem::Changed));
}

#[test]
fn a_chain_may_take_a_key_and_not_lose_it() {
    let plain = Recorder::default();
    let keyed = Recorder {
        key: Some(key()),
        ..Recorder::default()
    };
    let (first, head) = plain.begin(&"instance".into(), "chain", Timestamp(7));
    let (second, head) = next(&keyed, &head, Fact::new(Kind::Allowed));
    let lines: Vec<String> = [first.line(), second.line(), head.line(2)]
        .map(|line| line + "\n")
        .into();
    assert_eq!(verify(&lines, vec![key()]).unwrap().count, 2);
    assert_eq!(verify(&lines, Vec::new()), Err(Problem::Key));
    let more = plain.chain(head, Timestamp(8), [Fact::new(Kind::Allowed)]);
    assert!(more.is_err());
}

#[test]
fn a_part_is_verified_when_it_is_asked_for() {
    let lines = export(&Recorder::default(), 8);
    let from = |sequence| {
        let mut part = lines[3..].to_vec();
        let head: Head = serde_json::from_str(&part.pop().unwrap()).unwrap();
        part.push(head.line(5) + "\n");
        Verifier::default()
            .from(sequence)
            .text(part.concat().as_bytes())
            .map_err(|finding| finding.problem)
    };
    assert_eq!(from(4).unwrap().first, 4);
    assert_eq!(from(3), Err(Problem::Missing));
}

#[test]
fn a_checkpoint_answers_for_what_was_removed() {
    let recorder = Recorder::default();
    let mut lines = export(&recorder, 8);
    let head: Head = serde_json::from_str(&lines.pop().unwrap()).unwrap();
    let gone: Record = serde_json::from_str(&lines[2]).unwrap();
    let checkpoint = |removed, hash: &str| Fact {
        removed: Some(removed),
        removed_hash: hash.to_owned(),
        ..Fact::new(Kind::Checkpoint)
    };
    let with = |fact: Fact| {
        let (record, head) = next(&recorder, &head, fact);
        let mut rest = lines[3..].to_vec();
        rest.extend([record.line() + "\n", head.line(6) + "\n"]);
        verify(&rest, Vec::new())
    };
    assert_eq!(with(checkpoint(3, &gone.hash)).unwrap().first, 4);
    assert_eq!(with(checkpoint(2, &gone.hash)), Err(Problem::Missing));
    assert_eq!(with(checkpoint(3, NO_HASH)), Err(Problem::Missing));
    assert_eq!(with(Fact::new(Kind::Allowed)), Err(Problem::Missing));
}

#[test]
fn texts_are_bounded_and_redacted() {
    let recorder = Recorder {
        redactor: Redactor::new(&["hunter2".to_owned()], &[]).unwrap(),
        key: None,
    };
    let (_, head) = recorder.begin(&"instance".into(), "chain", Timestamp(7));
    let fact = Fact {
        call: Some(CallId::from("x".repeat(100_000).as_str())),
        patterns: vec!["hunter2\n\"".repeat(1000); 1000],
        reason: "says hunter2".to_owned(),
        ..Fact::new(Kind::Denied)
    };
    let (record, _) = next(&recorder, &head, fact);
    let line = record.line();
    assert!(
        line.len() < 20_000 && !line.contains("hunter2") && !line.contains('\n'),
        "{line}"
    );
    assert_eq!(record.fact.reason, "says [redacted]");
}

#[test]
fn a_flood_is_counted() {
    let door = RefusalSampler::default();
    let refusal = |reason: &str| Fact {
        reason: reason.to_owned(),
        ..Fact::new(Kind::Refused)
    };
    let facts: usize = (0..1000).map(|_| door.refuse(Timestamp(0), refusal("a")).len()).sum();
    assert_eq!(facts, 20);
    assert_eq!(
        door.refuse(Timestamp(1), refusal("b")).len(),
        1,
        "each reason for itself"
    );
    assert!(door.flush(Timestamp(59_999), false).is_empty());
    let later = door.refuse(Timestamp(60_000), refusal("a"));
    assert_eq!((later.len(), later[0].count), (2, Some(980)));
    assert!(
        door.flush(Timestamp(60_000), true).is_empty(),
        "there is nothing more to tell"
    );
}
