//! Leaves a call that runs, and watches it again.

use serde_json::json;
use toolgate_client::v1::call_event::Event;
use toolgate_client::{Client, Error, OnDisconnect};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = Client::connect("").await?;
    let input = json!({"command": "seq 3; sleep 1", "description": "Counts"});
    let mut call = client
        .execute("bash", input)
        .on_disconnect(OnDisconnect::Keep)
        .start()
        .await?;
    let last = call.next().await?.map_or(0, |event| event.sequence);
    println!("event {last}");
    let call_id = call.call_id().to_owned();
    client.close().await; // The call is admitted; leaving does not touch it.

    let another = Client::connect("").await?;
    let mut events = another.watch(call_id, last);
    while let Some(event) = events.next().await? {
        if let Some(Event::Completed(result)) = event.event {
            let numbers: Vec<&str> = result.output.split_whitespace().collect();
            println!("ended with {}", numbers.join(", "));
            break;
        }
    }
    Ok(())
}
