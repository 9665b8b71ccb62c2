//! Encryption and client certificates.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, SanType,
    date_time_ymd,
};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tonic::Code;
use tonic::transport::Channel;
use toolgate_contract::*;

use super::setup::*;
use crate::support::{eventually, refused, test, watch_all};

/// An authority and what it signs.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    fn sign(&self, change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    pub(crate) fn server(&self) -> (String, String) {
        self.sign(|_| {})
    }

    pub(crate) fn client(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
        self.sign(|params| {
            params.distinguished_name.push(DnType::CommonName, name);
            params.subject_alt_names = vec![SanType::URI(format!("spiffe://x/{name}").try_into().unwrap())];
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            change(params);
        })
    }
}

pub(super) fn install(folder: &Folder, (certificate, key): &(String, String)) {
    folder.put("key.pem", key);
    folder.put("certificate.pem", certificate);
}

pub(super) const TLS: &str = "listen.tls.certificate = \"certificate.pem\"\nlisten.tls.key = \"key.pem\"";

async fn lists(channel: &Channel, token: &'static str) -> bool {
    tools(channel, token)
        .list_tools(ListToolsRequest::default())
        .await
        .is_ok()
}

#[test]
fn only_the_right_server_over_tls() {
    test(async {
        let (folder, authority, other) = (Folder::new(), Authority::new(), Authority::new());
        install(&folder, &authority.server());
        let service = folder.start(&format!("{}\n{TLS}", with_tokens(&folder))).await.unwrap();
        let channel = service.connect_tls(&authority.pem(), None).await.unwrap();
        assert!(lists(&channel, ALICE).await);
        assert!(!lists(&channel, "").await);
        assert!(service.connect_tls(&other.pem(), None).await.is_err());
        // Plain text gets nothing.
        let plain = tonic::transport::Endpoint::from_shared(format!("http://{}", service.address)).unwrap();
        if let Ok(channel) = plain.connect().await {
            assert!(!lists(&channel, ALICE).await);
        }
        assert!(lists(&channel, ALICE).await);
        service.stop().await;
    });
}

#[test]
fn a_slow_handshake_holds_up_nobody() {
    test(async {
        let (folder, authority) = (Folder::new(), Authority::new());
        install(&folder, &authority.server());
        let service = folder.start(&format!("{}\n{TLS}", with_tokens(&folder))).await.unwrap();
        let mut silent = Vec::new();
        for _ in 0..50 {
            silent.push(TcpStream::connect(service.address).await.unwrap());
        }
        let started = Instant::now();
        let channel = service.connect_tls(&authority.pem(), None).await.unwrap();
        assert!(lists(&channel, ALICE).await);
        assert!(started.elapsed() < toolgate_server::grpc::auth::HANDSHAKE_TIMEOUT);
        // They are not waited for without end.
        let mut byte = [0];
        let closed = timeout(Duration::from_secs(60), silent[0].read(&mut byte))
            .await
            .expect("it is closed");
        assert!(matches!(closed, Ok(0) | Err(_)));
        service.stop().await;
    });
}

#[test]
fn certificates_change_under_a_live_stream() {
    test(async {
        let (folder, old, new) = (Folder::new(), Authority::new(), Authority::new());
        install(&folder, &old.server());
        let service = folder.start(&format!("{}\n{TLS}", with_tokens(&folder))).await.unwrap();
        let channel = service.connect_tls(&old.pem(), None).await.unwrap();
        let mut stream = prompts(&channel, BOB)
            .watch_prompts(watch_all())
            .await
            .unwrap()
            .into_inner();
        for _ in ["opened", "snapshot_end"] {
            stream.message().await.unwrap().unwrap();
        }
        // A key that is not the certificate's: the old pair stays.
        folder.put("key.pem", &new.server().1);
        tokio::time::sleep(Duration::from_millis(2500)).await;
        assert!(lists(&service.connect_tls(&old.pem(), None).await.unwrap(), ALICE).await);
        install(&folder, &new.server());
        eventually("the new certificate is shown", async || {
            match service.connect_tls(&new.pem(), None).await {
                Ok(channel) => lists(&channel, ALICE).await,
                Err(_) => false,
            }
        })
        .await;
        assert!(service.connect_tls(&old.pem(), None).await.is_err());
        let prompt = ask(&channel, ALICE, "a", "still-there", "").await;
        let told = stream.message().await.unwrap().unwrap().message.unwrap();
        match told {
            watch_prompts_response::Message::PromptAdded(added) => {
                assert_eq!(added.prompt.unwrap().prompt_id, prompt.prompt_id);
            }
            other => panic!("{other:?}"),
        }
        service.stop().await;
    });
}

#[test]
fn client_certificates_name_principals() {
    test(async {
        let (folder, authority, other) = (Folder::new(), Authority::new(), Authority::new());
        install(&folder, &authority.server());
        folder.put("client-ca.pem", &authority.pem());
        let start = async |client_auth: &str| {
            let settings = format!(
                "{}\n{TLS}\nlisten.tls.client_ca = \"client-ca.pem\"\nlisten.tls.client_auth = \"{client_auth}\"\n\
                 [[auth.certificates]]\nsubject = \"dora\"\nname = \"dora\"\nscopes = [\"calls.read\"]\nworkspaces = [\"a\"]\n\
                 [[auth.certificates]]\nsan = \"spiffe://x/ci\"\nname = \"ci\"\nscopes = [\"*\"]",
                with_tokens(&folder)
            );
            folder.start(&settings).await.unwrap()
        };
        let pem = authority.pem();
        let service = start("required").await;
        let connect = async |identity: &(String, String)| {
            let channel = service.connect_tls(&pem, Some((&identity.0, &identity.1))).await;
            // With TLS 1.3 a refusal comes after the client thinks that it is connected.
            match channel {
                Ok(channel) if lists(&channel, "").await => Some(channel),
                Ok(_) | Err(_) => None,
            }
        };
        let dora = connect(&authority.client("dora", |_| {})).await.expect("she is known");
        let info = toolgate_contract::info_service_client::InfoServiceClient::new(dora.clone());
        let info = info
            .clone()
            .get_server_info(GetServerInfoRequest {})
            .await
            .unwrap()
            .into_inner();
        assert_eq!(info.workspaces.len(), 1);
        let request = CancelCallRequest {
            call_id: "x".to_owned(),
        };
        refused(
            tools(&dora, "").cancel_call(request).await,
            Code::PermissionDenied,
            "SCOPE_MISSING",
        );
        let ci = connect(&authority.client("ci", |_| {})).await.expect("it is known");
        assert_eq!(ask(&ci, "", "a", "by-ci", "").await.requester, "certificate:ci");
        // A token says it stronger.
        assert_eq!(ask(&ci, BOB, "a", "by-bob", "").await.requester, "token:bob");
        assert!(connect(&authority.client("eve", |_| {})).await.is_none());
        assert!(connect(&other.client("dora", |_| {})).await.is_none());
        let expired = authority.client("dora", |params| {
            params.not_before = date_time_ymd(2000, 1, 1);
            params.not_after = date_time_ymd(2001, 1, 1);
        });
        assert!(connect(&expired).await.is_none());
        if let Ok(channel) = service.connect_tls(&pem, None).await {
            assert!(!lists(&channel, ALICE).await, "no certificate, no connection");
        }
        service.stop().await;
        let service = start("optional").await;
        let channel = service.connect_tls(&pem, None).await.unwrap();
        assert!(lists(&channel, ALICE).await && !lists(&channel, "").await);
        service.stop().await;
    });
}
