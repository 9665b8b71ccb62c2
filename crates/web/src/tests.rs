//! Name servers that lie, and clients that stay with their server.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::header::HeaderMap;
use super::*;

/// Two servers at the same port of two addresses: one that is allowed, and one that must not be reached.
struct Twins {
    port: u16,
    reached: Arc<Mutex<Vec<IpAddr>>>,
    _serving: JoinSet<()>,
}

const GOOD: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));
const BAD: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

impl Twins {
    async fn start(answer: &'static str) -> Self {
        let first = TcpListener::bind((GOOD, 0)).await.unwrap();
        let port = first.local_addr().unwrap().port();
        let second = TcpListener::bind((BAD, port)).await.unwrap();
        let reached = Arc::<Mutex<Vec<IpAddr>>>::default();
        let mut serving = JoinSet::new();
        for listener in [first, second] {
            serving.spawn(serve(
                listener,
                answer.replace("{port}", &port.to_string()),
                Arc::clone(&reached),
            ));
        }
        Self {
            port,
            reached,
            _serving: serving,
        }
    }

    fn url(&self, host: &str) -> Url {
        Url::parse(&format!("http://{host}:{}/", self.port)).unwrap()
    }

    fn reached(&self) -> Vec<IpAddr> {
        std::mem::take(&mut self.reached.lock())
    }
}

async fn serve(listener: TcpListener, answer: String, reached: Arc<Mutex<Vec<IpAddr>>>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        reached.lock().push(listener.local_addr().unwrap().ip());
        let mut head = [0; 4096];
        let _ = stream.read(&mut head).await;
        let _ = stream.write_all(answer.as_bytes()).await;
    }
}

const PAGE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nhere";

/// Answers each look-up with the next of these; the last one stays.
fn lying(answers: &[&[IpAddr]]) -> (Lookup, Arc<Mutex<Vec<String>>>) {
    let answers: VecDeque<Vec<IpAddr>> = answers.iter().map(|answer| answer.to_vec()).collect();
    let (left, asked) = (Mutex::new(answers), Arc::<Mutex<Vec<String>>>::default());
    let names = Arc::clone(&asked);
    let lookup: Lookup = Arc::new(move |name| {
        names.lock().push(name);
        let mut left = left.lock();
        let answer = if left.len() > 1 {
            left.pop_front()
        } else {
            left.front().cloned()
        };
        async move { Ok(answer.unwrap_or_default()) }.boxed()
    });
    (lookup, asked)
}

fn network(allow: &[&str], lookup: Lookup) -> Network {
    let allow = allow.iter().map(|text| text.parse().unwrap()).collect();
    let settings = Settings {
        allow,
        ..Settings::default()
    };
    Network::with_lookup(settings, lookup)
}

async fn get(network: &Network, url: Url) -> Result<Bytes, RequestError> {
    let request = Request::within(Duration::from_secs(10), url, HeaderMap::new());
    network.request(request).await?.body(100).await
}

fn is_refused(result: &Result<Bytes, RequestError>) -> bool {
    matches!(result, Err(RequestError::Refused { .. }))
}

#[tokio::test]
async fn a_name_that_changes_its_mind_leads_nowhere_else() {
    let twins = Twins::start(PAGE).await;
    // What a check before the connection would have seen is good; what the connection would find is not.
    let (lookup, asked) = lying(&[&[GOOD], &[BAD], &[GOOD], &[BAD]]);
    let network = network(&["127.0.0.2"], lookup);
    let url = || twins.url("rebind.example");
    assert_eq!(get(&network, url()).await.unwrap(), "here");
    assert!(is_refused(&get(&network, url()).await));
    assert_eq!(get(&network, url()).await.unwrap(), "here");
    for _ in 0..5 {
        assert!(is_refused(&get(&network, url()).await));
    }
    assert_eq!(twins.reached(), [GOOD, GOOD]);
    assert_eq!(
        asked.lock().len(),
        8,
        "each connection asks once, and goes where that says"
    );
}

#[tokio::test]
async fn of_several_addresses_only_good_ones_are_tried() {
    let twins = Twins::start(PAGE).await;
    let mapped: IpAddr = "::ffff:127.0.0.1".parse().unwrap();
    let (lookup, _) = lying(&[&[BAD, mapped, GOOD], &[GOOD, BAD], &[BAD, mapped]]);
    let network = network(&["127.0.0.2"], lookup);
    assert_eq!(get(&network, twins.url("many.example")).await.unwrap(), "here");
    assert_eq!(get(&network, twins.url("many.example")).await.unwrap(), "here");
    assert!(is_refused(&get(&network, twins.url("many.example")).await));
    assert_eq!(twins.reached(), [GOOD, GOOD]);
}

#[tokio::test]
async fn names_of_private_networks_are_refused_wherever_they_are_written() {
    let names = [
        "localhost",
        "localtest.me",
        "127.0.0.1.nip.io",
        "a.b.c.example.",
        "xn--bcher-kva.example",
        "intranet",
        "metadata.google.internal",
        "kubernetes.default.svc",
    ];
    let addresses = [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "10.0.0.1",
        "172.20.0.1",
        "192.168.1.1",
        "100.64.1.1",
        "169.254.169.254",
        "168.63.129.16",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "fe80::1",
        "fd00:ec2::254",
        "64:ff9b::7f00:1",
        "2002:7f00:1::1",
        "ff02::1",
    ];
    let addresses = addresses.map(|address| address.parse::<IpAddr>().unwrap());
    let answers: Vec<&[IpAddr]> = names.iter().flat_map(|_| addresses.chunks(1)).collect();
    let (lookup, _) = lying(&answers);
    let network = network(&["127.0.0.2"], lookup);
    let twins = Twins::start(PAGE).await;
    for name in names {
        for address in addresses {
            let result = get(&network, twins.url(name)).await;
            assert!(is_refused(&result), "{name} {address}: {result:?}");
        }
    }
    assert!(twins.reached().is_empty());
}

#[tokio::test]
async fn a_redirect_is_judged_like_any_request() {
    let away = "HTTP/1.1 302 Found\r\nLocation: http://again.example:{port}/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let twins = Twins::start(away).await;
    let (lookup, _) = lying(&[&[GOOD], &[BAD]]);
    let network = network(&["127.0.0.2"], lookup);
    let request = Request::within(Duration::from_secs(10), twins.url("first.example"), HeaderMap::new());
    let next = network.request(request).await.unwrap().redirect().unwrap().unwrap();
    assert_eq!(next, twins.url("again.example"));
    assert!(is_refused(&get(&network, next).await));
    assert_eq!(twins.reached(), [GOOD]);
}

#[tokio::test]
async fn a_listed_host_is_reached_wherever_it_is() {
    let twins = Twins::start(PAGE).await;
    let (lookup, _) = lying(&[&[BAD]]);
    let entry = format!("wiki.example:{}", twins.port);
    let network = network(&[&entry], lookup);
    assert_eq!(get(&network, twins.url("WIKI.example.")).await.unwrap(), "here");
    assert!(is_refused(&get(&network, twins.url("other.example")).await));
    let mut elsewhere = twins.url("wiki.example");
    elsewhere.set_port(Some(twins.port ^ 1)).unwrap();
    assert!(is_refused(&get(&network, elsewhere).await));
    assert_eq!(twins.reached(), [BAD]);
}

#[tokio::test]
async fn what_the_operator_named_reaches_nothing_else() {
    let twins = Twins::start(PAGE).await;
    let (lookup, _) = lying(&[&[BAD]]);
    let network = network(&[], lookup);
    let named = twins.url("tools.example");
    let request = Request::within(Duration::from_secs(10), named.clone(), HeaderMap::new());
    assert_eq!(network.request_named(request).await.unwrap().status(), 200);
    let client = network.client_to(&named).await.unwrap();
    assert_eq!(client.get(named.clone()).send().await.unwrap().status(), 200);
    client.get(twins.url("other.example")).send().await.unwrap_err();
    // For everybody else it is as private as before.
    assert!(is_refused(&get(&network, named).await));
    assert_eq!(twins.reached(), [BAD, BAD]);
}

#[tokio::test]
async fn a_named_client_follows_redirects_that_stay() {
    let away =
        "HTTP/1.1 307 Away\r\nLocation: http://other.example:{port}/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let twins = Twins::start(away).await;
    let (lookup, asked) = lying(&[&[GOOD]]);
    let network = network(&["127.0.0.2"], lookup);
    let client = network.client_to(&twins.url("tools.example")).await.unwrap();
    assert_eq!(
        client.get(twins.url("tools.example")).send().await.unwrap().status(),
        307
    );
    assert_eq!(*asked.lock(), ["tools.example"]);
}

#[tokio::test]
async fn a_server_with_authorities_of_its_own_is_the_only_one_reached() {
    let away =
        "HTTP/1.1 307 Away\r\nLocation: http://127.0.0.1:{port}/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let twins = Twins::start(away).await;
    let own = twins.url("127.0.0.2");
    let server = Server::new(&own, b"").unwrap();
    let request = |url: Url| Request::within(Duration::from_secs(10), url, HeaderMap::new());
    // It stays what it was asked, whatever it says of somebody else.
    let reply = server.send(Method::PATCH, request(own.join("/a?b").unwrap())).await;
    assert_eq!(reply.unwrap().status(), 307);
    for other in ["127.0.0.1", "localhost"] {
        let refused = server.send(Method::GET, request(twins.url(other))).await;
        assert!(matches!(refused, Err(RequestError::Refused { .. })), "{other}");
    }
    assert_eq!(twins.reached(), [GOOD]);
    // Encrypted, somebody has to have signed for it.
    let encrypted = Url::parse("https://127.0.0.2/").unwrap();
    assert!(Server::new(&encrypted, b"").is_err());
    assert!(
        Server::new(
            &encrypted,
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
        )
        .is_err()
    );
}

#[tokio::test]
async fn a_deadline_is_for_looking_up_as_well() {
    let silent: Lookup = Arc::new(|_| std::future::pending().boxed());
    let network = network(&[], silent);
    let url = Url::parse("http://slow.example/").unwrap();
    let request = Request::within(Duration::from_millis(50), url, HeaderMap::new());
    assert!(matches!(network.request(request).await, Err(RequestError::TimedOut)));
}

#[test]
fn what_is_no_request_is_refused_before_anything_else() {
    let network = network(&["127.0.0.1", "ftp.example:21"], resolve::system());
    let check = |url: &str, is_expected: fn(&Result<Route, RequestError>) -> bool| {
        let route = network.route(&Url::parse(url).unwrap());
        assert!(is_expected(&route), "{url}: {route:?}");
    };
    check("ftp://a/", |route| matches!(route, Err(RequestError::Scheme)));
    check("file:///a", |route| matches!(route, Err(RequestError::Scheme)));
    check("http://u@a/", |route| matches!(route, Err(RequestError::Credentials)));
    check("http://:p@a/", |route| matches!(route, Err(RequestError::Credentials)));
    check("http://a:25/", |route| matches!(route, Err(RequestError::Port(25))));
    check("http://127.0.0.1:22/", |route| {
        matches!(route, Err(RequestError::Port(22)))
    });
    check("http://ftp.example:21/", |route| matches!(route, Ok(Route::Listed)));
    check("http://127.0.0.1/", |route| matches!(route, Ok(Route::Public)));
    check("http://127.0.0.2/", |route| {
        matches!(route, Err(RequestError::Refused { .. }))
    });
    check("https://a/", |route| matches!(route, Ok(Route::Public)));
}
