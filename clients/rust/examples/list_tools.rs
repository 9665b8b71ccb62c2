//! Lists the tools for people and for a model.

use toolgate_client::v1::ListToolsRequest;
use toolgate_client::{Client, Error};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = Client::builder("").model("openai", "gpt-5").connect().await?;
    let tools = client.list_tools(ListToolsRequest::default()).await?;
    for tool in tools.iter().filter(|tool| tool.name == "bash") {
        println!("{} may ask for {}", tool.name, tool.permissions.join(", "));
    }

    // For the body of a request to the model.
    let for_model = client.openai_tools(ListToolsRequest::default()).await?;
    let (kind, name) = (&for_model[0]["type"], &for_model[0]["function"]["name"]);
    println!("{} {}", kind.as_str().unwrap_or(""), name.as_str().unwrap_or(""));
    Ok(())
}
