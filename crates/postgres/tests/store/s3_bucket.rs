//! The bucket of the tests' own S3 server, as a store uses it.

use std::time::Duration;

use toolgate_postgres::{Bucket, BucketKeys, BucketOptions};

use crate::s3::{Door, S3};

impl S3 {
    /// Returns the bucket, behind a door or not, with a prefix.
    pub(crate) fn bucket(&self, door: Option<&Door>, prefix: &str) -> Bucket {
        Bucket::new(self.options(door, prefix)).unwrap()
    }

    /// How it is used.
    pub(crate) fn options(&self, door: Option<&Door>, prefix: &str) -> BucketOptions {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        BucketOptions {
            prefix: prefix.to_owned(),
            region: "us-east-1".to_owned(),
            endpoint: self.endpoint(door),
            path_style: true,
            keys: Some(BucketKeys {
                id: "key".to_owned(),
                secret: "secret".to_owned(),
            }),
            time_limit: Duration::from_secs(5),
            ..BucketOptions::new("outputs")
        }
    }
}
