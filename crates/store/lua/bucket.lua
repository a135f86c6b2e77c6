-- The state that gcra and leaky_bucket share: crates/core/src/algorithm/bucket.rs in Lua. algorithms.md, section 1.6.
--
-- Value   WHOLE, arrival                           the arrival is a whole tick
--         FRACTION, arrival, [exponent,] part, l   and part / l of a tick; the exponent is there unless a tick is a microsecond
--         174, refunded, receipts, then one of the above
-- Arrival and receipts are in microseconds, so that a quota that has got another tick can read them; they have 7 bytes. The kind of a fraction
-- says how wide part and l are (1 to 4 bytes), and whether there is an exponent (4 more).
--
-- s.level     what is in the bucket now, in parts of 1/l tick
-- s.refunded  what was given back since there were receipts
-- s.receipts  when the last receipt of before the last refund has passed; 0 without one

--@ settle
s.level, s.refunded, s.receipts, s.is_clamped = 0, 0, 0, false
if raw then
  local size, part, kind, arrival = #raw, 0, 0, 0
  if size >= 8 then kind, arrival = unpack('>BI7', raw) end
  if kind ~= WHOLE or size ~= 8 then
    local value = raw
    if kind == 174 and size > 22 then
      s.refunded, s.receipts = arrival, math.ceil(unpack('>I7', raw, 9) / s.scale)
      if s.receipts <= s.now then s.refunded, s.receipts = 0, 0 end
      value = string.sub(raw, 16)
      size = #value
      kind, arrival = unpack('>BI7', value)
    end
    local width, exponent = kind - FRACTION + 1, 0
    if width > 4 and width < 9 and size == 1 + 2 * width then
      width, exponent = width - 4, string.byte(value, 9)
    elseif width < 1 or width > 4 or size ~= 8 + 2 * width then
      width = 0
      if kind ~= WHOLE or size ~= 8 then trouble = FOREIGN end
    end
    if width > 0 then
      local two = string.sub('>I1I1>I2I2>I3I3>I4I4', 5 * width - 4, 5 * width)
      local number, l = unpack(two, value, size - 2 * width + 1)
      part = number
      -- The fraction of another rate, or of another tick, is rounded up.
      if l ~= s.l or exponent ~= s.exponent then arrival, part = arrival + 10 ^ exponent, 0 end
    end
  end
  if s.scale > 1 then arrival = math.ceil(arrival / s.scale) end
  if arrival >= s.now then
    local level = (arrival - s.now) * s.l + part
    if level > s.most then
      s.level, s.is_clamped = s.most, true
    else
      s.level = level
    end
  end
end

--@ charge
local level = s.level + s.cost * s.p
if level > s.most then level = s.most end
s.level = level
if s.receipts > 0 then s.receipts = math.max(s.receipts, s.now + math.ceil(level / s.l)) end

--@ value
local level, scale = s.level, s.scale
if level > 0 or s.receipts > 0 then
  if s.l == 1 then
    expires = (s.now + level) * scale
    packed = pack('>BI7', WHOLE, expires)
  else
    local part = level % s.l
    expires = (s.now + (level - part) / s.l) * scale
    if part == 0 then
      packed = pack('>BI7', WHOLE, expires)
    else
      local l = s.l
      local width = l < 256 and 1 or l < 65536 and 2 or l < 16777216 and 3 or 4
      local two = string.sub('I1I1I2I2I3I3I4I4', 4 * width - 3, 4 * width)
      if scale == 1 then
        packed = pack('>BI7' .. two, FRACTION + width - 1, expires, part, l)
      else
        packed = pack('>BI7B' .. two, FRACTION + width + 3, expires, s.exponent, part, l)
      end
      expires = expires + scale
    end
  end
  if s.receipts > 0 then
    packed = pack('>BI7I7', 174, s.refunded, s.receipts * scale) .. packed
    expires = math.max(expires, s.receipts * scale)
  end
end

--@ refund
-- Takes out what still lies ahead of the charge. Receipt: arrival, part, l, and what had been refunded by then.
local arrival, part, l, before = unpack('<dddd', receipt)
local since = s.refunded - before
if l == s.l and arrival >= s.now and since >= 0 then
  local credit = math.min(s.cost * s.p, (arrival - s.now) * l + part - since, s.level)
  -- A sum that is not exact could give back too much.
  if credit > 0 and s.refunded + credit <= 9007199254740992 then
    s.receipts = math.max(s.receipts, s.now + math.ceil(s.level / l))
    s.level, s.refunded, is_done = s.level - credit, s.refunded + credit, true
  end
end
