//! Texts of a JSON document, borrowed from it wherever they need no unescaping, and maps of them.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::number;

/// The most attributes, headers or query parameters of one request: what is more is an attack or a mistake.
pub(super) const FACTS_MAX: usize = 1_000;

/// A text.
#[derive(Debug, Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// The value of an attribute: a text, a whole number or a bool, as rules write them. `None` is null, which is nothing.
#[derive(Debug)]
pub(super) struct Scalar<'a>(pub(super) Option<Cow<'a, str>>);

/// A map that keeps its order.
#[derive(Debug)]
pub(super) struct Map<'a, V>(pub(super) Vec<(Text<'a>, V)>);

impl<V> Default for Map<'_, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Scalar<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a whole number or a bool")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Scalar<'de>, E> {
        Ok(Scalar(Some(Cow::Borrowed(text))))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Scalar<'de>, E> {
        Ok(Scalar(Some(Cow::Owned(text.to_owned()))))
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Scalar<'de>, E> {
        Ok(Scalar(Some(Cow::Borrowed(if flag { "true" } else { "false" }))))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Scalar<'de>, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Scalar<'de>, E> {
        if number::is_exact(number) {
            return Ok(Scalar(Some(Cow::Owned(number.to_string()))));
        }
        // The next program may read it as another one.
        Err(E::custom("a number of more than 53 bits has to be written as a text"))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Scalar<'de>, E> {
        match number::whole(number) {
            Some(number) => self.visit_i64(number),
            None => Err(E::invalid_value(Unexpected::Float(number), &self)),
        }
    }

    fn visit_unit<E: Error>(self) -> Result<Scalar<'de>, E> {
        Ok(Scalar(None))
    }
}

impl<'de: 'a, 'a, V: Deserialize<'de>> Deserialize<'de> for Map<'a, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MapVisitor(std::marker::PhantomData))
    }
}

struct MapVisitor<V>(std::marker::PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for MapVisitor<V> {
    type Value = Map<'de, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of names and values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Map<'de, V>, A::Error> {
        let mut map = Map::default();
        while let Some(entry) = access.next_entry()? {
            if map.0.len() == FACTS_MAX {
                return Err(Error::custom(format_args!("more than {FACTS_MAX} names")));
            }
            map.0.push(entry);
        }
        Ok(map)
    }

    fn visit_unit<E: Error>(self) -> Result<Map<'de, V>, E> {
        Ok(Map::default())
    }
}

/// Calls `act` with the parameters of a query, decoded as forms are. All of them: who could hide one behind many others would hide it from the rules. How
/// many there can be is bounded by the length of what they came in.
pub(crate) fn each_parameter<'a>(query: &'a str, mut act: impl FnMut(Cow<'a, str>, Cow<'a, str>)) {
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        act(decoded(name), decoded(value));
    }
}

fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('+') {
        return percent_encoding::percent_decode_str(text).decode_utf8_lossy();
    }
    let spaced = text.replace('+', " ");
    Cow::Owned(percent_encoding::percent_decode_str(&spaced).decode_utf8_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_as_forms_are() {
        let mut seen = Vec::new();
        each_parameter("a=1&b=x+y%2B&&c&=d&e=%ff", |name, value| seen.push((name.into_owned(), value.into_owned())));
        let seen: Vec<(&str, &str)> = seen.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(seen, [("a", "1"), ("b", "x y+"), ("c", ""), ("", "d"), ("e", "\u{fffd}")]);
    }

    #[test]
    fn no_parameter_hides_behind_others() {
        let mut last = String::new();
        each_parameter(&format!("{}key=k", "a&".repeat(5_000)), |name, value| last = format!("{name}={value}"));
        assert_eq!(last, "key=k");
    }

    #[test]
    fn scalars_are_spelled_as_rules_write_them() {
        let map: Map<'_, Scalar<'_>> =
            serde_json::from_str(r#"{"a": "x", "b": -3.0, "c": true, "d": null, "e\n": "\u00e9"}"#).expect("scalars");
        let values: Vec<(&str, Option<&str>)> = map.0.iter().map(|(name, value)| (&*name.0, value.0.as_deref())).collect();
        assert_eq!(values, [("a", Some("x")), ("b", Some("-3")), ("c", Some("true")), ("d", None), ("e\n", Some("é"))]);
        assert!(matches!(map.0[0].1.0, Some(Cow::Borrowed(_))), "it is not copied");
        for wrong in
            [r#"{"a": 1.5}"#, r#"{"a": 9007199254740993}"#, r#"{"a": 18446744073709551615}"#, r#"{"a": []}"#, r#"{"a": {}}"#]
        {
            assert!(serde_json::from_str::<Map<'_, Scalar<'_>>>(wrong).is_err(), "{wrong}");
        }
    }
}
