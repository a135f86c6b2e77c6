//! To come (stub).
#![allow(missing_docs, unused, clippy::all, clippy::pedantic)]
use std::sync::Arc;
use tidegate_core::decision::Verdict;
use tidegate_core::meter::{Meter, MeterError, Refund};
use tidegate_core::quota::Quota;
use tidegate_core::time::{Calendar, Tick};
use super::resp::{Command, Value};
use super::topology::Calls;
use crate::digest::Digest;
use crate::store::{Charge, StoreError};
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op { Check, Peek, Debit, Refund(Refund), Renew, Release }
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build { Production, Injected }
#[derive(Debug)]
pub enum Reply { Verdict { now_ns: u64, verdict: Verdict }, Done(bool) }
#[derive(Debug)]
pub struct Scripts;
#[derive(Debug)]
pub struct Call;
impl Calls for Call { fn by_hash(&self) -> Command { todo!() } fn by_text(&self) -> Command { todo!() } }
impl Call { pub fn decode(&self, value: &Value) -> Result<Reply, StoreError> { todo!() } }
impl Scripts {
    pub fn new(build: Build) -> Self { Self }
    pub fn meter(&self, quota: &Quota, calendar: Option<Arc<dyn Calendar>>) -> Result<Meter, MeterError> { todo!() }
    pub fn call(&self, op: Op, charges: &[Charge<'_>], prefix: &[u8], now: u64) -> Call { todo!() }
}
pub fn tag(tag: Digest) -> [u8; 16] { todo!() }
pub fn delete(charge: &Charge<'_>, prefix: &[u8]) -> Command { todo!() }
pub fn deleted(value: &Value) -> Result<bool, StoreError> { todo!() }
