//! Reads, searches and saves what a command printed.

use serde_json::json;
use toolgate_client::v1::SearchOutputRequest;
use toolgate_client::{Client, Error, Part};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = Client::connect("").await?;
    let input = json!({"command": "seq 5000", "description": "Counts"});
    let result = client.execute("bash", input).run().await?;
    let truncation = result.truncation().cloned().unwrap_or_default();
    if truncation.truncated {
        println!("the model sees a part of {} bytes", truncation.total_bytes);
    }

    let output = client.output(truncation.output_id);
    let end = output.read(Part::Tail { lines: 2 }).read_to_end().await?;
    let end = String::from_utf8_lossy(&end);
    println!("the end: {}", end.split_whitespace().collect::<Vec<_>>().join(", "));

    let search = SearchOutputRequest {
        pattern: "^49+$".to_owned(),
        max_matches: 2,
        ..Default::default()
    };
    let found = output.search(search).await?;
    println!("found in the lines {}, {}", found.lines[0].line, found.lines[1].line);

    let saved = output.save("counted.txt", |_bytes, _total| {}).await?;
    println!("saved {saved} bytes");
    Ok(())
}
