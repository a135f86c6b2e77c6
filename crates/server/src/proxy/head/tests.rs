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
