//! Executes a tool and shows its output as it comes.

use toolgate_client::v1::call_event::Event;
use toolgate_client::{Client, Error};

/// What a model wrote, word for word: it need not be valid.
const ARGUMENTS: &str = r#"{"command": "seq 3", "description": "Counts to three"}"#;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = Client::builder("").session("ses_guide").connect().await?;
    let mut call = client.execute("bash", ARGUMENTS).start().await?;
    while let Some(event) = call.next().await? {
        if let Some(Event::Output(output)) = event.event {
            print!("{}", String::from_utf8_lossy(&output.data));
        }
    }
    let result = call.result().await?;
    let length = result.text().len();
    println!("{}: {length} characters for the model", result.title());
    Ok(())
}
