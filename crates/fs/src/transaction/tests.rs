//! All or nothing, with every step made to fail in turn.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;
use crate::Workspace;
use crate::atomic::TEMP_PREFIX;

struct Place {
    folder: tempfile::TempDir,
    workspace: Arc<Workspace>,
    files: Files,
}

/// What stands in a folder: contents, targets of links, and `None` for folders; with the modes.
type Tree = BTreeMap<PathBuf, (u32, Option<Vec<u8>>)>;

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let workspace = Arc::new(Workspace::open("w", &root, None).unwrap());
        Self {
            folder,
            workspace,
            files: Files::new(true),
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        std::fs::write(self.at(name), text).unwrap();
    }

    fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        let mut todo = vec![self.folder.path().to_path_buf()];
        while let Some(folder) = todo.pop() {
            for entry in folder.read_dir().unwrap() {
                let path = entry.unwrap().path();
                let metadata = path.symlink_metadata().unwrap();
                let content = if metadata.is_symlink() {
                    Some(std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes())
                } else if metadata.is_dir() {
                    todo.push(path.clone());
                    None
                } else {
                    Some(std::fs::read(&path).unwrap())
                };
                let name = path.strip_prefix(self.folder.path()).unwrap();
                tree.insert(name.into(), (metadata.permissions().mode(), content));
            }
        }
        tree
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.at(name)).unwrap()
    }

    async fn begin<const N: usize>(&self, names: [&str; N]) -> (Transaction, [Target; N]) {
        let written = names.map(str::to_owned).to_vec();
        let targets = Target::resolve_all(&self.workspace, written).await.unwrap();
        let transaction = Transaction::begin(&self.files, &targets).await;
        (transaction, targets.try_into().unwrap())
    }
}

/// Everything that a transaction can do to a path.
async fn everything(place: &Place) -> Transaction {
    let (mut transaction, [changed, gone, new, deep, moved, landed, link, covered]) = place
        .begin([
            "changed",
            "gone",
            "new",
            "deep/er/new",
            "moved",
            "landed",
            "link",
            "covered",
        ])
        .await;
    let draft = transaction.read(&changed).await.unwrap().unwrap();
    transaction.write(&changed, draft.with_bytes("CHANGED")).await.unwrap();
    transaction.remove(&gone).await.unwrap();
    for target in [&new, &deep] {
        assert!(transaction.read(target).await.unwrap().is_none());
        transaction.write(target, Draft::new("new")).await.unwrap();
    }
    for (from, to) in [(&moved, &landed), (&link, &covered)] {
        let draft = transaction.read(from).await.unwrap().unwrap();
        transaction.write(to, draft).await.unwrap();
        transaction.remove(from).await.unwrap();
    }
    transaction
}

fn stocked() -> Place {
    let place = Place::new();
    for name in ["changed", "gone", "moved", "kept/target", "covered"] {
        place.write(name, name);
    }
    symlink("kept/target", place.at("link")).unwrap();
    let mode = |name: &str, mode: u32| {
        std::fs::set_permissions(place.at(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("changed", 0o640);
    mode("moved", 0o751);
    place
}

#[tokio::test]
async fn does_everything() {
    let place = stocked();
    let changed = everything(&place).await.commit().await.unwrap();
    let paths: Vec<_> = changed
        .iter()
        .map(|change| (change.path.relative(), change.mark.is_some()))
        .collect();
    let expected = [
        ("changed", true),
        ("new", true),
        ("deep/er/new", true),
        ("landed", true),
        ("kept/target", true),
        ("covered", true),
        ("gone", false),
        ("moved", false),
        ("link", false),
    ];
    // The file behind the link was read under the name of the link.
    let expected = expected.map(|(name, marked)| (if name == "kept/target" { "link" } else { name }, marked));
    assert_eq!(paths, expected);
    let tree = place.tree();
    let names: Vec<_> = tree.keys().map(|path| path.to_string_lossy()).collect();
    assert_eq!(
        names,
        [
            "changed",
            "covered",
            "deep",
            "deep/er",
            "deep/er/new",
            "kept",
            "kept/target",
            "landed",
            "new"
        ]
    );
    assert_eq!(
        (place.text("changed"), place.text("landed")),
        ("CHANGED".into(), "moved".into())
    );
    assert_eq!(
        (place.text("covered"), place.text("kept/target")),
        ("kept/target".into(), "kept/target".into())
    );
    let mode = |name: &str| tree[Path::new(name)].0 & 0o7777;
    assert_eq!((mode("changed"), mode("landed")), (0o640, 0o751));
}

#[tokio::test]
async fn a_failing_step_leaves_everything_as_it_was() {
    let steps = everything(&stocked()).await.slots.len();
    assert_eq!(steps, 9);
    for failing in 0..steps {
        let place = stocked();
        let before = place.tree();
        let transaction = everything(&place).await;
        let error = commit::commit(&transaction.slots, &mut |step| {
            if step == failing {
                Err(io::Error::from(io::ErrorKind::StorageFull))
            } else {
                Ok(())
            }
        })
        .unwrap_err();
        assert!(error.unrestored.is_empty());
        assert!(error.to_string().ends_with("\n\nNo file was changed."), "{error}");
        assert_eq!(place.tree(), before, "step {failing}");
    }
}

#[tokio::test]
async fn a_killed_process_leaves_old_files_and_new_ones_but_none_mixed() {
    let (old, new) = (stocked().tree(), {
        let place = stocked();
        everything(&place).await.commit().await.unwrap();
        place.tree()
    });
    for killed in 0..9 {
        let place = stocked();
        let transaction = everything(&place).await;
        // What a panic leaves is looked at before anything is undone.
        let seen = std::cell::RefCell::new(Tree::new());
        let _ = commit::commit(&transaction.slots, &mut |step| {
            if step == killed {
                seen.replace(place.tree());
                return Err(io::ErrorKind::Interrupted.into());
            }
            Ok(())
        });
        let seen = seen.into_inner();
        let moved = ["moved", "landed"].map(|name| seen.get(Path::new(name)));
        let is_moved_whole = moved
            .into_iter()
            .flatten()
            .any(|(_, content)| content.as_deref() == Some(b"moved"));
        assert!(is_moved_whole, "before step {killed}");
        for (path, found) in seen {
            let is_left_over = path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(TEMP_PREFIX));
            let is_whole = old.get(&path) == Some(&found) || new.get(&path) == Some(&found);
            assert!(is_left_over || is_whole, "{path:?} before step {killed}: {found:?}");
        }
    }
}

#[tokio::test]
async fn what_cannot_be_created_stops_the_rest() {
    let place = stocked();
    let before = place.tree();
    let (mut transaction, [changed, taken, below]) = place.begin(["changed", "taken", "taken/below"]).await;
    transaction.write(&changed, Draft::new("CHANGED")).await.unwrap();
    transaction.write(&taken, Draft::new("file")).await.unwrap();
    transaction.write(&below, Draft::new("file")).await.unwrap();
    assert!(transaction.commit().await.is_err());
    assert_eq!(place.tree(), before);

    let (mut transaction, [folder]) = place.begin(["kept"]).await;
    assert!(matches!(
        transaction.read(&folder).await,
        Err(FileError::IsFolder { .. })
    ));
}

#[tokio::test]
async fn a_folder_in_the_way_and_a_folder_that_takes_nothing_stop_everything() {
    let place = stocked();
    let transaction = everything(&place).await;
    std::fs::create_dir(place.at("new")).unwrap();
    let before = place.tree();
    let error = transaction.commit().await.unwrap_err();
    assert!(matches!(error.cause, FileError::IsFolder { .. }), "{error}");
    assert_eq!(place.tree(), before);

    let place = stocked();
    let closed = |mode: u32| {
        std::fs::set_permissions(place.at("kept"), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let (mut transaction, [changed, refused]) = place.begin(["changed", "kept/new"]).await;
    transaction.write(&changed, Draft::new("CHANGED")).await.unwrap();
    transaction.write(&refused, Draft::new("new")).await.unwrap();
    closed(0o555);
    let done = transaction.commit().await;
    closed(0o755);
    // To root every folder is open.
    let expected = if done.is_ok() { "CHANGED" } else { "changed" };
    assert_eq!(place.text("changed"), expected);
    assert_eq!(place.at("kept/new").exists(), done.is_ok());
}

#[tokio::test]
async fn what_changed_meanwhile_stops_everything() {
    type Meddle = fn(&Place);
    let meddlers: [(Meddle, &str); 6] = [
        (|place| place.write("changed", "theirs"), "changed"),
        (|place| place.write("gone", "theirs"), "gone"),
        (|place| place.write("new", "theirs"), "new"),
        (|place| std::fs::remove_file(place.at("moved")).unwrap(), "moved"),
        (|place| place.write("kept/target", "theirs"), "link"),
        (
            |place| {
                std::fs::remove_file(place.at("link")).unwrap();
                symlink("covered", place.at("link")).unwrap();
            },
            "link",
        ),
    ];
    for (meddle, path) in meddlers {
        let place = stocked();
        let transaction = everything(&place).await;
        meddle(&place);
        let before = place.tree();
        let error = transaction.commit().await.unwrap_err();
        let (FileError::Modified { path: named, .. } | FileError::Swapped { path: named }) = &error.cause else {
            panic!("{error}")
        };
        assert!(named.ends_with(path), "{error}");
        assert_eq!(place.tree(), before, "{path}");
    }
}

#[tokio::test]
async fn sees_its_own_changes() {
    let place = stocked();
    let (mut transaction, [gone, link, again]) = place.begin(["gone", "link", "link"]).await;
    transaction.remove(&gone).await.unwrap();
    assert!(transaction.read(&gone).await.unwrap().is_none());
    transaction.write(&gone, Draft::new("back")).await.unwrap();
    assert_eq!(transaction.read(&gone).await.unwrap().unwrap().bytes(), "back");
    transaction.remove(&link).await.unwrap();
    assert!(transaction.read(&again).await.unwrap().is_none());
    transaction.write(&again, Draft::new("a file now")).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(
        (place.text("gone"), place.text("link")),
        ("back".into(), "a file now".into())
    );
    assert!(!place.at("link").is_symlink());
    assert_eq!(place.text("kept/target"), "kept/target");
}

#[tokio::test]
async fn what_stays_the_same_is_not_written() {
    use std::os::unix::fs::MetadataExt as _;
    let place = stocked();
    let number = place.at("changed").metadata().unwrap().ino();
    let (mut transaction, [changed, fleeting]) = place.begin(["changed", "fleeting"]).await;
    let draft = transaction.read(&changed).await.unwrap().unwrap();
    transaction.write(&changed, draft.with_bytes("changed")).await.unwrap();
    transaction.write(&fleeting, Draft::new("")).await.unwrap();
    transaction.remove(&fleeting).await.unwrap();
    let done = transaction.commit().await.unwrap();
    assert_eq!(done.len(), 1);
    assert!(done[0].mark.is_some());
    assert_eq!(place.at("changed").metadata().unwrap().ino(), number);
}

#[tokio::test]
async fn is_bounded_in_bytes_and_paths() {
    let place = Place::new();
    place.write("a", "a");
    place.write("b", "b");
    let (mut transaction, [a, b]) = place.begin(["a", "b"]).await;
    transaction.loaded = MAX_TOTAL - 1;
    assert!(transaction.read(&a).await.is_ok() && transaction.read(&a).await.is_ok());
    assert!(matches!(transaction.read(&b).await, Err(FileError::TooLarge { .. })));
    let long = Target::resolve_all(&place.workspace, vec!["x/".repeat(3000)]).await;
    assert!(matches!(long, Err(FileError::PathTooLong { .. })));
}
