//! Makes a call by the crates as they are packed.

#[tokio::main]
async fn main() -> Result<(), toolgate_client::Error> {
    let client = toolgate_client::Client::connect("").await?;
    let input = r#"{"command": "echo hello from a call", "description": "Greets"}"#;
    println!("{}", client.execute("bash", input).run().await?.text());
    Ok(())
}
