//! Control groups, where they can be made.

use super::*;
use crate::cgroup::Groups;

#[tokio::test]
async fn a_control_group_holds_what_leaves_everything_else() {
    let fixture = Fixture::new();
    if fixture.programs.0.reaper.groups().is_none() {
        eprintln!("no control groups can be made here; nothing to see");
        return;
    }
    let command = "import os,time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n\
                   os.closerange(0, 3)\ntime.sleep(1000)";
    let (ending, _) = fixture
        .run(
            &format!("python3 -c \"$(printf '{command}')\" {}; sleep 0.5", fixture.marker),
            LONG,
        )
        .await;
    assert_eq!(ending.exit, Some(Exit::Code(0)));
    assert_eq!(fixture.programs.left_by("a call").await.len(), 1);
    assert_eq!(fixture.programs.end_call("a call").await, 0);
    assert_eq!(fixture.count(), 0);
    let folder = fixture.programs.0.reaper.groups().unwrap().folder().to_path_buf();
    assert!(folder.is_dir());
    assert_eq!(fixture.programs.shutdown().await, 0);
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_group_that_was_killed_is_not_used_again() {
    let fixture = Fixture::new();
    for _ in 0..20 {
        fixture.run("sleep 1000 & echo up", Duration::from_secs(5)).await;
        assert_eq!(fixture.programs.end_call("a call").await, 0);
        let (ending, _) = fixture.run("true", LONG).await;
        assert_eq!(ending.exit, Some(Exit::Code(0)));
    }
}

#[tokio::test]
async fn a_dead_services_group_is_cleared() {
    let fixture = Fixture::new();
    let Some(folder) = fixture.programs.0.reaper.groups().map(Groups::folder) else {
        eprintln!("no control groups can be made here; nothing to see");
        return;
    };
    // Apart from where the services of other tests look.
    let parent = folder.with_file_name(format!("test-{}", std::process::id()));
    std::fs::create_dir(&parent).unwrap();
    let groups = Groups::below(&parent).unwrap();
    let dead = parent.join("toolgate-0-dead");
    std::fs::create_dir_all(dead.join("1/inner")).unwrap();
    let mut left = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    std::fs::write(dead.join("1/inner/cgroup.procs"), left.id().to_string()).unwrap();
    groups.sweep_dead();
    assert!(!dead.exists());
    assert!(groups.folder().is_dir(), "a living one stays");
    use std::os::unix::process::ExitStatusExt as _;
    assert_eq!(left.wait().unwrap().signal(), Some(9));
    drop(groups);
    std::fs::remove_dir(&parent).unwrap();
}
