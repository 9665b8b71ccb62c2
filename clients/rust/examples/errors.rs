//! Tells failed calls from failed RPCs.

use serde_json::json;
use toolgate_client::{Client, Error};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = Client::connect("").await?;
    let call = client
        .execute("read", json!({"filePath": "nowhere.txt"}))
        .call_id("first-try");

    // A call that fails is a result: the model has to read it.
    let result = call.clone().run().await?;
    println!("{}", result.text().split(':').next().unwrap_or_default());

    // The same id with the same request is the same call; it is not run again.
    if call.run().await? == result {
        println!("the same call");
    }

    // What is not even a call is an error of the RPC.
    let another = client.execute("glob", json!({"pattern": "*"})).call_id("first-try");
    if let Err(refused) = another.run().await {
        let reason = refused.reason().unwrap_or_default();
        println!("{} {reason} do not repeat this", refused.code_name());
    }
    Ok(())
}
