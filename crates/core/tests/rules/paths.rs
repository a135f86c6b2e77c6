//! Paths: patterns, captures, and every way to write the same path.

use serde_json::json;

use super::kit::{condition, holds, ignoring_case, key, names, not, set};

#[test]
fn a_pattern_is_matched_however_the_path_is_written() {
    let condition = condition("path", &json!({"pattern": ["/api/login"]}));
    for path in [
        "/api/login",
        "/api/login/",
        "//api//login",
        "/api/./login",
        "/x/../api/login",
        "/../api/login",
        "/api/%6Cogin",
        "/api/%6cogin?next=/",
        "/api/login#top",
        "api/login",
        "/api/x/%2e%2e/login",
    ] {
        assert!(holds(&condition, &[("path", path)]), "{path}");
        assert!(!holds(&not(condition.clone()), &[("path", path)]), "not {path}");
    }
    for path in ["/api/login/x", "/api%2Flogin", "/api/Login", "/api", "/api/logi", "/api/%256Cogin", "/api/login%00"] {
        assert!(!holds(&condition, &[("path", path)]), "{path}");
    }
}

#[test]
fn stars_stand_for_segments() {
    let table = [
        ("/api/*", "/api/v1", true),
        ("/api/*", "/api", false),
        ("/api/*", "/api/v1/x", false),
        ("/api/v*", "/api/v1", true),
        ("/api/v*", "/api/w1", false),
        ("/api/*.json", "/api/a.b.json", true),
        ("/api/v?", "/api/v12", false),
        ("/api/**", "/api", true),
        ("/api/**", "/api/a/b/c", true),
        ("/api/**", "/apis", false),
        ("/**", "/", true),
        ("/", "/", true),
        ("/", "/a", false),
        ("/*/v1/**", "/api/v1", true),
        ("/*/v1/**", "/v1", false),
        ("/{a}/v1/{b}", "/api/v1/x", true),
        ("/api/", "/api", true),
    ];
    for (pattern, path, expected) in table {
        let condition = condition("path", &json!({"pattern": [pattern]}));
        assert_eq!(holds(&condition, &[("path", path)]), expected, "{pattern} on {path}");
        assert_eq!(holds(&not(condition), &[("path", path)]), !expected, "not {pattern} on {path}");
    }
}

#[test]
fn a_long_path_is_matched_by_what_ends_in_the_rest_of_it() {
    let path = "/a".repeat(5_000);
    assert!(holds(&condition("path", &json!({"pattern": ["/a/**"]})), &[("path", &path)]));
    assert!(!holds(&condition("path", &json!({"pattern": ["/a/*"]})), &[("path", &path)]));
}

#[test]
fn a_capture_is_an_attribute_to_count_by() {
    let set =
        set(&json!([]), &[json!({"per": ["user"], "match": [condition("path", &json!({"pattern": ["/users/{user}/**"]}))]})]);
    assert_eq!(key(&set, &[("path", "/users/ada/orders")]).as_deref(), Some("user=ada"));
    assert_eq!(key(&set, &[("path", "/users/%61da")]).as_deref(), Some("user=ada"));
    assert_eq!(key(&set, &[("path", "/users/Ada")]).as_deref(), Some("user=Ada"));
    assert_eq!(key(&set, &[("path", "/users"), ("user", "eve")]), None, "an attribute of that name is another one");
    assert_eq!(key(&set, &[("path", "/users/ada"), ("user", "eve")]).as_deref(), Some("user=ada"), "and cannot replace it");
}

#[test]
fn a_capture_comes_from_the_pattern_that_fits() {
    let patterns = json!({"pattern": ["/users/{user}", "/teams/{team}/{user}", "/open/*"]});
    let set = set(&json!([]), &[json!({"per": ["user"], "match": [condition("path", &patterns)]})]);
    assert_eq!(key(&set, &[("path", "/users/ada")]).as_deref(), Some("user=ada"));
    assert_eq!(key(&set, &[("path", "/teams/red/ada")]).as_deref(), Some("user=ada"));
    assert_eq!(key(&set, &[("path", "/open/ada")]), None, "it has no user, so there is nobody to count");
}

#[test]
fn where_case_does_not_matter_capitals_are_no_way_around_a_limit() {
    let pattern = ignoring_case(condition("path", &json!({"pattern": ["/Users/{user}/Orders"]})));
    let set = set(&json!([]), &[json!({"per": ["user"], "match": [pattern]})]);
    for path in ["/users/ada/orders", "/USERS/Ada/ORDERS", "/Users/ADA/Orders"] {
        assert_eq!(key(&set, &[("path", path)]).as_deref(), Some("user=ada"), "{path}");
    }
    assert_eq!(key(&set, &[("path", "/users/ada")]), None);
}

#[test]
fn each_rule_has_its_own_captures() {
    let rule = |name: &str, pattern: &str| json!({"name": name, "per": ["id"], "match": [condition("path", &json!({"pattern": [pattern]}))]});
    let set = set(&json!([]), &[rule("first", "/{id}/**"), rule("second", "/*/{id}")]);
    let keys: Vec<_> = super::kit::found(&set, &[("path", "/a/b")]).into_iter().map(|found| (found.rule, found.key)).collect();
    assert_eq!(keys, [("first".to_owned(), vec!["id=a".to_owned()]), ("second".to_owned(), vec!["id=b".to_owned()])]);
}

#[test]
fn paths_can_be_asked_for_in_other_ways() {
    let table = [
        (json!({"exact": ["/api"]}), true),
        (json!({"prefix": ["/a"]}), true),
        (json!({"suffix": ["pi"]}), true),
        (json!({"glob": ["*p*"]}), true),
        (json!({"regex": ["/[a-z]+"]}), true),
        (json!({"regex": ["[a-z]+"]}), false),
    ];
    for (test, expected) in table {
        assert_eq!(holds(&condition("path", &test), &[("path", "//api/?x")]), expected, "{test}");
    }
}

#[test]
fn rules_are_found_by_their_paths_among_many() {
    let rule = |number: usize| json!({"name": format!("rule-{number}"), "match": [condition("path", &json!({"pattern": [format!("/svc{number}/**")]}))]});
    let rules: Vec<_> = (0..1_000).map(rule).chain([json!({"name": "all"})]).collect();
    assert_eq!(names(&set(&json!([]), &rules), &[("path", "/svc421/x")]), ["rule-421", "all"]);
}
