//! Decides about the calls of this program.

use serde_json::json;
use toolgate_client::{BoxError, Client, Decision, Error, Prompt};

async fn decide(prompt: Prompt, _problem: Option<String>) -> Result<Decision, BoxError> {
    let Prompt::Permission(asked) = prompt else {
        return Ok(Decision::Leave); // A question of the model: left to others.
    };
    let asked = asked.permission;
    println!("asked: {}", asked.patterns.join(", "));
    let mut words = asked.parts.iter().flat_map(|part| &part.arguments);
    if words.any(|word| word == "secret.txt") {
        return Ok(Decision::reject("Leave secret.txt alone."));
    }
    Ok(Decision::Once)
}

async fn work(client: &Client) -> Result<(), Error> {
    for command in ["touch draft.txt", "touch secret.txt"] {
        let input = json!({"command": command, "description": "Makes a file"});
        let result = client.execute("bash", input).run().await?;
        match result.is_ok() {
            true => println!("done"),
            false => println!("failed: {}", result.text()),
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = Client::connect("").await?;
    tokio::select! {
        error = client.approver("Ada").run(decide) => Err(error),
        done = work(&client) => done,
    }
}
