//! Calls that make calls keep to the limits, and are no way around the question about loops.

use super::*;

#[test]
fn calls_that_make_calls_keep_to_the_limits() {
    test(async {
        let server = Server::with(Setup::default().env("TOOLGATE_LIMITS_MAX_RUNNING_CALLS", "1")).await;
        // Whoever makes a call needs no slot for it.
        let maker = server.run("bash", input("true")).await;
        assert!(completed(&maker).output.contains("started in the background"));

        let server = Server::start().await;
        let mut parent = String::new();
        for depth in 1..=8 {
            let mut call = background("true");
            call.context = Some(CallContext {
                parent_call_id: parent,
                ..Default::default()
            });
            let call = run(&mut server.tools(), run_request(call)).await.unwrap();
            match depth {
                8 => assert_eq!(failed(&call).reason(), FailureReason::Quota),
                _ => assert!(completed(&call).output.contains("started in the background")),
            }
            parent = call.call_id;
        }
    });
}

#[test]
fn three_in_a_row_are_still_a_loop() {
    test(async {
        let server = Server::with(Setup::permission(json!({ "doom_loop": "deny" }))).await;
        for expected in [
            FailureReason::Unspecified,
            FailureReason::Unspecified,
            FailureReason::DoomLoop,
        ] {
            let request = run_request(in_session("s", background("true")));
            let call = run(&mut server.tools(), request).await.unwrap();
            assert_eq!(reason_of(call.ending.as_ref().unwrap()), expected);
        }
    });
}
