//! Several gateways at the same prompts: who opens one and who settles one never miss each other.

use std::collections::BTreeSet;

use toolgate_model::{
    Decision, Grant, GrantId, GrantReach, GrantScope, InstanceId, PromptId, PromptOutcome, PromptState, Reply,
    SessionId, Timestamp,
};
use toolgate_postgres::{PostgresOptions, PostgresStore};
use toolgate_store::{Prompts as _, Settled, Settlement, Upkeep as _};

use crate::fixture::{database, server};
use crate::store::prompt;

const ROUNDS: usize = 60;

fn grant(id: &str, owner: &InstanceId) -> Grant {
    Grant {
        id: GrantId::from(id),
        owner: owner.clone(),
        workspace: "main".to_owned(),
        worktree: String::new(),
        session: SessionId::from("ses_1"),
        scope: GrantScope {
            reach: GrantReach::Workspace,
            ..GrantScope::default()
        },
        permission: "bash".to_owned(),
        pattern: "ls *".to_owned(),
        prompt: PromptId::from("p"),
        approvers: Vec::new(),
        title: String::new(),
        by: String::new(),
        created: Timestamp(2_000),
        uses: 0,
        last_used: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_that_is_opened_while_another_is_settled_is_seen_or_sees() {
    let name = database(server().await).await;
    seen_or_sees(&name).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn and_so_it_is_whatever_the_database_has_as_its_default() {
    let server = server().await;
    let name = database(server).await;
    let default = format!("ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'");
    server.run("postgres", &default).await;
    seen_or_sees(&name).await;
}

async fn seen_or_sees(name: &str) {
    let server = server().await;
    let instance = InstanceId::generate();
    let open = async |id: &InstanceId| {
        let options = PostgresOptions::new(server.address(name));
        PostgresStore::open(options, id.clone()).await.unwrap()
    };
    let (asking, deciding) = (open(&instance).await, open(&InstanceId::generate()).await);
    let (mut opened_first, mut settled_first) = (0, 0);
    let mut known = BTreeSet::new();
    for round in 0..ROUNDS {
        let (first, second, granted) = (format!("a{round}"), format!("b{round}"), format!("g{round}"));
        asking.open(prompt(&first, "c", &instance), None, None).await.unwrap();
        let settlement = Settlement {
            prompt: PromptId::from(first.as_str()),
            state: PromptState::Resolved,
            decision: Decision {
                outcome: PromptOutcome::Replied(Reply::Once),
                time: Timestamp(2_000),
                reply_id: String::new(),
                by: String::new(),
                principal: String::new(),
                because_of: None,
            },
            uses: Vec::new(),
        };
        let grants = vec![grant(&granted, &instance)];
        let open = asking.open(prompt(&second, "c", &instance), None, Some(known.clone()));
        let settle = deciding.settle(settlement.clone(), Vec::new(), grants, Some(BTreeSet::new()));
        let (others, settled) = tokio::join!(open, settle);
        let (others, settled) = (others.unwrap(), settled.unwrap());
        let is_stored = asking.prompt(&PromptId::from(second.as_str())).await.unwrap().is_some();
        match (is_stored, &settled) {
            // The reply is to be thought over with the prompt that came.
            (true, Settled::Overtaken) => {
                assert!(others.is_empty());
                opened_first += 1;
                for id in [&first, &second] {
                    let settlement = Settlement {
                        prompt: PromptId::from(id.as_str()),
                        ..settlement.clone()
                    };
                    deciding.settle(settlement, Vec::new(), Vec::new(), None).await.unwrap();
                }
            }
            // The prompt is to be judged anew by the grant that came.
            (false, Settled::Now { .. }) => {
                assert_eq!(
                    others.iter().map(|grant| grant.id.as_str()).collect::<Vec<_>>(),
                    [granted.as_str()]
                );
                settled_first += 1;
                known.insert(GrantId::from(granted.as_str()));
            }
            other => panic!("neither has seen the other: {other:?}"),
        }
    }
    assert_eq!(opened_first + settled_first, ROUNDS);
    asking.close().await.unwrap();
    deciding.close().await.unwrap();
}
