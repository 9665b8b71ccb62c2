//! Writes a file, reads it, lists its folder, and does not overwrite what somebody else has written since.

use toolgate_client::{Client, Error};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = Client::connect("").await?;
    let files = client.files();
    let written = files.write("notes/today.md", "hello\n").run().await?;
    let file = written.file.unwrap_or_default();
    println!("{} has {} bytes", file.path, file.size_bytes);

    let text = files.read("notes/today.md").read_to_end().await?;
    print!("it says: {}", String::from_utf8_lossy(&text));
    for entry in files.list("notes").await? {
        println!("in notes: {}", entry.path.trim_start_matches("notes/"));
    }

    // Somebody else writes it, and this program knows only what it has written itself.
    files.write("notes/today.md", "changed\n").run().await?;
    let again = files.write("notes/today.md", "mine\n").if_sha256(file.sha256);
    if let Err(error) = again.run().await {
        println!("not written: {}", error.reason().unwrap_or_default());
    }
    Ok(())
}
