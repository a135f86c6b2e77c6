//! Quotas as text and back: the catalogue of errors, and properties over generated quotas and arbitrary texts.

use std::collections::HashSet;

use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use tidegate_core::quota::{
    AlgorithmName, CalendarUnit, PERIOD_MAX_NS, Quota, QuotaError, QuotaErrorCode as Code, QuotaSpec, UNITS_MAX, parse,
    parse_specs,
};

/// One text for every code that a text can cause.
const TEXT_ERRORS: [(&str, Code); 42] = [
    (" ", Code::EmptyText),
    ("1/s,", Code::EmptyMember),
    ("1/s,1/s,1/s,1/s,1/s,1/s,1/s,1/s,1/s,1/s,1/s,1/s,1/s,1/s,1/s,1/s,1/s", Code::TooManyQuotas),
    ("1/s;1/m", Code::SeveralQuotas),
    ("1/s 5", Code::QuotaSyntax),
    ("1/s & 1/m", Code::UnexpectedCharacter),
    ("1/s please", Code::UnknownWord),
    ("1/fortnight", Code::UnknownUnit),
    ("1/s fixed-window", Code::UnknownAlgorithm),
    ("1/60", Code::UnitMissing),
    ("1/s burst 1 burst 2", Code::DuplicateParameter),
    ("-5/minute", Code::NumberNegative),
    ("1.5/s", Code::NumberNotWhole),
    ("1__0/s", Code::NumberMalformed),
    ("99999999999999999999/s", Code::NumberTooLarge),
    ("9007199254740993/s", Code::LimitTooLarge),
    ("1000001/s sliding_window_log", Code::LogLimitTooLarge),
    ("100001 concurrent", Code::ConcurrencyLimitTooLarge),
    ("100", Code::PeriodMissing),
    ("100 burst 20", Code::BurstWithoutPeriod),
    ("100/0s", Code::PeriodZero),
    ("100/999ns", Code::PeriodTooShort),
    ("100/36501d", Code::PeriodTooLong),
    ("1/s queue 1 month", Code::MonthNeedsCalendar),
    ("1/2 days calendar", Code::CalendarCount),
    ("1/s calendar", Code::CalendarUnit),
    ("1/s buckets 5", Code::ParameterNotForAlgorithm),
    ("1/s burst 9007199254740993", Code::BurstTooLarge),
    ("1/s nodelay 9007199254740993", Code::NodelayTooLarge),
    ("1/s max_debt 9007199254740993", Code::MaxDebtTooLarge),
    ("1/s queue 1s max_cost 9007199254740993", Code::MaxCostTooLarge),
    ("1/s queue 1s max_cost 0", Code::MaxCostZero),
    ("1/s queue 18446744073709551615w", Code::QueueTooLong),
    ("1/s min_interval 36501d", Code::MinIntervalTooLong),
    ("100/minute advance 8s", Code::AdvanceOutOfRange),
    ("100/minute advance 1s min_interval 1ms", Code::AdvanceWithMinInterval),
    ("5 concurrent ttl 25h", Code::TtlOutOfRange),
    ("1/s entries 1025", Code::EntriesOutOfRange),
    ("1/s sliding_window_counter buckets 1", Code::BucketsOutOfRange),
    ("1/us sliding_window_counter buckets 1001", Code::BucketsExceedWindow),
    ("4294967297/s gcra", Code::RateTooFine),
    ("1/36500d burst 2", Code::Overflow),
];

/// What only the object form, or a very long text, can get wrong.
fn object_errors() -> Vec<(QuotaError, Code)> {
    let spec = || QuotaSpec { limit: Some(5), ..QuotaSpec::default() };
    let calendar = Some(CalendarUnit::Day);
    let fixed = Some(AlgorithmName::FixedWindow);
    let zone = |zone: &str| Some(zone.to_owned());
    let refused = |spec: QuotaSpec| spec.build().expect_err("a wrong object form");
    vec![
        (refused(QuotaSpec { limit: None, period_ns: Some(1_000), ..spec() }), Code::LimitMissing),
        (refused(QuotaSpec { period_ns: Some(1_000), calendar, ..spec() }), Code::PeriodWithCalendar),
        (refused(QuotaSpec { algorithm: fixed, zone: zone("UTC"), ..spec() }), Code::ZoneWithoutCalendar),
        (refused(QuotaSpec { calendar, zone: zone("Europe Berlin"), ..spec() }), Code::ZoneInvalid),
        (refused(QuotaSpec { calendar, zone: zone("Burst"), ..spec() }), Code::ZoneInvalid),
        (refused(QuotaSpec { name: Some("\u{1b}".into()), ..spec() }), Code::NameInvalid),
        (refused(QuotaSpec { name: Some("a".repeat(65)), ..spec() }), Code::NameInvalid),
        (parse(&" ".repeat(1_001)).expect_err("a long text"), Code::TextTooLong),
    ]
}

#[test]
fn every_code_of_the_catalogue_is_caused_by_a_mistake_of_its_own() {
    let mut seen = HashSet::new();
    for (text, code) in TEXT_ERRORS {
        let error = text.parse::<Quota>().unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        seen.insert(code);
    }
    for (error, code) in object_errors() {
        assert_eq!(error.code(), code, "{error}");
        seen.insert(code);
    }

    let missing: Vec<_> = Code::ALL.iter().filter(|code| !seen.contains(code)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Small numbers, and those around powers of two and of ten up to beyond the bounds.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => 0..200u64,
        2 => (0..55u32, 0..3u64).prop_map(|(exponent, delta)| (1u64 << exponent).wrapping_add(delta).wrapping_sub(1)),
        2 => (0..17u32, 1..10u64).prop_map(|(exponent, factor)| factor * 10u64.pow(exponent)),
        1 => Just(UNITS_MAX),
        1 => any::<u64>(),
    ]
}

/// Whole units of time, odd numbers of nanoseconds and the longest.
fn duration_ns() -> impl Strategy<Value = u64> {
    let units = vec![1_000, 1_000_000, 1_000_000_000, 60_000_000_000, 3_600_000_000_000, 86_400_000_000_000];
    prop_oneof![
        8 => (1..100u64, select(units)).prop_map(|(count, unit)| count * unit),
        2 => 0..10_000_000_000u64,
        1 => PERIOD_MAX_NS - 100..=PERIOD_MAX_NS,
        1 => 30_000 * 86_400_000_000_000..=PERIOD_MAX_NS,
    ]
}

fn algorithm() -> impl Strategy<Value = AlgorithmName> {
    select(&AlgorithmName::ALL[..])
}

fn zone() -> impl Strategy<Value = String> {
    prop_oneof![Just("UTC".to_owned()), Just("Europe/Berlin".to_owned()), "[A-Za-z0-9_+/-]{1,70}"]
}

/// Object forms of which a good part can be built: parameters are mostly those of the algorithm.
fn spec() -> impl Strategy<Value = QuotaSpec> {
    let rate = (number(), option::weighted(0.9, duration_ns()), option::weighted(0.8, algorithm()));
    let bucket =
        (option::of(number()), option::of(duration_ns()), option::weighted(0.3, number()), option::weighted(0.3, number()));
    let window = (option::weighted(0.3, 0..1_100u64), option::weighted(0.5, 0..1_100u64), option::weighted(0.3, zone()));
    let all = (
        option::weighted(0.2, duration_ns()),
        option::weighted(0.2, 0..10_000_000_000u64),
        option::weighted(0.3, number()),
        any::<bool>(),
    );
    (rate, bucket, window, all, select(&CalendarUnit::ALL[..])).prop_map(
        |((limit, period_ns, algorithm), (burst, queue_ns, nodelay, max_cost), (entries, buckets, zone), all, unit)| {
            let (min_interval_ns, advance_ns, max_debt, is_tidy) = all;
            let is = |name| !is_tidy || algorithm == Some(name);
            let is_leaky = is(AlgorithmName::LeakyBucket);
            let is_concurrency = is_tidy && algorithm == Some(AlgorithmName::Concurrency);
            let is_calendar = zone.is_some() && is(AlgorithmName::FixedWindow);
            QuotaSpec {
                limit: Some(limit),
                period_ns: period_ns.filter(|_| !(is_concurrency || is_tidy && is_calendar)),
                algorithm,
                burst: burst.filter(|_| is(AlgorithmName::Gcra)),
                queue_ns: queue_ns.filter(|_| is_leaky),
                nodelay: nodelay.filter(|_| is_leaky),
                max_cost: max_cost.filter(|_| is_leaky),
                entries: entries.filter(|_| is(AlgorithmName::SlidingWindow)),
                buckets: buckets.filter(|_| is(AlgorithmName::SlidingWindowCounter)),
                calendar: is_calendar.then_some(unit),
                zone: zone.filter(|_| is_calendar),
                ttl_ns: min_interval_ns.filter(|_| is_concurrency),
                min_interval_ns: min_interval_ns.filter(|_| !is_concurrency),
                advance_ns: advance_ns.filter(|_| !is_concurrency),
                max_debt: max_debt.filter(|_| !is_concurrency),
                ..QuotaSpec::default()
            }
        },
    )
}

/// Words and signs of the language in any order: closer to real mistakes than arbitrary characters.
fn word_soup() -> impl Strategy<Value = String> {
    let words = "1 10 100 0 5_000 -1 1.5 / per , ; s ms minute 10s day month concurrent unlimited burst queue nodelay calendar \
                 Europe/Berlin UTC buckets entries min_interval advance max_debt max_cost ttl gcra token_bucket leaky_bucket \
                 fixed_window sliding_window sliding_window_log sliding_window_counter concurrency µs 日 \u{0}";
    let words: Vec<&'static str> = words.split(' ').filter(|word| !word.is_empty()).collect();
    let gap = select(vec!["", " ", "\t"]);
    proptest::collection::vec((select(words), gap), 0..14)
        .prop_map(|parts| parts.iter().flat_map(|(word, gap)| [*word, *gap]).collect())
}

fn assert_error_is_sound(text: &str, error: &QuotaError) -> Result<(), TestCaseError> {
    let span = error.span().expect("an error of a text has a place");
    let kept = error.text().expect("an error of a text has the text");
    prop_assert!(text.starts_with(kept));
    prop_assert!(kept.len() == text.len() || kept.chars().count() == 1_001);
    prop_assert!(span.start <= span.end && span.end <= kept.chars().count(), "{:?}", span);
    let shown = error.to_string();
    prop_assert!(shown.len() < 4_096);
    prop_assert!(shown.chars().all(|c| c == '\n' || !c.is_control()));
    Ok(())
}

fn assert_text_is_sound(text: &str) -> Result<(), TestCaseError> {
    match parse(text) {
        Ok(quotas) => {
            prop_assert!(parse_specs(text).is_ok());
            for quota in quotas {
                prop_assert_eq!(&quota.to_string().parse::<Quota>(), &Ok(quota));
            }
            Ok(())
        }
        Err(error) => assert_error_is_sound(text, &error),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_quota_that_builds_is_read_back_from_its_text(spec in spec()) {
        if let Ok(quota) = spec.build() {
            let text = quota.to_string();

            prop_assert_eq!(text.parse::<Quota>(), Ok(quota.clone()), "{}", text);
            prop_assert_eq!(text.parse::<Quota>().map(|read| read.to_string()), Ok(text));
            prop_assert!(quota.label().len() <= 64);
        }
    }

    #[test]
    fn arbitrary_text_never_panics_and_errors_have_a_place_inside_it(text in any::<String>()) {
        assert_text_is_sound(&text)?;
    }

    #[test]
    fn words_of_the_language_in_any_order_never_panic(text in word_soup()) {
        assert_text_is_sound(&text)?;
    }
}

proptest! {
    // Each text is long, so fewer of them take as long.
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn long_texts_never_panic(text in "[ -~]{900,1100}") {
        assert_text_is_sound(&text)?;
    }
}

/// The properties above would hold for a generator that builds nothing.
#[test]
fn the_generator_builds_quotas_of_every_algorithm() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut built = HashSet::new();
    for _ in 0..2_000 {
        let spec = spec().new_tree(&mut runner).unwrap().current();
        built.extend(spec.build().ok().and_then(|quota| quota.algorithm()));
    }
    assert_eq!(built.len(), AlgorithmName::ALL.len(), "{built:?}");
}
