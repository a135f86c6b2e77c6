//! The settings of a service under test: those that all tests have, and what one of them has instead.

use serde_json::Value;
use tidegate_server::settings::Settings;

/// What every test has unless it says otherwise. The fuzzers begin with the same.
const USUAL: &str = include_str!("../../../../testdata/service/settings.json");

/// The usual settings with other values, by path: `{"limits.batch": 3, "headers": {...}}`. The last one that says something counts.
pub(crate) fn settings(changes: &[&Value]) -> Settings {
    let mut settings: Value = serde_json::from_str(USUAL).expect("JSON");
    for (path, value) in changes.iter().flat_map(|changes| changes.as_object().expect("changes are an object")) {
        let place = settings.pointer_mut(&format!("/{}", path.replace('.', "/")));
        *place.unwrap_or_else(|| panic!("there is no setting {path}")) = value.clone();
    }
    serde_json::from_value(settings).expect("settings")
}
