//! Files come out of archives as they went in.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;

use super::super::tar::{self, PIECE, Pieces};
use super::*;

type All = Vec<(String, Vec<Vec<u8>>)>;

fn archive(all: &All) -> Vec<u8> {
    let mut stream = Vec::new();
    for (name, chunks) in all {
        let mut pieces = Pieces::new(name);
        for chunk in chunks {
            stream.extend(pieces.push(chunk).unwrap_or_default());
        }
        stream.extend(pieces.finish().unwrap_or_default());
    }
    stream.extend(tar::end());
    stream
}

fn directory() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("causeway-pack-{}-{number}", std::process::id()))
}

fn split(stream: &[u8], cut: usize) -> io::Result<Vec<(String, Vec<u8>)>> {
    let directory = directory();
    let found = (|| {
        let mut splitter = Splitter::new(&directory)?;
        for chunk in stream.chunks(cut) {
            splitter.write_all(chunk)?;
        }
        splitter.finish()?;
        files(&directory)?.into_iter().map(|(name, path)| Ok((name, fs::read(path)?))).collect()
    })();
    fs::remove_dir_all(&directory)?;
    found
}

fn whole(all: &All) -> Vec<(String, Vec<u8>)> {
    all.iter().map(|(name, pieces)| (name.clone(), pieces.concat())).collect()
}

/// Names as dumps have them, such as `globals` and `dump/shop`, also with strange names of databases.
fn names() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{1,9}", "dump/.{1,40}", Just("dump/".to_owned()), Just("tables/".to_owned())]
}

fn contents() -> impl Strategy<Value = All> {
    let bytes = prop::collection::vec(prop::collection::vec(any::<u8>(), 1..700), 0..4);
    prop::collection::btree_map(names(), bytes, 0..5).prop_map(|all| {
        all.into_iter().filter(|(name, _)| name != "dump" && name != "tables" && !name.is_empty()).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn files_come_out_as_they_went_in(all in contents(), cut in 1..900_usize) {
        prop_assert_eq!(split(&archive(&all), cut).unwrap(), whole(&all));
    }

    #[test]
    fn what_lacks_its_end_or_has_more_is_not_taken(
        bytes in prop::collection::vec(any::<u8>(), 1..600), cut in 1..90_usize, end in any::<prop::sample::Index>(),
    ) {
        let all = vec![("dump/shop".to_owned(), vec![bytes])];
        let stream = archive(&all);
        prop_assert!(split(&stream[..end.index(stream.len())], cut).is_err());
        prop_assert!(split(&[stream.as_slice(), b"x"].concat(), cut).is_err());
    }

    #[test]
    fn nothing_that_comes_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000), at in any::<prop::sample::Index>(), byte: u8) {
        prop_assert!(split(&bytes, 512).is_err());
        let mut stream = archive(&vec![("dump/a".to_owned(), vec![b"x".to_vec()])]);
        let at = at.index(stream.len());
        stream[at] = byte;
        split(&stream, 512).ok();
    }
}

#[test]
fn a_name_is_never_a_path() {
    let evil = "../../etc/passwd".to_owned();
    let all = vec![(evil.clone(), vec![b"x".to_vec()])];
    let archive = archive(&all);
    assert_eq!(split(&archive, 7).unwrap(), [(evil, b"x".to_vec())]);
    let name = String::from_utf8_lossy(&archive[..100]);
    assert!(name.starts_with("%2E./%2E.%2Fetc%2Fpasswd/000000000"), "{name}");
}

/// The way for a user who no longer has Causeway.
#[test]
fn every_tar_opens_an_archive_and_cat_joins_its_pieces() {
    let directory = directory();
    fs::create_dir_all(&directory).unwrap();
    let long = format!("dump/{}", "ä".repeat(60));
    let large: Vec<Vec<u8>> = (0..9_u8).map(|it| vec![it; PIECE / 4 + 1]).collect();
    let all = vec![
        ("globals".to_owned(), vec![b"CREATE ROLE app;\n".to_vec()]),
        ("dump/shop".to_owned(), large.clone()),
        ("tables/empty".to_owned(), Vec::new()),
        (long, vec![b"long".to_vec()]),
    ];
    let archive = archive(&all);
    assert_eq!(split(&archive, 65536).unwrap(), whole(&all));
    fs::write(directory.join("data"), &archive).unwrap();
    let script =
        "tar -xf data && cat dump/shop/* > shop.pgdump && cat globals/* && cat tables/empty/* && cat dump/%C3*/*/*";
    let done = Command::new("sh").current_dir(&directory).args(["-ec", script]).output().expect("a shell");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(done.stdout, b"CREATE ROLE app;\nlong");
    assert_eq!(fs::read(directory.join("shop.pgdump")).unwrap(), large.concat());
    assert!(fs::read_dir(directory.join("dump/shop")).unwrap().count() > 1, "in pieces");
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_link_in_place_of_a_file_is_refused() {
    let here = std::env::temp_dir().join(format!("causeway-pack-link-{}", std::process::id()));
    let (pack, login) = (here.join("dump"), here.join("login"));
    fs::create_dir_all(&pack).unwrap();
    fs::write(&login, "password").unwrap();
    fs::write(pack.join(INDEX), r#"["dump/"]"#).unwrap();
    std::os::unix::fs::symlink(&login, pack.join("0")).unwrap();
    assert!(files(&pack).unwrap_err().to_string().contains("0 is not a file"));
    fs::remove_file(pack.join("0")).unwrap();
    fs::write(pack.join("0"), "SELECT 1").unwrap();
    assert_eq!(files(&pack).unwrap(), [("dump/".to_owned(), pack.join("0"))]);
    let other = here.join("other");
    std::os::unix::fs::symlink(&pack, &other).unwrap();
    assert!(files(&other).is_err(), "a link in place of the directory");
    fs::remove_file(pack.join(INDEX)).unwrap();
    std::os::unix::fs::symlink(&login, pack.join(INDEX)).unwrap();
    assert!(files(&pack).unwrap_err().to_string().contains("index.json is not a file"));
    fs::remove_dir_all(here).unwrap();
}
