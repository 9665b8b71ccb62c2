//! Those who ask have clocks of their own: how long ago it was is for the database's to say.

use std::time::Duration;

use toolgate_model::{InstanceId, Prompt, PromptId, Timestamp};

use crate::fixture::PostgresFixture;
use crate::store::{Fixture as _, prompt};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_is_as_old_as_the_database_says() {
    let (fixture, run) = (PostgresFixture::new().await, InstanceId::generate());
    let store = fixture.open(&run).await;
    let ahead = Timestamp::now().after(Duration::from_secs(7_200));
    for (id, created) in [("in the past", Timestamp(1_000)), ("in the future", ahead)] {
        let asked = Prompt {
            created,
            expires: Some(created.after(Duration::from_secs(600))),
            ..prompt(id, "c", &run)
        };
        store.open(asked, None, None).await.unwrap();
        let asked = store.asked(&PromptId::from(id)).await.unwrap().unwrap();
        assert!(asked.age < Duration::from_secs(60), "{asked:?}");
        assert_eq!(asked.prompt.patience(), Some(Duration::from_secs(600)));
    }
    fixture.stop(&run).await;
}
