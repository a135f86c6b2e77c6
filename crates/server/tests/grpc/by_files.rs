//! Domains of the reference service's files. What is counted is held to `testdata/descriptors` elsewhere; here it is what goes over the wire.

use serde_json::json;
use tidegate_engine::engine::OnStoreError;
use tidegate_server::grpc::proto::rate_limit_descriptor::RateLimitOverride;
use tidegate_server::grpc::proto::{RateLimitDescriptor, RateLimitRequest};

use crate::service::{OK, OVER_LIMIT, Service, Setup, all_written, descriptor, domain, node, question};

fn service() -> Service {
    let unlimited = json!({"key": "open", "limit": {"unlimited": true, "quotas": [], "requests_per_unit": 0, "unit": "UNKNOWN"}});
    let nodes = [node("user", 2, &json!({"name": "per_user"})), node("path", 5, &json!({})), unlimited];
    Setup { domains: domain(&nodes), ..Setup::default() }.start()
}

#[tokio::test]
async fn every_descriptor_has_a_status_in_its_place() {
    let service = service();

    let response = service.check("files", &["path=/", "nobody=x", "open=x", "user=ada", ""]).await;

    assert_eq!(response.overall_code, OK);
    let expected = [
        "OK 4 of 5/2 in 60",
        "OK 0 without a limit",
        "OK 4294967295 without a limit",
        "OK 1 of 2/2 per_user in 60",
        "OK 0 without a limit",
    ];
    assert_eq!(all_written(&response), expected);
}

#[tokio::test]
async fn one_descriptor_over_its_limit_is_enough() {
    let service = service();
    for _ in 0..2 {
        assert_eq!(service.check("files", &["user=ada"]).await.overall_code, OK);
    }
    service.clock.advance(1_500_000_000);

    let response = service.check("files", &["user=ada", "user=bob"]).await;

    assert_eq!(response.overall_code, OVER_LIMIT);
    assert_eq!(all_written(&response), ["OVER 0 of 2/2 per_user in 59", "OK 1 of 2/2 per_user in 59"]);
}

#[tokio::test]
async fn an_unknown_domain_limits_nothing() {
    let response = service().check("elsewhere", &["user=ada", "path=/"]).await;

    assert_eq!(response.overall_code, OK);
    assert_eq!(all_written(&response), ["OK 0 without a limit", "OK 0 without a limit"]);
}

#[tokio::test]
async fn a_descriptor_says_how_many_hits_it_counts_and_zero_only_asks() {
    let service = service();
    let with = |hits| RateLimitDescriptor { hits_addend: hits, ..descriptor("path=/") };
    let ask = |descriptors| RateLimitRequest { domain: "files".to_owned(), descriptors, hits_addend: 3 };

    assert_eq!(all_written(&service.ask(&ask(vec![with(None)])).await), ["OK 2 of 5/2 in 60"]);
    assert_eq!(all_written(&service.ask(&ask(vec![with(Some(0))])).await), ["OK 2 of 5/2 in 60"]);
    assert_eq!(all_written(&service.ask(&ask(vec![with(Some(2))])).await), ["OK 0 of 5/2 in 60"]);
    assert_eq!(service.ask(&ask(vec![with(Some(0))])).await.overall_code, OK, "nothing is left, and nothing is asked for");
    assert_eq!(service.ask(&ask(vec![with(Some(1))])).await.overall_code, OVER_LIMIT);
}

#[tokio::test]
async fn negative_hits_are_given_back() {
    let service = service();
    service.ask(&RateLimitRequest { hits_addend: 4, ..question("files", &["path=/"]) }).await;
    let back = RateLimitDescriptor { hits_addend: Some(2), is_negative_hits: true, ..descriptor("path=/") };

    let response = service.ask(&RateLimitRequest { descriptors: vec![back], ..question("files", &[]) }).await;

    assert_eq!(all_written(&response), ["OK 3 of 5/2 in 60"]);
}

#[tokio::test]
async fn a_limit_that_a_descriptor_brings_along_is_the_one_that_counts() {
    let service = service();
    let with = |unit| {
        let limit = Some(RateLimitOverride { requests_per_unit: 9, unit });
        RateLimitRequest { descriptors: vec![RateLimitDescriptor { limit, ..descriptor("user=ada") }], ..question("files", &[]) }
    };

    assert_eq!(all_written(&service.ask(&with(4)).await), ["OK 8 of 9/4 in 85200"]);
    for unit in [0, 8, -1] {
        let (code, message) = service.refusal(&with(unit)).await;
        assert_eq!(
            (&*code, &*message),
            ("3", "descriptor 0 has a limit without a unit; name one, such as MINUTE"),
            "unit {unit}"
        );
    }
}

#[tokio::test]
async fn questions_that_make_no_sense_are_refused() {
    let service = service();
    let hits = RateLimitDescriptor { hits_addend: Some(u64::MAX), ..descriptor("user=ada") };
    let too_much = RateLimitRequest { descriptors: vec![hits], ..question("files", &[]) };
    let too_many = question("files", &vec!["user=ada"; 1_001]);

    for (question, expected) in [
        (question("", &["user=ada"]), "the domain is empty"),
        (question("files", &[]), "the list of descriptors is empty"),
        (too_much, "cost 18446744073709551615 is too large"),
        (too_many, "more than 1000 descriptors"),
    ] {
        let (code, message) = service.refusal(&question).await;
        assert_eq!(code, "3", "{message}");
        assert!(message.contains(expected), "{message}");
    }
}

#[tokio::test]
async fn a_store_that_cannot_decide_is_an_answer_by_policy() {
    for (on_store_error, expected) in [(OnStoreError::Deny, OVER_LIMIT), (OnStoreError::Allow, OK)] {
        let domains = domain(&[node("user", 1, &json!({}))]);
        let service = Setup { domains, keys_max: 1, on_store_error, ..Setup::default() }.start();
        // A state that limits somebody is not forgotten for another one.
        for _ in 0..2 {
            service.check("files", &["user=ada"]).await;
        }

        assert_eq!(service.check("files", &["user=bob"]).await.overall_code, expected);
    }
}

#[tokio::test]
async fn modes_of_the_service_change_the_overall_code() {
    for (mode, expected) in [("shadow_mode", OK), ("quota_mode", OK)] {
        let mut rls = json!({"headers": "off", "metadata": "off", "shadow_mode": false, "quota_mode": false});
        rls[mode] = json!(true);
        let domains = domain(&[node("user", 0, &json!({}))]);
        let service = Setup { domains, settings: json!({"rls": rls}), ..Setup::default() }.start();

        let response = service.check("files", &["user=ada", "nobody=x"]).await;

        assert_eq!(response.overall_code, expected, "{mode}");
        assert_eq!(response.statuses[0].code, OVER_LIMIT, "{mode}");
    }
}
