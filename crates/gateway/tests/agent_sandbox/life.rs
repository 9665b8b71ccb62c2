//! What becomes of a workspace: made, put to rest, taken up again, deleted; with each release.

use super::*;

/// As a loop does it that knows nothing but what was answered last.
async fn bring(cluster: &Cluster, sandboxes: &AgentSandbox, wanted: &Wanted) {
    for _ in 0..20 {
        match sandboxes.ensure(wanted).await.unwrap() {
            Observed::Ready => return,
            Observed::Coming | Observed::Absent => cluster.pass(),
            Observed::Resting => {
                sandboxes.resume(wanted).await.unwrap();
            }
            Observed::Broken(problem) => panic!("{problem}"),
        }
    }
    panic!("{} does not come", wanted.workspace)
}

#[tokio::test]
async fn the_first_use_takes_a_warm_sandbox() {
    for release in Release::ALL {
        let cluster = cluster(release, 1).await;
        let sandboxes = provisioner(&cluster).await;
        let wanted = wanted("web");
        assert!(cluster.asked().is_empty());
        assert_eq!(sandboxes.observe(&wanted).await.unwrap(), Observed::Absent);
        assert_eq!(cluster.asked(), ["GET versions", "GET versions", "GET sandboxclaims"]);

        assert_eq!(sandboxes.ensure(&wanted).await.unwrap(), Observed::Coming);
        assert_eq!(cluster.asked(), ["GET sandboxclaims", "POST sandboxclaims"]);
        assert_eq!(sandboxes.pod(&wanted).await.unwrap(), None);
        until(&cluster, &sandboxes, &wanted, &Observed::Ready).await;
        // The pod is one that was there before, and the pool gets another one.
        let pod = sandboxes.pod(&wanted).await.unwrap().unwrap();
        assert!(pod.starts_with("worker-0"), "{pod}");
        assert_eq!(cluster.state().names(SANDBOXES).len(), 2);
        let said =
            cluster.state().get(SANDBOXES, &pod).unwrap()["spec"]["podTemplate"]["metadata"]["annotations"].clone();
        assert_eq!(said["toolgate.dev/workspace"], "acme/web");

        // Whatever is asked again now writes nothing.
        cluster.asked();
        for _ in 0..3 {
            assert_eq!(sandboxes.ensure(&wanted).await.unwrap(), Observed::Ready);
            assert_eq!(sandboxes.resume(&wanted).await.unwrap(), Observed::Ready);
            cluster.pass();
        }
        let asked = cluster.asked();
        let each = ["GET sandboxclaims", "GET sandboxes"];
        assert!(asked.chunks(2).all(|asked| asked == each), "{asked:?}");
        assert_eq!(asked.len(), 12);
    }
}

#[tokio::test]
async fn a_pool_that_is_empty_costs_the_start_of_a_pod() {
    for release in Release::ALL {
        let cluster = cluster(release, 0).await;
        let sandboxes = provisioner(&cluster).await;
        let wanted = wanted("web");
        bring(&cluster, &sandboxes, &wanted).await;
        let claim = cluster.state().names(CLAIMS).remove(0);
        assert_eq!(sandboxes.pod(&wanted).await.unwrap(), Some(claim));
        let writes = |asked: Vec<String>| {
            asked
                .into_iter()
                .filter(|one| !one.starts_with("GET"))
                .collect::<Vec<_>>()
        };
        assert_eq!(writes(cluster.asked()), ["POST sandboxclaims"]);
    }
}

#[tokio::test]
async fn each_workspace_has_its_own() {
    let cluster = cluster(Release::V0_5_6, 2).await;
    let sandboxes = provisioner(&cluster).await;
    let names: Vec<String> = ["web", "Web", "w/eb", "w.eb", "w-eb"].map(str::to_owned).into();
    let mut pods = std::collections::BTreeSet::new();
    for name in &names {
        bring(&cluster, &sandboxes, &wanted(name)).await;
        pods.insert(sandboxes.pod(&wanted(name)).await.unwrap().unwrap());
    }
    assert_eq!(pods.len(), names.len(), "{pods:?}");
}

#[tokio::test]
async fn gateways_at_the_same_moment_make_one() {
    for release in Release::ALL {
        let cluster = cluster(release, 1).await;
        let (first, second) = (provisioner(&cluster).await, provisioner(&cluster).await);
        let web = wanted("web");
        let both = tokio::join!(first.ensure(&web), second.ensure(&web));
        assert_eq!((both.0.unwrap(), both.1.unwrap()), (Observed::Coming, Observed::Coming));
        // So does one that is slower between its look and its request.
        let other = wanted("other");
        cluster.state().race = Some(Box::new(|state: &mut State| {
            let web = state.names(CLAIMS).remove(0);
            let mut claim = state.get(CLAIMS, &web).unwrap().clone();
            let digest = "ws-acme-other-";
            let name = format!("{digest}{}", hex_of("acme/other"));
            claim["metadata"]["name"] = name.into();
            claim["metadata"]["annotations"]["toolgate.dev/workspace"] = "acme/other".into();
            claim["metadata"]["annotations"]["toolgate.dev/request"] = "request-of-other".into();
            claim["metadata"]["annotations"]
                .as_object_mut()
                .unwrap()
                .remove("agents.x-k8s.io/sandbox-name");
            state.create(CLAIMS, claim);
        }));
        assert_eq!(first.ensure(&other).await.unwrap(), Observed::Coming);
        let claims = cluster.state().names(CLAIMS);
        assert_eq!(claims.len(), 2, "{claims:?}");
        until(&cluster, &second, &other, &Observed::Ready).await;
        until(&cluster, &second, &web, &Observed::Ready).await;
    }
}

fn hex_of(workspace: &str) -> String {
    use sha2::Digest as _;
    hex::encode(&sha2::Sha256::digest(workspace)[..10])
}

#[tokio::test]
async fn what_rests_keeps_its_pods_name() {
    for (release, warm) in Release::ALL
        .into_iter()
        .flat_map(|release| [(release, 0), (release, 1)])
    {
        let cluster = cluster(release, warm).await;
        let sandboxes = provisioner(&cluster).await;
        let wanted = wanted("web");
        bring(&cluster, &sandboxes, &wanted).await;
        let pod = sandboxes.pod(&wanted).await.unwrap().unwrap();
        let uid = cluster.state().pods[&pod].uid.clone();
        cluster.asked();

        assert_eq!(sandboxes.suspend(&wanted).await.unwrap(), Observed::Coming);
        assert_eq!(
            cluster.asked(),
            ["GET sandboxclaims", "GET sandboxes", "PATCH sandboxes"]
        );
        assert_eq!(sandboxes.suspend(&wanted).await.unwrap(), Observed::Coming);
        assert_eq!(sandboxes.pod(&wanted).await.unwrap(), None);
        until(&cluster, &sandboxes, &wanted, &Observed::Resting).await;
        cluster.passes(4);
        assert!(!cluster.state().pods.contains_key(&pod));
        assert_eq!(sandboxes.suspend(&wanted).await.unwrap(), Observed::Resting);
        // What is there is left as it is.
        assert_eq!(sandboxes.ensure(&wanted).await.unwrap(), Observed::Resting);
        assert!(!cluster.asked().iter().any(|one| one.starts_with("PATCH")));

        assert_eq!(sandboxes.resume(&wanted).await.unwrap(), Observed::Coming);
        assert_eq!(
            cluster.asked(),
            ["GET sandboxclaims", "GET sandboxes", "PATCH sandboxes"]
        );
        until(&cluster, &sandboxes, &wanted, &Observed::Ready).await;
        assert_eq!(sandboxes.pod(&wanted).await.unwrap().as_ref(), Some(&pod));
        assert_ne!(cluster.state().pods[&pod].uid, uid);
    }
}

#[tokio::test]
async fn who_changes_the_mind_while_a_pod_ends_gets_the_last_word() {
    for release in Release::ALL {
        let cluster = cluster(release, 1).await;
        let sandboxes = provisioner(&cluster).await;
        let wanted = wanted("web");
        bring(&cluster, &sandboxes, &wanted).await;
        for _ in 0..3 {
            sandboxes.suspend(&wanted).await.unwrap();
            cluster.pass();
            sandboxes.resume(&wanted).await.unwrap();
            cluster.pass();
        }
        cluster.passes(8);
        assert_eq!(sandboxes.observe(&wanted).await.unwrap(), Observed::Ready);
        let pod = sandboxes.pod(&wanted).await.unwrap().unwrap();
        assert_eq!(cluster.state().pods[&pod].phase, Phase::Running);
        assert_eq!(cluster.state().pods[&pod].ending, None);
    }
}

#[tokio::test]
async fn a_pod_that_has_ended_is_made_anew() {
    for (release, phase) in Release::ALL
        .into_iter()
        .flat_map(|release| [(release, Phase::Failed), (release, Phase::Succeeded)])
    {
        let cluster = cluster(release, 1).await;
        let sandboxes = provisioner(&cluster).await;
        let wanted = wanted("web");
        bring(&cluster, &sandboxes, &wanted).await;
        let pod = sandboxes.pod(&wanted).await.unwrap().unwrap();
        let end = || {
            let mut state = cluster.state();
            let ended = state.pods.get_mut(&pod).unwrap();
            ended.phase = phase;
            ended.uid.clone()
        };
        // Whoever only looks changes nothing, and no controller does.
        let uid = end();
        cluster.passes(5);
        assert_eq!(sandboxes.observe(&wanted).await.unwrap(), Observed::Resting);
        assert_eq!(sandboxes.pod(&wanted).await.unwrap(), None);
        assert_eq!(cluster.state().pods[&pod].uid, uid);
        // Its pod goes, whoever asks at another gateway meanwhile, and another one of the same name comes.
        assert_eq!(sandboxes.ensure(&wanted).await.unwrap(), Observed::Coming);
        assert_eq!(
            provisioner(&cluster).await.resume(&wanted).await.unwrap(),
            Observed::Coming
        );
        bring(&cluster, &provisioner(&cluster).await, &wanted).await;
        cluster.passes(5);
        assert_eq!(sandboxes.observe(&wanted).await.unwrap(), Observed::Ready);
        assert_eq!(sandboxes.pod(&wanted).await.unwrap().as_ref(), Some(&pod));
        assert_ne!(cluster.state().pods[&pod].uid, uid);
        let annotations = cluster.state().get(SANDBOXES, &pod).unwrap()["metadata"]["annotations"].clone();
        assert_eq!(annotations.get("toolgate.dev/replacing"), None);

        // One that is to rest does so, though somebody was about to replace its pod.
        end();
        cluster.pass();
        sandboxes.resume(&wanted).await.unwrap();
        assert_eq!(sandboxes.suspend(&wanted).await.unwrap(), Observed::Coming);
        until(&cluster, &sandboxes, &wanted, &Observed::Resting).await;
        cluster.passes(5);
        assert_eq!(sandboxes.ensure(&wanted).await.unwrap(), Observed::Resting);
        bring(&cluster, &sandboxes, &wanted).await;

        // So does one that was to rest for less time than anybody looked.
        let uid = end();
        cluster.pass();
        sandboxes.suspend(&wanted).await.unwrap();
        sandboxes.resume(&wanted).await.unwrap();
        cluster.pass();
        bring(&cluster, &sandboxes, &wanted).await;
        assert_ne!(cluster.state().pods[&pod].uid, uid);
    }
}

#[tokio::test]
async fn a_pod_that_somebody_deletes_comes_back_by_itself() {
    for release in Release::ALL {
        let cluster = cluster(release, 1).await;
        let sandboxes = provisioner(&cluster).await;
        let wanted = wanted("web");
        bring(&cluster, &sandboxes, &wanted).await;
        let pod = sandboxes.pod(&wanted).await.unwrap().unwrap();
        cluster.asked();
        cluster.state().pods.remove(&pod);
        cluster.passes(6);
        until(&cluster, &sandboxes, &wanted, &Observed::Ready).await;
        assert_eq!(sandboxes.pod(&wanted).await.unwrap(), Some(pod));
        assert!(cluster.asked().iter().all(|one| one.starts_with("GET")));
    }
}

#[tokio::test]
async fn what_is_deleted_is_gone_when_all_of_it_is() {
    for (release, rests) in Release::ALL
        .into_iter()
        .flat_map(|release| [(release, false), (release, true)])
    {
        let cluster = cluster(release, 1).await;
        let sandboxes = provisioner(&cluster).await;
        let wanted = wanted("web");
        // What is not there is deleted.
        assert_eq!(sandboxes.delete(&wanted).await.unwrap(), Observed::Absent);
        bring(&cluster, &sandboxes, &wanted).await;
        let pod = sandboxes.pod(&wanted).await.unwrap().unwrap();
        if rests {
            sandboxes.suspend(&wanted).await.unwrap();
            until(&cluster, &sandboxes, &wanted, &Observed::Resting).await;
        }
        cluster.asked();
        assert_eq!(sandboxes.delete(&wanted).await.unwrap(), Observed::Coming);
        assert_eq!(cluster.asked(), ["GET sandboxclaims", "DELETE sandboxclaims"]);
        // Meanwhile nothing is changed, and nobody takes it for what it was.
        assert_eq!(sandboxes.delete(&wanted).await.unwrap(), Observed::Coming);
        assert_eq!(sandboxes.ensure(&wanted).await.unwrap(), Observed::Coming);
        assert_eq!(sandboxes.resume(&wanted).await.unwrap(), Observed::Coming);
        assert_eq!(sandboxes.pod(&wanted).await.unwrap(), None);
        cluster.pass();
        if !rests {
            assert_eq!(sandboxes.observe(&wanted).await.unwrap(), Observed::Coming);
        }
        assert!(cluster.asked().iter().all(|one| one.starts_with("GET")));
        until(&cluster, &sandboxes, &wanted, &Observed::Absent).await;
        assert_eq!(sandboxes.delete(&wanted).await.unwrap(), Observed::Absent);
        assert!(cluster.state().get(SANDBOXES, &pod).is_none());
        // The name is free for another one, which gets another pod.
        let again = Wanted {
            request: "later".to_owned(),
            ..wanted
        };
        bring(&cluster, &sandboxes, &again).await;
        assert_ne!(sandboxes.pod(&again).await.unwrap().unwrap(), pod);
    }
}

#[tokio::test]
async fn what_was_not_made_for_it_is_neither_used_nor_deleted() {
    for release in Release::ALL {
        let cluster = cluster(release, 2).await;
        let sandboxes = provisioner(&cluster).await;
        let first = wanted("web");
        bring(&cluster, &sandboxes, &first).await;
        // Another creation of the same name does not get the files of the first.
        let later = Wanted {
            request: "later".to_owned(),
            ..first.clone()
        };
        let check = async |wanted: &Wanted, expected: &str| {
            for refused in [
                sandboxes.ensure(wanted).await,
                sandboxes.suspend(wanted).await,
                sandboxes.resume(wanted).await,
            ] {
                let refused = refused.unwrap_err();
                assert!(refused.to_string().contains(expected), "{refused}");
                assert!(matches!(
                    refused,
                    toolgate_server::provision::ProvisionError::Refused(_)
                ));
            }
            let observed = sandboxes.observe(wanted).await.unwrap();
            assert!(
                matches!(&observed, Observed::Broken(problem) if problem.contains(expected)),
                "{observed:?}"
            );
            assert_eq!(sandboxes.pod(wanted).await.unwrap(), None);
            assert_eq!(sandboxes.delete(wanted).await.unwrap(), Observed::Absent);
        };
        check(&later, "of an earlier workspace acme/web").await;
        assert_eq!(sandboxes.observe(&first).await.unwrap(), Observed::Ready);
        // Nor does anybody get what has only its name.
        let claim = cluster.state().names(CLAIMS).remove(0);
        cluster.state().change(CLAIMS, &claim, |claim| {
            claim["metadata"]["annotations"] = serde_json::json!({});
        });
        check(&first, "was not made for the workspace acme/web").await;
        assert!(cluster.state().get(CLAIMS, &claim).is_some());
    }
}

#[tokio::test]
async fn a_sandbox_that_is_not_the_claims_is_not_touched() {
    for release in Release::ALL {
        let cluster = cluster(release, 1).await;
        let sandboxes = provisioner(&cluster).await;
        let wanted = wanted("web");
        bring(&cluster, &sandboxes, &wanted).await;
        let pod = sandboxes.pod(&wanted).await.unwrap().unwrap();
        // The claim still says that it is, and the controllers have not seen it yet.
        cluster.state().change(SANDBOXES, &pod, |sandbox| {
            sandbox["metadata"]["ownerReferences"][0]["uid"] = "of-another".into();
        });
        cluster.asked();
        assert_eq!(sandboxes.suspend(&wanted).await.unwrap(), Observed::Coming);
        assert_eq!(sandboxes.observe(&wanted).await.unwrap(), Observed::Coming);
        assert_eq!(sandboxes.pod(&wanted).await.unwrap(), None);
        assert!(cluster.asked().iter().all(|one| one.starts_with("GET")));
        // They give it another one then.
        bring(&cluster, &sandboxes, &wanted).await;
        assert_ne!(sandboxes.pod(&wanted).await.unwrap().unwrap(), pod);
    }
}

#[tokio::test]
async fn a_template_is_one_that_is_called_after_that_of_the_configuration() {
    for release in Release::ALL {
        let cluster = cluster(release, 1).await;
        cluster.state().add_pool("worker-python", 1);
        cluster.passes(4);
        let sandboxes = provisioner(&cluster).await;
        let of = |name: &str| Wanted {
            source: WorkspaceSource::Template(name.to_owned()),
            ..wanted(name)
        };
        bring(&cluster, &sandboxes, &of("python")).await;
        let pod = sandboxes.pod(&of("python")).await.unwrap().unwrap();
        assert!(pod.starts_with("worker-python-0"), "{pod}");
        // One that the operator does not have.
        assert_eq!(sandboxes.ensure(&of("ruby")).await.unwrap(), Observed::Coming);
        cluster.pass();
        let observed = sandboxes.observe(&of("ruby")).await.unwrap();
        assert!(
            matches!(&observed, Observed::Broken(problem) if problem.contains("worker-ruby")),
            "{observed:?}"
        );
        assert_eq!(sandboxes.delete(&of("ruby")).await.unwrap(), Observed::Coming);
        until(&cluster, &sandboxes, &of("ruby"), &Observed::Absent).await;

        cluster.asked();
        let url = "https://git.example/a".to_owned();
        for source in [
            WorkspaceSource::Template("../secret".to_owned()),
            WorkspaceSource::Git {
                url: url.clone(),
                reference: "main".to_owned(),
            },
            WorkspaceSource::Archive { url },
        ] {
            let refused = sandboxes.ensure(&Wanted { source, ..wanted("no") }).await.unwrap_err();
            assert!(matches!(
                refused,
                toolgate_server::provision::ProvisionError::Refused(_)
            ));
        }
        assert!(cluster.asked().is_empty(), "nothing is asked for what cannot be");
    }
}
