//! Signed tokens.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::KeyPair;
use serde_json::{Value, json};
use tokio::time::timeout;
use tonic::{Code, Status};
use toolgate_contract::*;

use super::setup::*;
use crate::support::{eventually, refused, test, watch_all};

pub(crate) struct Issuer {
    key: KeyPair,
    id: &'static str,
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

impl Issuer {
    pub(crate) fn new(id: &'static str) -> Self {
        let key = KeyPair::generate().unwrap();
        Self { key, id }
    }

    pub(crate) fn jwk(&self) -> Value {
        let point = self.key.public_key_raw();
        let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        json!({"kty": "EC", "crv": "P-256", "kid": self.id, "use": "sig", "x": part(&point[1..33]), "y": part(&point[33..])})
    }

    /// Signs good claims with some replaced; null takes one away. Tests may forget to free what they sign.
    pub(crate) fn sign(&self, changes: Value) -> &'static str {
        self.sign_as(
            Algorithm::ES256,
            Some(self.id),
            EncodingKey::from_ec_der(&self.key.serialize_der()),
            changes,
        )
    }

    fn sign_as(&self, algorithm: Algorithm, id: Option<&str>, key: EncodingKey, changes: Value) -> &'static str {
        let mut header = Header::new(algorithm);
        header.kid = id.map(str::to_owned);
        encode(&header, &claims(changes), &key).unwrap().leak()
    }
}

fn claims(changes: Value) -> Value {
    let mut claims = json!({
        "iss": "https://issuer", "aud": "toolgate", "sub": "alice", "exp": now() + 600,
        "scope": "openid calls.read calls.execute", "workspaces": ["a"],
    });
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => claims.as_object_mut().unwrap().remove(name),
            value => claims.as_object_mut().unwrap().insert(name.clone(), value.clone()),
        };
    }
    claims
}

async fn start(folder: &Folder, keys: &[Value]) -> Service {
    start_with(folder, keys, "").await
}

/// Starts a service that takes tokens of these keys, with more settings.
pub(super) async fn start_with(folder: &Folder, keys: &[Value], settings: &str) -> Service {
    folder.put("keys.json", &json!({"keys": keys}).to_string());
    let settings = format!(
        "{ON_A_PORT}\n[auth.jwt]\njwks_file = \"keys.json\"\nissuer = \"https://issuer\"\naudience = \"toolgate\"\n\
         workspace_claim = \"workspaces\"\nleeway = \"1s\"\n{settings}"
    );
    folder.start(&settings).await.unwrap()
}

#[test]
fn only_what_the_issuer_signed_for_us_and_now() {
    test(async {
        let (folder, issuer, second, stranger) = (
            Folder::new(),
            Issuer::new("one"),
            Issuer::new("two"),
            Issuer::new("one"),
        );
        // A shared secret in the file is none.
        let secret = json!({"kty": "oct", "kid": "secret", "k": URL_SAFE_NO_PAD.encode("0123456789abcdef")});
        let service = start(&folder, &[issuer.jwk(), second.jwk(), secret]).await;
        let channel = service.connect().await;
        let list = async |token: &'static str| {
            let listed = tools(&channel, token).list_tools(ListToolsRequest::default()).await;
            listed.map(|_| ())
        };
        list(issuer.sign(json!({}))).await.unwrap();
        list(second.sign(json!({"scope": ["calls.read"], "aud": ["other", "toolgate"]})))
            .await
            .unwrap();
        let no = |result: Result<(), Status>, part: &str| {
            assert!(
                result.as_ref().is_err_and(|status| status.message().contains(part)),
                "{part}: {result:?}"
            );
            refused(result, Code::Unauthenticated, "BAD_CREDENTIALS");
        };
        no(list(stranger.sign(json!({}))).await, "signature");
        no(list(issuer.sign(json!({"iss": "https://other"}))).await, "issuer");
        no(list(issuer.sign(json!({"iss": ["https://issuer"]}))).await, "issuer");
        no(
            list(issuer.sign(json!({"iss": ["https://other", "https://issuer"]}))).await,
            "issuer",
        );
        no(list(issuer.sign(json!({"iss": null}))).await, "exp, iss and aud");
        no(list(issuer.sign(json!({"aud": "other"}))).await, "somebody else");
        no(list(issuer.sign(json!({"aud": null}))).await, "exp, iss and aud");
        no(list(issuer.sign(json!({"exp": null}))).await, "exp, iss and aud");
        no(list(issuer.sign(json!({"exp": "tomorrow"}))).await, "");
        no(list(issuer.sign(json!({"nbf": now() + 600}))).await, "not valid yet");
        no(list(issuer.sign(json!({"sub": null}))).await, "whose it is");
        no(list(issuer.sign(json!({"sub": "a\nb"}))).await, "whose it is");
        no(list(issuer.sign(json!({"workspaces": []}))).await, "no workspace");
        no(list(issuer.sign(json!({"workspaces": null}))).await, "no workspace");
        refused(
            list(issuer.sign(json!({"exp": now() - 10}))).await,
            Code::Unauthenticated,
            "CREDENTIALS_EXPIRED",
        );
        let ec = |issuer: &Issuer| EncodingKey::from_ec_der(&issuer.key.serialize_der());
        no(
            list(issuer.sign_as(Algorithm::ES256, Some("three"), ec(&issuer), json!({}))).await,
            "key is not known",
        );
        no(
            list(issuer.sign_as(Algorithm::ES256, None, ec(&issuer), json!({}))).await,
            "key is not known",
        );
        no(
            list(issuer.sign_as(Algorithm::ES256, Some("two"), ec(&issuer), json!({}))).await,
            "signature",
        );
        // The public key as a shared secret, in every form that somebody may have it.
        for public in [
            issuer.key.public_key_raw().to_vec(),
            issuer.key.public_key_pem().into_bytes(),
        ] {
            let token = issuer.sign_as(
                Algorithm::HS256,
                Some("one"),
                EncodingKey::from_secret(&public),
                json!({}),
            );
            no(list(token).await, "algorithm");
        }
        let shared = EncodingKey::from_secret(b"0123456789abcdef");
        no(
            list(issuer.sign_as(Algorithm::HS256, Some("secret"), shared, json!({}))).await,
            "algorithm",
        );
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        for name in ["none", "None", "NONE", ""] {
            let unsigned = format!(
                "{}.{}.",
                part(json!({"alg": name, "kid": "one"})),
                part(claims(json!({})))
            );
            no(list(unsigned.leak()).await, "algorithm");
        }
        let good = issuer.sign(json!({}));
        let (head, signature) = good.rsplit_once('.').unwrap();
        let (header, _) = head.split_once('.').unwrap();
        let other = format!("{header}.{}.{signature}", part(claims(json!({"sub": "root"}))));
        no(list(other.leak()).await, "signature");
        let critical = format!(
            "{}.x.y",
            part(json!({"alg": "ES256", "kid": "one", "crit": ["b64"], "b64": false}))
        );
        no(list(critical.leak()).await, "extensions");
        no(list("a.b.c").await, "not known");

        let mine = issuer.sign(json!({}));
        assert_eq!(ask(&channel, mine, "", "mine", "").await.requester, "jwt:alice");
        let request = GetPromptRequest {
            prompt_id: "p".to_owned(),
        };
        refused(
            prompts(&channel, mine).get_prompt(request).await,
            Code::NotFound,
            "NOT_FOUND",
        );
        let channel_scope = answer(&channel, mine, &Prompt::default(), PromptDecision::Once).await;
        refused(channel_scope, Code::PermissionDenied, "SCOPE_MISSING");
        service.stop().await;
    });
}

#[test]
fn a_stream_ends_with_its_token() {
    test(async {
        let (folder, issuer, next) = (Folder::new(), Issuer::new("one"), Issuer::new("next"));
        let service = start(&folder, &[issuer.jwk()]).await;
        let channel = service.connect().await;
        let watch = async |token: &'static str| {
            let stream = prompts(&channel, token).watch_prompts(watch_all()).await;
            let mut stream = stream.unwrap().into_inner();
            stream.message().await.unwrap();
            stream.message().await.unwrap();
            stream
        };
        let mut short = watch(issuer.sign(json!({"exp": now() + 2}))).await;
        let end = timeout(Duration::from_secs(20), short.message())
            .await
            .expect("it ends");
        refused(end, Code::Unauthenticated, "CREDENTIALS_EXPIRED");
        // A key that is taken back takes its tokens with it.
        let mut long = watch(issuer.sign(json!({}))).await;
        folder.put("keys.json", &json!({"keys": [next.jwk()]}).to_string());
        let end = timeout(Duration::from_secs(20), long.message()).await.expect("it ends");
        refused(end, Code::Unauthenticated, "CREDENTIALS_REVOKED");
        let token = next.sign(json!({}));
        eventually("the new key is known", async || {
            tools(&channel, token)
                .list_tools(ListToolsRequest::default())
                .await
                .is_ok()
        })
        .await;
        service.stop().await;
    });
}
