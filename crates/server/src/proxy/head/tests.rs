use http::Request;

use super::*;

fn head(fields: &[(&'static str, &'static str)]) -> Parts {
    let mut request = Request::get("/");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).expect("a request").into_parts().0
}

#[test]
fn what_connection_names_is_removed_but_not_what_a_message_needs() {
    let fields = [("connection", "close, X-One"), ("connection", "host,content-length, x two"), ("x-one", "1"), ("x-three", "3")];
    let mut headers = head(&[&fields[..], &[("host", "a"), ("content-length", "3")]].concat()).headers;
    strip(&mut headers);
    let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["content-length", "host", "x-three"]);
}

#[test]
fn addresses_are_written_as_forwarded_wants_them() {
    let host = "shop.example.com:8000".parse::<Authority>().expect("a host");
    let table = [
        (Some("192.0.2.1"), "for=192.0.2.1;host=\"shop.example.com:8000\";proto=https"),
        (Some("2001:db8::1"), "for=\"[2001:db8::1]\";host=\"shop.example.com:8000\";proto=https"),
        (None, "for=unknown;host=\"shop.example.com:8000\";proto=https"),
    ];
    for (address, expected) in table {
        let mut list = String::new();
        extend_forwarded(&mut list, Origin { address, is_trusted: false, host: Some(&host), scheme: "https" });
        assert_eq!(list, expected);
    }
}

#[test]
fn an_upgrade_is_one_to_web_socket_and_nothing_else() {
    let table: [(&[(&str, &str)], bool); 5] = [
        (&[("connection", "Upgrade"), ("upgrade", "WebSocket")], true),
        (&[("connection", "keep-alive"), ("connection", "upgrade"), ("upgrade", "websocket")], true),
        (&[("upgrade", "websocket")], false),
        (&[("connection", "upgrade"), ("upgrade", "h2c")], false),
        (&[("connection", "upgrade"), ("upgrade", "websocket"), ("upgrade", "h2c")], false),
    ];
    for (fields, expected) in table {
        assert_eq!(Wants::of(&head(fields)).upgrade, expected, "{fields:?}");
    }
}

#[test]
fn connection_names_a_few_fields_and_not_thousands() {
    let host = ("host", "a");
    let few: &str = Box::leak(vec!["x-a"; NAMED_MAX].join(",").into_boxed_str());
    assert!(checked(&head(&[host, ("connection", few)])).is_ok());
    assert!(checked(&head(&[host, ("connection", few), ("connection", "close")])).is_err());
}

#[test]
fn segments_of_dots_are_found_however_they_are_written() {
    let dots = [
        "/.",
        "/..",
        "/a/./b",
        "/a/%2e%2E/b",
        "/a/.%2e",
        "/a/..;/b",
        "/a/..;x=1/b",
        "/a/..%3Bx/b",
        "/a/..%2fb",
        "/a/%2e%2e%2Fb",
        "/a/..\\b",
        "/a/..%5cb",
        "/a%2f..",
    ];
    for path in dots {
        assert!(has_dots(path), "{path}");
    }
    for path in ["/", "/a.b", "/...", "/..a/b", "/a/.hidden", "/a;b=../c", "/a/%2e%2e%2e", "/a%20b/..c;d", "/%252e%252e/"] {
        assert!(!has_dots(path), "{path}");
    }
}

#[test]
fn elements_that_are_no_text_hide_no_others() {
    let mut headers = HeaderMap::new();
    headers.insert(VIA, HeaderValue::from_bytes(b"1.1 \xff, 1.1 Tidegate,  1.0\ttidegate ,2 other").expect("a value"));
    assert_eq!(hops(&headers), 2);
    headers.insert(CONNECTION, HeaderValue::from_bytes(b"\xff, x-one").expect("a value"));
    assert_eq!(named_by_connection(&headers).as_slice(), [HeaderName::from_static("x-one")]);
}
