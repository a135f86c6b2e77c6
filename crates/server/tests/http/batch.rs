//! Many checks in one request.

use http::StatusCode;
use serde_json::json;

use crate::app::Service;

const BATCH: &str = "/api/v1/rate-limit/check/batch";

#[tokio::test]
async fn each_check_is_answered_on_its_own_and_in_order() {
    let service = Service::new(&[json!({})]);
    let batch = json!([{"client_id": "a"}, {"client_id": "a", "cost": 2}, {"client_id": "b"}, {"client_id": "a"}]);
    let answers = service.post(BATCH, &batch).await.json();
    let allowed: Vec<bool> = answers.as_array().expect("a list").iter().map(|answer| answer["allowed"] == true).collect();
    assert_eq!(allowed, [true, false, true, true]);
}

#[tokio::test]
async fn one_that_makes_no_sense_does_not_spoil_the_others() {
    let service = Service::new(&[json!({})]);
    let batch = json!([{"client_id": "a"}, {"client": "a"}, 7, {"client_id": "a", "cost": 9_999_999_999_999_999_u64}]);
    let answers = service.post(BATCH, &batch).await.json();
    assert_eq!(answers[0]["allowed"], true);
    for wrong in &answers.as_array().expect("a list")[1..] {
        assert_eq!((&wrong["status"], &wrong["title"]), (&json!(400), &json!("Bad Request")));
    }
    assert!(answers[1]["detail"].as_str().is_some_and(|detail| detail.contains("unknown field `client`")));
}

#[tokio::test]
async fn too_many_are_refused_before_any_is_decided() {
    let service = Service::new(&[json!({})]);
    let answer = service.post(BATCH, &json!(vec![json!({"client_id": "a"}); 11])).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(service.check(&json!({"client_id": "a"})).await["remaining"], 1);
    assert_eq!(service.post(BATCH, &json!([])).await.json(), json!([]));
}

#[tokio::test]
async fn what_is_no_list_is_refused() {
    let service = Service::new(&[json!({})]);
    for body in ["{}", "[", "[{}", "null", "\"a\"", ""] {
        assert_eq!(service.post_text(BATCH, body).await.status, StatusCode::BAD_REQUEST, "{body}");
    }
}
