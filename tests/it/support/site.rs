//! A web server of a test: what it does with a connection is up to the test.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

type Handler = Arc<dyn Fn(TcpStream) -> BoxFuture<'static, io::Result<()>> + Send + Sync>;

/// A server that is there until it is dropped.
pub(crate) struct Site {
    pub(crate) port: u16,
    connections: Arc<AtomicUsize>,
    heads: Arc<Mutex<Vec<String>>>,
    _serving: JoinSet<()>,
}

impl Site {
    /// Answers each request with these bytes and closes the connection. The function gets what was asked.
    pub(crate) async fn answering(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let (answer, seen) = (Arc::new(answer), Arc::clone(&heads));
        let site = Self::with(move |mut stream: TcpStream| {
            let (answer, seen) = (Arc::clone(&answer), Arc::clone(&seen));
            async move {
                let head = request_head(&mut stream).await?;
                let bytes = answer(&head);
                seen.lock().unwrap().push(head);
                stream.write_all(&bytes).await?;
                stream.shutdown().await
            }
        });
        Self { heads, ..site.await }
    }

    /// Does as the test says with each connection.
    pub(crate) async fn with<F>(handle: impl Fn(TcpStream) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let handle: Handler = Arc::new(move |stream| handle(stream).boxed());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::<AtomicUsize>::default();
        let mut serving = JoinSet::new();
        // Where the machine has IPv6, the same server is there too.
        if let Ok(listener) = TcpListener::bind(("::1", port)).await {
            serving.spawn(serve(listener, Arc::clone(&handle), Arc::clone(&connections)));
        }
        serving.spawn(serve(listener, handle, Arc::clone(&connections)));
        Self {
            port,
            connections,
            heads: Arc::default(),
            _serving: serving,
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// How many connections there were.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// What was asked so far.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

async fn serve(listener: TcpListener, handle: Handler, connections: Arc<AtomicUsize>) {
    let mut open = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.fetch_add(1, Ordering::SeqCst);
        // A client that has seen enough goes away.
        let handled = handle(stream);
        open.spawn(async move { drop(handled.await) });
        while open.try_join_next().is_some() {}
    }
}

/// Reads a request up to the blank line.
pub(crate) async fn request_head(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// A good answer.
pub(crate) fn page(content_type: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// An answer that leads elsewhere.
pub(crate) fn redirect(status: u16, location: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} Elsewhere\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n").into_bytes()
}
