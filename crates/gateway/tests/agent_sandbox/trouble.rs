//! What goes wrong: others who change the same, a cluster that does not answer or does not want to, and one that is upgraded.

use std::fs;
use std::time::{Duration, Instant};

use toolgate_server::provision::ProvisionError;

use super::cluster::{TOKEN, eventually};
use super::*;

/// Returns the text of what may be tried again.
fn failed<T: std::fmt::Debug>(result: Result<T, ProvisionError>) -> String {
    match result.unwrap_err() {
        ProvisionError::Failed(problem) => problem,
        ProvisionError::Refused(problem) => panic!("{problem} is final"),
    }
}

fn contains(text: &str, expected: &str) {
    assert!(text.contains(expected), "{expected:?} is not in {text:?}");
    assert!(!text.contains(TOKEN), "{text}");
}

/// A workspace that is ready.
async fn ready(cluster: &Cluster, sandboxes: &AgentSandbox, wanted: &Wanted) {
    sandboxes.ensure(wanted).await.unwrap();
    until(cluster, sandboxes, wanted, &Observed::Ready).await;
    cluster.asked();
}

#[tokio::test]
async fn a_change_in_between_is_looked_at_first() {
    for release in Release::ALL {
        let cluster = cluster(release, 1).await;
        let sandboxes = provisioner(&cluster).await;
        let wanted = wanted("web");
        ready(&cluster, &sandboxes, &wanted).await;
        let pod = sandboxes.pod(&wanted).await.unwrap().unwrap();
        cluster.asked();
        // What somebody notes on it is no reason not to.
        let noted = pod.clone();
        cluster.state().race = Some(Box::new(move |state: &mut State| {
            state.change(SANDBOXES, &noted, |sandbox| {
                sandbox["metadata"]["annotations"]["note"] = "x".into()
            });
        }));
        assert_eq!(sandboxes.suspend(&wanted).await.unwrap(), Observed::Coming);
        let once = ["GET sandboxclaims", "GET sandboxes", "PATCH sandboxes"];
        assert_eq!(cluster.asked(), [once, once].concat());
        assert_eq!(
            cluster.state().get(SANDBOXES, &pod).unwrap()["metadata"]["annotations"]["note"],
            "x"
        );
        until(&cluster, &sandboxes, &wanted, &Observed::Resting).await;
        cluster.passes(4);
        cluster.asked();
        // Another gateway was faster: nothing is left to do.
        let other = pod.clone();
        cluster.state().race = Some(Box::new(move |state: &mut State| {
            state.change(SANDBOXES, &other, |sandbox| {
                let spec = sandbox["spec"].as_object_mut().unwrap();
                if spec.contains_key("replicas") {
                    spec.insert("replicas".to_owned(), 1.into());
                } else {
                    spec.insert("operatingMode".to_owned(), "Running".into());
                }
            });
        }));
        assert_eq!(sandboxes.resume(&wanted).await.unwrap(), Observed::Coming);
        assert_eq!(cluster.asked(), [&once[..], &once[..2]].concat());
        until(&cluster, &sandboxes, &wanted, &Observed::Ready).await;

        // The claim is deleted and made anew, so the deletion is not of what was looked at.
        let claim = cluster.state().names(CLAIMS).remove(0);
        let name = claim.clone();
        cluster.state().race = Some(Box::new(move |state: &mut State| {
            let mut new = state.delete(CLAIMS, &name, false);
            new["metadata"]["annotations"]["toolgate.dev/request"] = "of-somebody-else".into();
            state.create(CLAIMS, new);
        }));
        assert_eq!(sandboxes.delete(&wanted).await.unwrap(), Observed::Absent);
        assert!(cluster.state().get(CLAIMS, &claim).is_some());
    }
}

#[tokio::test]
async fn a_sandbox_that_goes_in_between_is_no_error() {
    let cluster = cluster(Release::V0_5_6, 1).await;
    let sandboxes = provisioner(&cluster).await;
    let wanted = wanted("web");
    ready(&cluster, &sandboxes, &wanted).await;
    let pod = sandboxes.pod(&wanted).await.unwrap().unwrap();
    cluster.state().race = Some(Box::new(move |state: &mut State| {
        state.delete(SANDBOXES, &pod, false);
    }));
    assert_eq!(sandboxes.suspend(&wanted).await.unwrap(), Observed::Coming);
    // The one that comes instead has to be suspended too.
    cluster.passes(6);
    assert_eq!(sandboxes.suspend(&wanted).await.unwrap(), Observed::Coming);
    until(&cluster, &sandboxes, &wanted, &Observed::Resting).await;
}

#[tokio::test]
async fn what_the_role_lacks_is_said() {
    let cluster = cluster(Release::V0_5_6, 1).await;
    let sandboxes = provisioner(&cluster).await;
    let wanted = wanted("web");
    let without = |verb: &'static str, kind: &'static str| {
        assert!(cluster.state().role.remove(&(verb, kind)));
        move |cluster: &Cluster| cluster.state().role.insert((verb, kind))
    };
    let check = |text: String, verb: &str, kind: &str, group: &str| {
        contains(
            &text,
            &format!("lacks the verb {verb:?} for {kind} of the group {group:?} in the namespace agents"),
        );
        contains(&text, &format!("cannot {verb} resource"));
    };
    let of_claims = "extensions.agents.x-k8s.io";
    let back = without("get", CLAIMS);
    check(failed(sandboxes.observe(&wanted).await), "get", CLAIMS, of_claims);
    back(&cluster);
    let back = without("create", CLAIMS);
    check(failed(sandboxes.ensure(&wanted).await), "create", CLAIMS, of_claims);
    back(&cluster);
    // It may be given meanwhile.
    ready(&cluster, &sandboxes, &wanted).await;
    let back = without("get", SANDBOXES);
    check(
        failed(sandboxes.observe(&wanted).await),
        "get",
        SANDBOXES,
        "agents.x-k8s.io",
    );
    back(&cluster);
    let back = without("patch", SANDBOXES);
    check(
        failed(sandboxes.suspend(&wanted).await),
        "patch",
        SANDBOXES,
        "agents.x-k8s.io",
    );
    assert_eq!(sandboxes.observe(&wanted).await.unwrap(), Observed::Ready);
    back(&cluster);
    let back = without("delete", CLAIMS);
    check(failed(sandboxes.delete(&wanted).await), "delete", CLAIMS, of_claims);
    back(&cluster);
    assert_eq!(sandboxes.delete(&wanted).await.unwrap(), Observed::Coming);
}

#[tokio::test]
async fn a_token_is_read_anew_each_time() {
    let cluster = cluster(Release::V0_5_6, 1).await;
    let sandboxes = provisioner(&cluster).await;
    let wanted = wanted("web");
    ready(&cluster, &sandboxes, &wanted).await;
    // It has expired before the kubelet has exchanged it.
    cluster.state().tokens = ["the-next-token".to_owned()].into();
    let problem = failed(sandboxes.observe(&wanted).await);
    contains(&problem, "does not accept the token in ");
    contains(&problem, "expired");
    fs::write(cluster.file("token"), "the-next-token\n").unwrap();
    assert_eq!(sandboxes.observe(&wanted).await.unwrap(), Observed::Ready);
    // None is there for a moment.
    fs::remove_file(cluster.file("token")).unwrap();
    contains(&failed(sandboxes.observe(&wanted).await), "token: ");
    fs::write(cluster.file("token"), "the-next-token").unwrap();
    assert_eq!(sandboxes.observe(&wanted).await.unwrap(), Observed::Ready);
}

#[tokio::test]
async fn only_the_cluster_is_told_the_token() {
    let cluster = cluster(Release::V0_5_6, 0).await;
    let sandboxes = provisioner(&cluster).await;
    let own = fs::read(cluster.file("ca.crt")).unwrap();
    // Another authority is in the file, then the one of this cluster again.
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(cluster.file("ca.crt"), other.cert.pem()).unwrap();
    contains(
        &failed(sandboxes.observe(&wanted("web")).await),
        "localhost cannot be reached",
    );
    assert!(cluster.asked().is_empty());
    fs::write(cluster.file("ca.crt"), own).unwrap();
    assert_eq!(sandboxes.observe(&wanted("web")).await.unwrap(), Observed::Absent);
    cluster.asked();
    // Who sends it elsewhere is not followed.
    cluster.state().faults.push_back(Fault::Redirect);
    contains(&failed(sandboxes.observe(&wanted("web")).await), "answers with 307");
    assert_eq!(cluster.asked(), ["GET in vain"]);
    // Files without certificates are told when the gateway starts.
    fs::write(cluster.file("ca.crt"), "none").unwrap();
    let refused = AgentSandbox::open(settings(&cluster)).await.err().unwrap();
    contains(&format!("{refused:#}"), "cluster.provisioner.ca_file");
    let missing = Settings {
        ca_file: Some(cluster.file("missing")),
        ..settings(&cluster)
    };
    contains(
        &format!("{:#}", AgentSandbox::open(missing).await.err().unwrap()),
        "missing",
    );
}

#[tokio::test]
async fn whatever_the_cluster_answers_may_be_tried_again() {
    let cluster = cluster(Release::V0_5_6, 1).await;
    let sandboxes = provisioner(&cluster).await;
    let wanted = wanted("web");
    ready(&cluster, &sandboxes, &wanted).await;
    for (fault, expected) in [
        (Fault::Status(500, None), "answers with 500: trouble"),
        (Fault::Status(502, None), "answers with 502"),
        (Fault::Status(410, None), "answers with 410"),
        (Fault::Status(504, None), "answers with 504"),
        (Fault::Garbage, "something else than an object of Kubernetes"),
        // Whether that was the connection or the answer depends on how far it came.
        (Fault::BreaksOff, "localhost"),
        (Fault::Endless, "more than 4194304 bytes"),
    ] {
        cluster.state().faults.push_back(fault);
        contains(&failed(sandboxes.suspend(&wanted).await), expected);
        assert_eq!(cluster.asked(), ["GET in vain"], "{expected}");
        assert_eq!(sandboxes.observe(&wanted).await.unwrap(), Observed::Ready);
        cluster.asked();
    }
    // One that is slow is waited for.
    cluster
        .state()
        .faults
        .push_back(Fault::Slow(Duration::from_millis(300)));
    assert_eq!(sandboxes.observe(&wanted).await.unwrap(), Observed::Ready);
    // An answer to a change that is lost is found out.
    let soon = || Fault::Slow(Duration::ZERO);
    cluster.state().faults.extend([soon(), soon(), Fault::Lost]);
    contains(&failed(sandboxes.suspend(&wanted).await), "answers with 500: lost");
    cluster.asked();
    assert_eq!(sandboxes.suspend(&wanted).await.unwrap(), Observed::Coming);
    assert_eq!(cluster.asked(), ["GET sandboxclaims", "GET sandboxes"]);
    cluster.state().faults.extend([soon(), Fault::Lost]);
    let other = super::wanted("other");
    failed(sandboxes.ensure(&other).await);
    assert_eq!(sandboxes.ensure(&other).await.unwrap(), Observed::Coming);
    cluster.state().faults.extend([soon(), Fault::Lost]);
    failed(sandboxes.delete(&other).await);
    assert_eq!(sandboxes.delete(&other).await.unwrap(), Observed::Coming);
    // Nobody is there.
    cluster.stop();
    let problem = eventually("the server is gone", async || sandboxes.observe(&wanted).await.err()).await;
    contains(&problem.to_string(), "localhost cannot be reached");
}

#[tokio::test]
async fn a_cluster_that_wants_to_be_left_alone_is() {
    let cluster = cluster(Release::V0_5_6, 1).await;
    let sandboxes = provisioner(&cluster).await;
    let wanted = wanted("web");
    ready(&cluster, &sandboxes, &wanted).await;
    // A short pause is waited for.
    cluster.state().faults.push_back(Fault::Status(429, Some(1)));
    contains(&failed(sandboxes.observe(&wanted).await), "answers with 429");
    let begun = Instant::now();
    assert_eq!(sandboxes.observe(&wanted).await.unwrap(), Observed::Ready);
    assert!(begun.elapsed() > Duration::from_millis(800), "{:?}", begun.elapsed());
    // In a long one nothing is asked, for whatever workspace.
    cluster.state().faults.push_back(Fault::Status(503, Some(30)));
    contains(&failed(sandboxes.observe(&wanted).await), "answers with 503");
    cluster.asked();
    for name in ["web", "other"] {
        contains(&failed(sandboxes.ensure(&super::wanted(name)).await), "left alone for ");
    }
    assert!(cluster.asked().is_empty());
}

#[tokio::test]
async fn what_the_cluster_does_not_take_is_final() {
    let cluster = cluster(Release::V0_5_6, 1).await;
    let sandboxes = provisioner(&cluster).await;
    sandboxes.observe(&wanted("web")).await.unwrap();
    for status in [400, 422] {
        cluster
            .state()
            .faults
            .extend([Fault::Slow(Duration::ZERO), Fault::Status(status, None)]);
        let refused = sandboxes.ensure(&wanted("web")).await.unwrap_err();
        assert!(matches!(refused, ProvisionError::Refused(_)), "{refused}");
        contains(&refused.to_string(), "does not take what is asked of it");
    }
}

#[tokio::test]
async fn what_is_not_there_is_told_by_its_name() {
    let cluster = Cluster::start(Release::V0_5_6).await;
    let sandboxes = provisioner(&cluster).await;
    cluster.state().is_installed = false;
    contains(&failed(sandboxes.ensure(&wanted("web")).await), "install agent-sandbox");
    cluster.state().is_installed = true;
    // The pool is missing, then the template of it.
    sandboxes.ensure(&wanted("web")).await.unwrap();
    let broken = async |expected: &str| {
        cluster.pass();
        let observed = sandboxes.observe(&wanted("web")).await.unwrap();
        let Observed::Broken(problem) = observed else {
            panic!("{observed:?}")
        };
        contains(&problem, expected);
    };
    broken("WarmPoolNotFound: SandboxWarmPool \"worker\" not found").await;
    cluster.state().add_pool("worker", 0);
    let template = cluster
        .state()
        .objects
        .remove(&(TEMPLATES, "worker".to_owned()))
        .unwrap();
    broken("TemplateNotFound").await;
    // It heals when the operator has made it.
    cluster
        .state()
        .objects
        .insert((TEMPLATES, "worker".to_owned()), template);
    cluster.pass();
    until(&cluster, &sandboxes, &wanted("web"), &Observed::Ready).await;

    let elsewhere = Settings {
        namespace: Some("elsewhere".to_owned()),
        ..settings(&cluster)
    };
    let elsewhere = AgentSandbox::open(elsewhere).await.unwrap();
    contains(
        &failed(elsewhere.ensure(&wanted("web")).await),
        "has no namespace elsewhere",
    );
}

#[tokio::test]
async fn an_upgrade_of_agent_sandbox_keeps_what_there_is() {
    let cluster = cluster(Release::V0_4_6, 2).await;
    let sandboxes = provisioner(&cluster).await;
    let (web, rests) = (wanted("web"), wanted("rests"));
    ready(&cluster, &sandboxes, &web).await;
    ready(&cluster, &sandboxes, &rests).await;
    sandboxes.suspend(&rests).await.unwrap();
    until(&cluster, &sandboxes, &rests, &Observed::Resting).await;
    let pod = sandboxes.pod(&web).await.unwrap();
    cluster.state().upgrade();
    cluster.passes(3);
    cluster.asked();
    contains(&failed(sandboxes.observe(&web).await), "in the version any more");
    assert_eq!(cluster.asked(), ["GET sandboxclaims of v1alpha1"]);
    assert_eq!(sandboxes.observe(&web).await.unwrap(), Observed::Ready);
    assert_eq!(sandboxes.pod(&web).await.unwrap(), pod);
    until(&cluster, &sandboxes, &rests, &Observed::Resting).await;
    sandboxes.resume(&rests).await.unwrap();
    until(&cluster, &sandboxes, &rests, &Observed::Ready).await;
    ready(&cluster, &sandboxes, &wanted("new")).await;
}
