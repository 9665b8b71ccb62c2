//! Lends a function of this program as a tool.

use serde_json::{Map, json};
use tokio::sync::Notify;
use toolgate_client::{BoxError, Client, Error, Invocation, Tool, schemars};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Sum {
    /// The first number.
    a: f64,
    /// The second number.
    b: f64,
}

async fn add(call: Invocation, input: Sum) -> Result<String, BoxError> {
    let title = format!("Adds {} to {}", input.b, input.a);
    call.progress(&title, &Map::new()).await;
    Ok((input.a + input.b).to_string())
}

static READY: Notify = Notify::const_new();

async fn work(client: &Client) -> Result<(), Error> {
    READY.notified().await;
    let result = client.execute("add", json!({"a": 1, "b": 2})).run().await?;
    println!("{}: {}", result.title(), result.text());
    let result = client.execute("add", json!({"a": 1})).run().await?; // The function is not called.
    if !result.is_ok() {
        println!("does not fit");
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = Client::connect("").await?;
    let add = Tool::new("add", "Adds two numbers.", add);
    let host = client.host("sums").tool(add).on_ready(|_| READY.notify_one());
    tokio::select! {
        error = host.run() => Err(error),
        done = work(&client) => done,
    }
}
