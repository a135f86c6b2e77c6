//! What the rules mean, as simply as it can be said: every rule is looked at, one after the other, text by text.

use std::collections::BTreeMap;
use std::net::IpAddr;

use regex::RegexBuilder;
use tidegate_core::rules::glob::Glob;
use tidegate_core::rules::members::spec::{MemberSpec, MembersSpec};
use tidegate_core::rules::spec::{
    ConditionSpec, CostSpec, IpSpec, Mode, OverrideSpec, RuleSetSpec, RuleSpec, SourceSpec, TestSpec,
};

use super::kit::{Found, digest_text};

/// The facts about a request, each in its one spelling.
pub(crate) type Facts = BTreeMap<String, String>;

/// The rules that apply.
pub(crate) fn applies(spec: &RuleSetSpec, members: &MembersSpec, facts: &Facts) -> Vec<Found> {
    let (facts, ipv6_prefix) = identified(&spec.identity, facts);
    let facts = joined(members, facts);
    let mut order: Vec<(i32, usize)> = spec.rules.iter().enumerate().map(|(number, rule)| (-rule.priority, number)).collect();
    order.sort_unstable();
    let mut found = Vec::new();
    for rule in order.into_iter().map(|(_, number)| &spec.rules[number]) {
        let is_match = rule.mode != Mode::Off && rule.conditions.iter().all(|condition| holds(condition, &facts));
        let Some(key) = key(rule, &facts, ipv6_prefix).filter(|_| is_match) else { continue };
        found.push(Found {
            rule: rule.name.clone(),
            plan: plan(rule, members, &key, &facts, ipv6_prefix),
            key: rule.per.iter().zip(key).map(|(name, value)| format!("{name}={value}")).collect(),
            cost: cost(rule, &facts),
        });
        if rule.stop {
            break;
        }
    }
    found
}

/// The facts with what the sources of identity add to them, and how much of an IPv6 address counts.
fn identified(sources: &[SourceSpec], given: &Facts) -> (Facts, u8) {
    let mut facts = given.clone();
    let (mut client, mut ipv6_prefix) = (None, 64);
    let has_several = sources.len() > 1;
    if !sources.is_empty() {
        facts.remove("client");
    }
    for source in sources {
        let (tag, value) = match source {
            SourceSpec::Header { header, attribute, valid } => {
                let value = given.get(&format!("header:{header}")).cloned();
                let is_valid = |value: &String| valid.is_empty() || valid.iter().any(|one| Glob::new(one).matches(value));
                (attribute, value.filter(is_valid))
            }
            SourceSpec::Claim { claim, attribute } => {
                let token = given.get("header:authorization").and_then(|token| token.strip_prefix(&format!("{claim}=")));
                (attribute, token.map(str::to_owned))
            }
            SourceSpec::Attribute { attribute } => (attribute, given.get(attribute).cloned()),
            SourceSpec::Ip { ip } => {
                ipv6_prefix = ip.ipv6_prefix;
                let address = client_address(ip, given);
                if let Some(address) = address {
                    facts.insert("ip".into(), address.to_string());
                }
                (&"ip".to_owned(), address.map(|address| first_bits(address, ip.ipv6_prefix).to_string()))
            }
        };
        let Some(value) = value.filter(|value| !value.is_empty()) else { continue };
        client.get_or_insert(if has_several { format!("{tag}:{value}") } else { value.clone() });
        if !matches!(source, SourceSpec::Ip { .. }) {
            facts.insert(tag.clone(), value);
        }
    }
    facts.extend(client.map(|client| ("client".into(), client)));
    (facts, ipv6_prefix)
}

fn member<'m>(members: &'m MembersSpec, facts: &Facts) -> Option<&'m MemberSpec> {
    members.keys.get(&digest_text(facts.get("api_key").or(facts.get("client"))?))
}

/// The facts with the tenant and the tier that the store of quotas knows.
fn joined(members: &MembersSpec, mut facts: Facts) -> Facts {
    let member = member(members, &facts).cloned().unwrap_or_default();
    facts.extend(member.tenant.map(|tenant| ("tenant".into(), tenant)));
    let tenant = facts.get("tenant").and_then(|name| members.tenants.get(name));
    let tier = member.tier.or(tenant.and_then(|tenant| tenant.tier.clone()));
    facts.extend(tier.map(|tier| ("tier".into(), tier)));
    facts
}

fn client_address(ip: &IpSpec, facts: &Facts) -> Option<IpAddr> {
    let mut address: IpAddr = facts.get("ip")?.parse().ok()?;
    let mut hops: Vec<&str> = facts.get("header:x-forwarded-for").map(|chain| chain.split(',').collect()).unwrap_or_default();
    while ip.trusted_proxies.iter().any(|network| is_within(address, network)) {
        match hops.pop().map(|hop| hop.trim().parse::<IpAddr>()) {
            Some(Ok(hop)) => address = hop.to_canonical(),
            _ => break,
        }
    }
    Some(address)
}

fn bits(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => format!("{:032b}", u32::from(address)),
        IpAddr::V6(address) => format!("{:0128b}", u128::from(address)),
    }
}

fn is_within(address: IpAddr, network: &str) -> bool {
    let (network, prefix) = network.split_once('/').map_or((network, None), |(network, prefix)| (network, prefix.parse().ok()));
    let network = bits(network.parse::<IpAddr>().expect("an address").to_canonical());
    let address = bits(address);
    let prefix: usize = prefix.unwrap_or(network.len());
    address.len() == network.len() && address[..prefix] == network[..prefix]
}

fn first_bits(address: IpAddr, prefix: u8) -> IpAddr {
    let IpAddr::V6(_) = address else { return address };
    let kept: String =
        bits(address).chars().enumerate().map(|(index, bit)| if index < prefix.into() { bit } else { '0' }).collect();
    IpAddr::V6(u128::from_str_radix(&kept, 2).expect("bits").into())
}

fn holds(condition: &ConditionSpec, facts: &Facts) -> bool {
    facts.get(&condition.attribute).is_some_and(|value| passes(condition, value)) != condition.not
}

fn passes(condition: &ConditionSpec, value: &str) -> bool {
    let ignore_case = condition.ignore_case || matches!(condition.attribute.as_str(), "method" | "host");
    let fold = |text: &str| if ignore_case { text.to_lowercase() } else { text.to_owned() };
    let value = fold(value);
    match &condition.test {
        TestSpec::Present => true,
        TestSpec::Exact(texts) => texts.iter().any(|text| fold(text) == value),
        TestSpec::Prefix(texts) => texts.iter().any(|text| value.starts_with(&fold(text))),
        TestSpec::Suffix(texts) => texts.iter().any(|text| value.ends_with(&fold(text))),
        TestSpec::Glob(texts) => texts.iter().any(|text| fits_glob(&characters(&fold(text)), &characters(&value))),
        TestSpec::Regex(texts) => texts.iter().any(|text| {
            let whole = RegexBuilder::new(&format!(r"\A(?:{text})\z")).case_insensitive(ignore_case).build();
            whole.expect("an expression").is_match(&value)
        }),
        TestSpec::Cidr(networks) => {
            value.parse::<IpAddr>().is_ok_and(|address| networks.iter().any(|network| is_within(address.to_canonical(), network)))
        }
        TestSpec::Pattern(patterns) => patterns.iter().any(|pattern| fits_pattern(&segments(&fold(pattern)), &segments(&value))),
    }
}

fn characters(text: &str) -> Vec<char> {
    text.chars().collect()
}

fn fits_glob(glob: &[char], text: &[char]) -> bool {
    match (glob.first(), text.first()) {
        (None, None) => true,
        (Some('*'), _) => fits_glob(&glob[1..], text) || (!text.is_empty() && fits_glob(glob, &text[1..])),
        (Some('?'), Some(_)) => fits_glob(&glob[1..], &text[1..]),
        (Some(wanted), Some(found)) => wanted == found && fits_glob(&glob[1..], &text[1..]),
        _ => false,
    }
}

fn segments(path: &str) -> Vec<String> {
    path.split('/').filter(|segment| !segment.is_empty()).map(str::to_owned).collect()
}

fn fits_pattern(pattern: &[String], path: &[String]) -> bool {
    match (pattern.first().map(String::as_str), path.first()) {
        (None, None) | (Some("**"), _) => true,
        (Some(wanted), Some(found)) => {
            let fits = wanted.starts_with('{') || fits_glob(&characters(wanted), &characters(found));
            fits && fits_pattern(&pattern[1..], &path[1..])
        }
        _ => false,
    }
}

/// The values of the key, if all are there.
fn key(rule: &RuleSpec, facts: &Facts, ipv6_prefix: u8) -> Option<Vec<String>> {
    let value = |name: &String| match name.as_str() {
        "ip" => facts.get("ip").map(|ip| spelled(ip, ipv6_prefix)),
        name => fact(rule, name, facts),
    };
    rule.per.iter().map(value).collect()
}

/// A fact, or what the path has for it.
fn fact(rule: &RuleSpec, name: &str, facts: &Facts) -> Option<String> {
    if captures(rule, name).is_empty() { facts.get(name).cloned() } else { captured(rule, name, facts) }
}

fn spelled(ip: &str, ipv6_prefix: u8) -> String {
    ip.parse::<IpAddr>().map_or(ip.to_owned(), |address| first_bits(address.to_canonical(), ipv6_prefix).to_string())
}

/// The patterns of a rule that capture a name, each as the condition that it is, with the place of the segment.
fn captures(rule: &RuleSpec, name: &str) -> Vec<(ConditionSpec, usize)> {
    let mut captures = Vec::new();
    for condition in rule.conditions.iter().filter(|condition| condition.attribute == "path" && !condition.not) {
        let TestSpec::Pattern(patterns) = &condition.test else { continue };
        for pattern in patterns {
            let place = segments(pattern).iter().position(|segment| *segment == format!("{{{name}}}"));
            let one = ConditionSpec { test: TestSpec::Pattern(vec![pattern.clone()]), ..condition.clone() };
            captures.extend(place.map(|place| (one, place)));
        }
    }
    captures
}

fn captured(rule: &RuleSpec, name: &str, facts: &Facts) -> Option<String> {
    let path = facts.get("path")?;
    let (pattern, place) = captures(rule, name).into_iter().find(|(pattern, _)| passes(pattern, path))?;
    let path = if pattern.ignore_case { path.to_lowercase() } else { path.clone() };
    Some(segments(&path)[place].clone())
}

fn plan(rule: &RuleSpec, members: &MembersSpec, key: &[String], facts: &Facts, ipv6_prefix: u8) -> String {
    if member(members, facts).is_some_and(|member| member.quotas.contains_key(&rule.name)) {
        return "member".into();
    }
    for given in &rule.overrides {
        let (OverrideSpec::Quotas { key: wanted, .. } | OverrideSpec::Tier { key: wanted, .. }) = given;
        let same = |((name, wanted), value): ((&String, &String), &String)| match name.as_str() {
            "ip" => spelled(wanted, ipv6_prefix) == *value,
            _ => wanted == value,
        };
        if rule.per.iter().zip(wanted).zip(key).all(same) {
            return match (given, &wanted[..]) {
                (OverrideSpec::Tier { tier, .. }, _) => format!("tier {tier}"),
                (_, [value]) => format!("override {value}"),
                (_, values) => format!("override {values:?}"),
            };
        }
    }
    let (tenant, tier) = (facts.get("tenant"), facts.get("tier"));
    let of_tenant = tenant.and_then(|name| Some((name, members.tenants.get(name)?)));
    if let Some((name, _)) = of_tenant.filter(|(_, tenant)| tenant.quotas.contains_key(&rule.name)) {
        return format!("tenant {name}");
    }
    let is_stored = |tier: &&String| members.tiers.get(*tier).is_some_and(|tier| tier.quotas.contains_key(&rule.name));
    let tier = tier.filter(|tier| is_stored(tier) || rule.tiers.contains_key(*tier));
    tier.map_or("default".to_owned(), |tier| format!("tier {tier}"))
}

fn cost(rule: &RuleSpec, facts: &Facts) -> u64 {
    match &rule.cost {
        CostSpec::Units { units } => *units,
        CostSpec::Attribute { attribute, default, max } => {
            let stated = fact(rule, attribute, facts).filter(|text| text.chars().all(|digit| digit.is_ascii_digit()));
            stated.map_or(*default, |text| text.parse().unwrap_or(u64::MAX)).min(max.unwrap_or(1 << 53))
        }
    }
}
