//! Calls that wait for an MCP client without sessions: whoever made one takes it up, and nobody else.

use serde_json::{Value, json};

use super::setup::*;
use crate::mcp_server::{Sessionless, input};
use crate::support;

#[test]
fn a_call_that_waits_is_taken_up_by_whoever_made_it_and_nobody_else() {
    support::test(async {
        let folder = Folder::new();
        let settings = format!("permission.self_approval = true\n{}", with_tokens(&folder));
        let service = folder.start(&settings).await.unwrap();
        let base = format!("http://{}/mcp", service.address);
        let client = |token: &'static str, query: &str| Sessionless::new(format!("{base}{query}"), token);
        let (alice, bob) = (client(ALICE, "?workspace=a"), client(BOB, "?workspace=a"));
        let wanted = input("touch made");
        let waits = alice.call("bash", &wanted, None).await.wants();
        assert!(!folder.path("a/made").exists());
        let refused = async |client: &Sessionless, input: &Value, what: &str| {
            let answer = client.call("bash", input, Some(&waits)).await;
            let said = answer.error();
            assert!(said.contains("requestState"), "{what}: {said}");
        };
        // Whoever knows the state is not whoever made the call.
        refused(&bob, &wanted, "another principal").await;
        refused(&alice, &input("touch other"), "another command").await;
        refused(&client(ALICE, "?workspace=b"), &wanted, "another workspace").await;
        refused(&client(ALICE, "?workspace=a&session=s"), &wanted, "another session").await;
        refused(&client(ALICE, "?workspace=a&agent=plan"), &wanted, "another agent").await;
        assert!(!folder.path("a/made").exists());

        let done = alice.call("bash", &wanted, Some(&waits)).await;
        assert_eq!(done.result()["isError"], false, "{done:?}");
        assert!(folder.path("a/made").exists());
        refused(&alice, &wanted, "once more").await;
        // An answer to what nobody asked brings nothing.
        let (state, _) = bob.call("bash", &wanted, None).await.wants();
        let made_up = json!({"nothing": {"action": "accept", "content": {"decision": "once"}}});
        let asked = bob.call("bash", &wanted, Some(&(state.clone(), made_up))).await;
        assert_ne!(asked.wants().0, state, "it waits under a new name");
        service.stop().await;
    });
}
