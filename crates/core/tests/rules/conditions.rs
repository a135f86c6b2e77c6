//! Conditions of every kind, on facts that are there and on facts that are not.

use serde_json::json;

use super::kit::{condition, holds, ignoring_case, names, not, set};

#[test]
fn each_test_asks_what_it_says() {
    let table = [
        (json!({"exact": ["pro"]}), "pro", true),
        (json!({"exact": ["pro"]}), "Pro", false),
        (json!({"exact": ["pro"]}), "prof", false),
        (json!({"exact": ["free", "pro"]}), "pro", true),
        (json!({"exact": []}), "pro", false),
        (json!({"prefix": ["pr"]}), "pro", true),
        (json!({"prefix": ["x", "pro"]}), "pro", true),
        (json!({"prefix": ["ro"]}), "pro", false),
        (json!({"suffix": ["ro"]}), "pro", true),
        (json!({"suffix": ["pr"]}), "pro", false),
        (json!({"glob": ["p*"]}), "pro", true),
        (json!({"glob": ["p?o"]}), "pro", true),
        (json!({"glob": ["?"]}), "pro", false),
        (json!({"glob": ["x*", "*o"]}), "pro", true),
        (json!({"regex": ["p.o"]}), "pro", true),
        (json!({"regex": ["r"]}), "pro", false),
        (json!({"regex": ["x", "p(r|l)o"]}), "plo", true),
        (json!({"regex": ["a|b"]}), "ab", false),
        (json!({"regex": ["p.o"]}), "p\no", false),
        (json!({"regex": ["pro$"]}), "pro\n", false),
        (json!({"regex": []}), "pro", false),
        (json!({"cidr": ["10.0.0.0/8"]}), "10.1.2.3", true),
        (json!({"cidr": ["10.0.0.0/8", "192.0.2.7"]}), "192.0.2.7", true),
        (json!({"cidr": ["10.0.0.0/8"]}), "11.0.0.0", false),
        (json!({"cidr": ["10.0.0.0/8"]}), "ten", false),
        (json!({"cidr": ["2001:db8::/32"]}), "2001:DB8::1", true),
        (json!({"cidr": ["0.0.0.0/0"]}), "::1", false),
        (json!("present"), "anything", true),
    ];
    for (test, value, expected) in table {
        for attribute in ["plan", "header:x-plan", "query:plan"] {
            let condition = condition(attribute, &test);
            assert_eq!(holds(&condition, &[(attribute, value)]), expected, "{attribute} {test} on {value:?}");
            assert_eq!(holds(&not(condition), &[(attribute, value)]), !expected, "not {attribute} {test} on {value:?}");
        }
    }
}

#[test]
fn an_absent_fact_passes_no_test_and_so_every_negated_one() {
    let tests = [
        json!({"exact": [""]}),
        json!({"prefix": [""]}),
        json!({"suffix": [""]}),
        json!({"glob": ["*"]}),
        json!({"regex": [".*"]}),
        json!({"cidr": ["0.0.0.0/0", "::/0"]}),
        json!("present"),
    ];
    for test in tests {
        for attribute in ["method", "path", "host", "ip", "client", "tier", "plan", "header:x-plan", "query:plan"] {
            // An empty value is none; an empty path is the root.
            for facts in [&[][..], &[(attribute, "")]] {
                if attribute == "path" && !facts.is_empty() {
                    continue;
                }
                let condition = condition(attribute, &test);
                assert!(!holds(&condition, facts), "{attribute} {test}");
                assert!(holds(&not(condition), facts), "not {attribute} {test}");
            }
        }
    }
}

#[test]
fn case_matters_unless_it_is_said_not_to() {
    let table = [
        (json!({"exact": ["Pro"]}), "pRO"),
        (json!({"exact": ["straße"]}), "STRAßE"),
        (json!({"exact": ["Élan"]}), "éLAN"),
        (json!({"prefix": ["PR"]}), "pro"),
        (json!({"suffix": ["RO"]}), "pro"),
        (json!({"glob": ["P*O"]}), "pro"),
        (json!({"regex": ["P[A-Z]O"]}), "pro"),
    ];
    for (test, value) in table {
        let condition = condition("plan", &test);
        assert!(!holds(&condition, &[("plan", value)]), "{test} on {value}");
        assert!(holds(&ignoring_case(condition.clone()), &[("plan", value)]), "{test} on {value}, in any case");
        assert!(!holds(&not(ignoring_case(condition)), &[("plan", value)]), "not {test} on {value}, in any case");
    }
}

#[test]
fn methods_and_hosts_are_the_same_in_any_case() {
    let methods = [json!({"exact": ["post"]}), json!({"prefix": ["Po"]}), json!({"glob": ["p*t"]}), json!({"regex": ["po.t"]})];
    for test in methods {
        for method in ["POST", "post", "Post"] {
            assert!(holds(&condition("method", &test), &[("method", method)]), "{test} on {method}");
        }
    }
    for test in [json!({"exact": ["API.example.com"]}), json!({"glob": ["*.Example.com"]}), json!({"regex": ["API\\..*"]})] {
        assert!(holds(&condition("host", &test), &[("host", "Api.EXAMPLE.com")]), "{test}");
    }
}

#[test]
fn the_port_and_the_last_dot_are_no_part_of_a_host() {
    for host in ["api.example.com", "api.example.com:8443", "API.example.com.", "api.example.com.:80", "api.example.com:"] {
        assert!(holds(&condition("host", &json!({"exact": ["api.example.com"]})), &[("host", host)]), "{host}");
    }
    for host in ["api.example.com.evil.org", "xapi.example.com", "api.example.com:80:evil", "api.example.com@evil.org"] {
        assert!(!holds(&condition("host", &json!({"exact": ["api.example.com"]})), &[("host", host)]), "{host}");
    }
    let six = condition("host", &json!({"exact": ["[2001:db8::1]"]}));
    assert!(holds(&six, &[("host", "[2001:DB8::1]:443")]) && holds(&six, &[("host", "[2001:db8::1]")]));
}

#[test]
fn a_star_in_a_host_stands_for_any_number_of_labels_but_not_for_none() {
    let table = [
        ("a.example.org", true),
        ("a.b.example.org", true),
        ("example.org", false),
        (".example.org", true),
        ("aexample.org", false),
    ];
    for (host, expected) in table {
        assert_eq!(holds(&condition("host", &json!({"glob": ["*.example.org"]})), &[("host", host)]), expected, "{host}");
    }
}

#[test]
fn headers_are_found_in_any_case_and_query_parameters_are_not() {
    let header = condition("header:X-Plan", &json!({"exact": ["pro"]}));
    for name in ["header:x-plan", "header:X-PLAN", "header:X-Plan"] {
        assert!(holds(&header, &[(name, "pro")]), "{name}");
    }
    let parameter = condition("query:Debug", &json!({"exact": ["1"]}));
    assert!(holds(&parameter, &[("query:Debug", "1")]));
    assert!(!holds(&parameter, &[("query:debug", "1")]));
}

#[test]
fn attributes_headers_and_parameters_of_one_name_are_three_facts() {
    for wanted in ["plan", "header:plan", "query:plan"] {
        for given in ["plan", "header:plan", "query:plan"] {
            assert_eq!(holds(&condition(wanted, &json!("present")), &[(given, "x")]), wanted == given, "{wanted} from {given}");
        }
    }
}

#[test]
fn all_conditions_must_hold() {
    let set =
        set(&json!([]), &[json!({"match": [condition("a", &json!("present")), not(condition("b", &json!({"exact": ["x"]})))]})]);
    let table: [(&[(&str, &str)], bool); 5] = [
        (&[("a", "1")], true),
        (&[("a", "1"), ("b", "y")], true),
        (&[("a", "1"), ("b", "x")], false),
        (&[("b", "y")], false),
        (&[], false),
    ];
    for (facts, expected) in table {
        assert_eq!(!names(&set, facts).is_empty(), expected, "{facts:?}");
    }
}

#[test]
fn a_rule_without_conditions_matches_every_request() {
    assert_eq!(names(&set(&json!([]), &[json!({})]), &[]), ["rule"]);
}

#[test]
fn two_conditions_on_one_attribute_must_both_hold() {
    let set = set(
        &json!([]),
        &[
            json!({"match": [condition("path", &json!({"pattern": ["/api/**"]})), condition("path", &json!({"pattern": ["/*/v1"]}))]}),
        ],
    );
    assert_eq!(names(&set, &[("path", "/api/v1")]), ["rule"]);
    assert!(names(&set, &[("path", "/api/v2")]).is_empty() && names(&set, &[("path", "/x/v1")]).is_empty());
}

#[test]
fn many_alternatives_are_found_like_few() {
    let texts: Vec<String> = (0..1_000).map(|number| format!("tenant-{number}")).collect();
    let condition = condition("tenant", &json!({"exact": texts}));
    assert!(holds(&condition, &[("tenant", "tenant-999")]) && !holds(&condition, &[("tenant", "tenant-1000")]));
}
