//! The fields of a message, one by one, without a copy.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::Refusal;

/// One field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field<'a> {
    /// Its number.
    pub(super) tag: u32,
    /// What it says.
    pub(super) value: Value<'a>,
}

/// What a field says, as far as that is known without its type.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// No field of ours is written like that.
    Other,
}

impl<'a> Value<'a> {
    pub(super) fn bytes(self) -> Result<&'a [u8], Refusal> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) | Self::Other => Err(Refusal::Malformed),
        }
    }

    pub(super) fn text(self) -> Result<&'a str, Refusal> {
        str::from_utf8(self.bytes()?).map_err(|_| Refusal::Malformed)
    }

    pub(super) fn number(self) -> Result<u64, Refusal> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) | Self::Other => Err(Refusal::Malformed),
        }
    }

    #[allow(clippy::cast_possible_truncation, reason = "the encoding keeps the low bits of what is too large")]
    pub(super) fn number_u32(self) -> Result<u32, Refusal> {
        self.number().map(|number| number as u32)
    }

    #[allow(clippy::cast_possible_truncation, reason = "the encoding keeps the low bits of what is too large")]
    pub(super) fn number_i32(self) -> Result<i32, Refusal> {
        self.number().map(|number| number as i32)
    }
}

/// Calls `take` with each field in order. What is passed over is checked too.
pub(super) fn each_field<'a>(mut bytes: &'a [u8], mut take: impl FnMut(Field<'a>) -> Result<(), Refusal>) -> Result<(), Refusal> {
    while !bytes.is_empty() {
        let (tag, wire_type) = decode_key(&mut bytes).map_err(|_| Refusal::Malformed)?;
        let value = match wire_type {
            WireType::Varint => Value::Number(decode_varint(&mut bytes).map_err(|_| Refusal::Malformed)?),
            WireType::LengthDelimited => {
                let length = decode_varint(&mut bytes).map_err(|_| Refusal::Malformed)?;
                let length = usize::try_from(length).map_err(|_| Refusal::Malformed)?;
                let (value, rest) = bytes.split_at_checked(length).ok_or(Refusal::Malformed)?;
                bytes = rest;
                Value::Bytes(value)
            }
            _ => {
                skip_field(wire_type, tag, &mut bytes, DecodeContext::default()).map_err(|_| Refusal::Malformed)?;
                Value::Other
            }
        };
        take(Field { tag, value })?;
    }
    Ok(())
}
