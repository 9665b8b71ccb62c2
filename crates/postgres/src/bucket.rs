//! The bucket: objects by their names, in anything that speaks S3.
//!
//! *Invariant:* it knows neither outputs nor the database. Nobody waits for it longer than a limit. A bucket that is away is
//! [`StoreError::Unavailable`], one that refuses us is [`StoreError::Failed`] and says what to look at.

use std::fmt;
use std::ops::Range;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::stream::{BoxStream, Chunks};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::aws::{AmazonS3, AmazonS3Builder, Checksum};
use object_store::path::Path;
use object_store::signer::{SignedUrlOptions, Signer as _};
use object_store::{
    BackoffConfig, ClientOptions, Error, ObjectMeta, ObjectStore as _, ObjectStoreExt as _, PutPayload, RetryConfig,
};
use reqwest::Method;
use reqwest::header::{HeaderName, HeaderValue};
use toolgate_store::StoreError;
use toolgate_store::codec::failed;

/// The checksum that a server compares with what it gets, whoever sends it.
const SHA256: HeaderName = HeaderName::from_static("x-amz-checksum-sha256");

/// What S3 says to whom it takes to be wrong about the time, by more than a quarter of an hour.
const OTHER_TIME: &str = "RequestTimeTooSkewed";

/// How long a connection may take to come about.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// A request is made again so often when the server did not answer or was busy.
const RETRIES: usize = 2;

/// Names that are listed at once.
const NAMES_PER_PAGE: usize = 1_000;

/// How long a part may be put.
const UPLOAD_LIMIT: Duration = Duration::from_secs(15 * 60);

/// Where a bucket is and who uses it.
pub struct BucketOptions {
    /// Its name.
    pub bucket: String,
    /// What the names of all objects begin with; may be empty.
    pub prefix: String,
    /// Its region; where it is empty, `AWS_REGION` or `us-east-1`.
    pub region: String,
    /// The server, as `https://HOST:PORT`; where it is empty, the one of the region.
    pub endpoint: String,
    /// Whether the bucket is the first part of the path instead of the first part of the server's name.
    pub path_style: bool,
    /// Who uses it; without, the usual environment says: `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, a web identity, or the machine's role.
    pub keys: Option<BucketKeys>,
    /// How long a request may take; what carries much has longer.
    pub time_limit: Duration,
    /// How long others may put what they were allowed to put.
    pub upload_limit: Duration,
}

/// Who uses a bucket.
pub struct BucketKeys {
    /// The public half.
    pub id: String,
    /// The secret half.
    pub secret: String,
}

impl BucketOptions {
    /// Returns what is usual, for a bucket: no prefix, Amazon's server of the region, keys of the environment, 10 s.
    pub fn new(bucket: impl Into<String>) -> Self {
        Self {
            bucket: bucket.into(),
            prefix: String::new(),
            region: String::new(),
            endpoint: String::new(),
            path_style: false,
            keys: None,
            time_limit: Duration::from_secs(10),
            upload_limit: UPLOAD_LIMIT,
        }
    }

    /// As [`Self::new`], of what `s3://BUCKET/PREFIX` names. None if it is no such address.
    pub fn of_address(address: &str) -> Option<Self> {
        let (bucket, prefix) = match address.strip_prefix("s3://")?.split_once('/') {
            Some((bucket, prefix)) => (bucket, prefix.trim_matches('/')),
            None => (address.strip_prefix("s3://")?, ""),
        };
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
        if !(3..=63).contains(&bucket.len()) || !bucket.chars().all(is_name) || Path::parse(prefix).is_err() {
            return None;
        }
        Some(Self {
            prefix: prefix.to_owned(),
            ..Self::new(bucket)
        })
    }
}

/// A bucket, or a part of one.
#[derive(Clone)]
pub struct Bucket {
    store: AmazonS3,
    name: String,
    prefix: Path,
    limit: Duration,
    /// As [`BucketOptions::upload_limit`].
    pub(crate) upload_limit: Duration,
}

impl Bucket {
    /// Prepares to use a bucket; asks for nothing yet. TLS has the provider of the process, which must be installed.
    ///
    /// # Errors
    /// The options contradict each other.
    pub fn new(options: BucketOptions) -> Result<Self, StoreError> {
        let what = "use the bucket of outputs";
        let prefix = Path::parse(&options.prefix).map_err(|error| failed(what, error))?;
        let client = ClientOptions::new()
            .with_connect_timeout(CONNECT_LIMIT)
            .with_read_timeout(options.time_limit)
            .with_timeout(options.time_limit * 6)
            .with_allow_http(options.endpoint.starts_with("http://"));
        let retry = RetryConfig {
            backoff: BackoffConfig {
                max_backoff: Duration::from_secs(1),
                ..BackoffConfig::default()
            },
            max_retries: RETRIES,
            retry_timeout: options.time_limit,
        };
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(&options.bucket)
            .with_client_options(client)
            .with_retry(retry)
            .with_checksum_algorithm(Checksum::SHA256)
            .with_virtual_hosted_style_request(!options.path_style);
        if !options.region.is_empty() {
            builder = builder.with_region(&options.region);
        }
        if !options.endpoint.is_empty() {
            builder = builder.with_endpoint(endpoint(&options));
        }
        if let Some(keys) = options.keys {
            builder = builder.with_access_key_id(keys.id).with_secret_access_key(keys.secret);
        }
        Ok(Self {
            store: builder.build().map_err(|error| failed(what, error))?,
            name: options.bucket,
            prefix,
            limit: options.time_limit,
            upload_limit: options.upload_limit,
        })
    }

    fn path(&self, name: &str) -> Path {
        let parts = self.prefix.parts().map(|part| part.as_ref().to_owned());
        Path::from_iter(parts.chain(name.split('/').map(str::to_owned)))
    }

    /// Waits for an answer, `times` as long as one may take.
    async fn ask<T>(
        &self,
        what: &'static str,
        times: u32,
        question: impl Future<Output = Result<T, Error>>,
    ) -> Result<Option<T>, StoreError> {
        match tokio::time::timeout(self.limit * times, question).await {
            Ok(Ok(answer)) => Ok(Some(answer)),
            Ok(Err(Error::NotFound { .. })) => Ok(None),
            Ok(Err(error)) => Err(self.problem(what, error)),
            Err(_) => Err(StoreError::Unavailable(format!(
                "{what}: the bucket {} gave no answer in time",
                self.name
            ))),
        }
    }

    fn problem(&self, what: &str, error: Error) -> StoreError {
        let context = format!("{what} in the bucket {}", self.name);
        if error.to_string().contains(OTHER_TIME) {
            // Another gateway may have the right time.
            return StoreError::Unavailable(format!(
                "{context}: it refuses, as this machine's clock and its own differ by too much: set this machine's clock"
            ));
        }
        if matches!(error, Error::PermissionDenied { .. } | Error::Unauthenticated { .. }) {
            let advice = format!("{context}: it refuses; look at its keys and at what they may do");
            return failed(advice, error);
        }
        match matches!(error, Error::Generic { .. }) {
            true => StoreError::Unavailable(format!("{context}: {error}")),
            false => failed(context, error),
        }
    }

    /// Puts an object.
    pub(crate) async fn put(&self, name: &str, pieces: Vec<Bytes>) -> Result<(), StoreError> {
        let what = "put an object";
        let path = self.path(name);
        let put = self.store.put(&path, PutPayload::from_iter(pieces));
        let put = self.ask(what, 6, put).await?;
        put.map(drop).ok_or_else(|| self.is_not_there(what))
    }

    /// Returns why nothing could be put, if more can be known: who refuses may hang up before it has everything, and says why only to
    /// a question without bytes.
    pub(crate) async fn why(&self, error: StoreError) -> StoreError {
        if !matches!(error, StoreError::Unavailable(_)) {
            return error;
        }
        self.get("why", 0..1).await.err().unwrap_or(error)
    }

    fn is_not_there(&self, what: &str) -> StoreError {
        failed(what.to_owned(), format!("there is no bucket {}", self.name))
    }

    /// Reads a range of an object. None if there is no such object.
    pub(crate) async fn get(&self, name: &str, range: Range<u64>) -> Result<Option<Bytes>, StoreError> {
        let path = self.path(name);
        self.ask("read an object", 1, self.store.get_range(&path, range)).await
    }

    /// Returns how long an object is. None if there is no such object.
    pub(crate) async fn size(&self, name: &str) -> Result<Option<u64>, StoreError> {
        let path = self.path(name);
        let head = self.ask("look at an object", 1, self.store.head(&path)).await?;
        Ok(head.map(|head| head.size))
    }

    /// Deletes objects, whether they are there or not.
    pub(crate) async fn delete(&self, names: &[String]) -> Result<(), StoreError> {
        let paths: Vec<Result<Path, Error>> = names.iter().map(|name| Ok(self.path(name))).collect();
        let deleted = self.store.delete_stream(stream::iter(paths).boxed());
        let deleted = deleted.try_for_each_concurrent(None, |_| std::future::ready(Ok(())));
        self.ask("delete objects", 6, deleted).await.map(drop)
    }

    /// Lists the names within a folder of objects that were put before `age` ago.
    pub(crate) fn list(&self, folder: &str, age: Duration) -> Pages<'_> {
        let mut prefix = self.path("x").to_string();
        prefix.pop();
        Pages {
            bucket: self,
            prefix,
            before: SystemTime::now() - age,
            objects: self.store.list(Some(&self.path(folder))).chunks(NAMES_PER_PAGE),
        }
    }

    /// Returns a URL and the headers with which anybody may put one object of this digest, for some time. The length of the bytes is not
    /// signed, as the client leaves it out: bytes of another length have another digest.
    pub(crate) async fn presign(
        &self,
        name: &str,
        digest: &[u8],
        for_long: Duration,
    ) -> Result<(String, Vec<(String, String)>), StoreError> {
        let what = "let an object be put";
        let digest = BASE64_STANDARD.encode(digest);
        let value = HeaderValue::from_str(&digest).map_err(|error| failed(what, error))?;
        let options = SignedUrlOptions::new().with_signed_header(SHA256, value);
        let path = self.path(name);
        let signed = self.store.signed_url_opts(Method::PUT, &path, for_long, &options);
        let url = self
            .ask(what, 1, signed)
            .await?
            .ok_or_else(|| self.is_not_there(what))?;
        Ok((url.into(), vec![(SHA256.to_string(), digest)]))
    }
}

/// Names of objects, some at once.
pub(crate) struct Pages<'b> {
    bucket: &'b Bucket,
    prefix: String,
    before: SystemTime,
    objects: Chunks<BoxStream<'static, Result<ObjectMeta, Error>>>,
}

impl Pages<'_> {
    /// Returns the next ones; there may be none among those of a page. None at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<String>>, StoreError> {
        let what = "list objects";
        let page = async { Ok(self.objects.next().await) };
        let Some(page) = self.bucket.ask(what, 1, page).await?.flatten() else {
            return Ok(None);
        };
        let mut names = Vec::new();
        for object in page {
            let object = object.map_err(|error| self.bucket.problem(what, error))?;
            if let Some(name) = object.location.as_ref().strip_prefix(&self.prefix)
                && SystemTime::from(object.last_modified) < self.before
            {
                names.push(name.to_owned());
            }
        }
        Ok(Some(names))
    }
}

/// The server's address as the client wants it: with the bucket in its name, unless that is in the path.
fn endpoint(options: &BucketOptions) -> String {
    match (options.path_style, options.endpoint.split_once("://")) {
        (false, Some((scheme, host))) => format!("{scheme}://{}.{host}", options.bucket),
        _ => options.endpoint.clone(),
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket")
            .field("name", &self.name)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let check = |address: &str, expected: Option<(&str, &str)>| {
            let options = BucketOptions::of_address(address);
            let found = options.as_ref().map(|it| (it.bucket.as_str(), it.prefix.as_str()));
            assert_eq!(found, expected, "{address}");
        };
        check("s3://outputs", Some(("outputs", "")));
        check("s3://outputs/", Some(("outputs", "")));
        check("s3://my.outputs-1/a/b/", Some(("my.outputs-1", "a/b")));
        check("s3://Outputs/a", None);
        check("s3://ab", None);
        check("s3:///a", None);
        check("https://outputs/a", None);
        check("s3://outputs/a//b", None);
    }

    #[test]
    fn a_server_has_the_bucket_in_its_name_or_path() {
        let of = |path_style: bool| {
            endpoint(&BucketOptions {
                endpoint: "https://s3.example:9000".to_owned(),
                path_style,
                ..BucketOptions::new("outputs")
            })
        };
        assert_eq!(of(false), "https://outputs.s3.example:9000");
        assert_eq!(of(true), "https://s3.example:9000");
    }
}
