//! Approvers that are connected to another process.

use toolgate_model::{InstanceId, SessionId, WorkspaceSet};
use toolgate_postgres::{PostgresOptions, PostgresStore};
use toolgate_store::{Interest, Prompts as _, Upkeep as _};

use crate::fixture::{database, server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approvers_are_known_to_the_others_as_long_as_their_process_lives() {
    let server = server().await;
    let name = database(server).await;
    let open = async || {
        let options = PostgresOptions::new(server.address(&name));
        PostgresStore::open(options, InstanceId::generate()).await.unwrap()
    };
    let (one, two) = (open().await, open().await);
    let interest = |session: &str| Interest {
        workspaces: WorkspaceSet::parse(["a", "b/*"]).unwrap(),
        sessions: vec![SessionId::from(session)],
        forms: false,
        clients: Vec::new(),
    };
    one.attend(vec![interest("\u{0}"), interest("y")]).await.unwrap();
    assert_eq!(
        two.attended_elsewhere().await.unwrap(),
        [interest("\u{0}"), interest("y")]
    );
    assert_eq!(one.attended_elsewhere().await.unwrap(), []);
    one.attend(vec![interest("y")]).await.unwrap();
    assert_eq!(two.attended_elsewhere().await.unwrap(), [interest("y")]);
    two.attend(vec![interest("z")]).await.unwrap();
    two.attend(Vec::new()).await.unwrap();
    assert_eq!(one.attended_elsewhere().await.unwrap(), []);
    one.close().await.unwrap();
    assert_eq!(two.attended_elsewhere().await.unwrap(), []);
    two.close().await.unwrap();
}
