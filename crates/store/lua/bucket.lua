-- The state that gcra and leaky_bucket share: crates/core/src/algorithm/bucket.rs in Lua. algorithms.md, section 1.6.
--
-- Value   kind, arrival                        the arrival is a whole tick
--         kind, arrival, [exponent,] part, l   and part / l of a tick; the exponent is there unless a tick is a microsecond
--         174, refunded, receipts, then one of the above
-- Arrival and receipts are in microseconds, so that a quota that has got another tick can read them.
--
-- State   level     what is in the bucket now, in parts of 1/l tick
--         refunded  what was given back since there were receipts
--         receipts  when the last receipt of before the last refund has passed; 0 without one

local function bucket_settle(s, raw, whole)
  local l, scale, now = s.l, s.scale, s.now
  local level, refunded, receipts = 0, 0, 0
  if raw then
    if #raw < 8 then return end
    local kind, arrival = unpack('>BI7', raw)
    if kind == 174 and #raw > 22 then
      refunded, receipts = arrival, ceil(unpack('>I7', raw, 9) / scale)
      raw = sub(raw, 16)
      kind, arrival = unpack('>BI7', raw)
      if receipts <= now then refunded, receipts = 0, 0 end
    end
    local part = 0
    if kind ~= whole then
      local width = kind - s.fraction
      if width < 0 or width > 7 then return end
      local exponent = 0
      if width > 3 then
        width = width - 4
        if #raw ~= 11 + 2 * width then return end
        exponent = byte(raw, 9)
      elseif #raw ~= 10 + 2 * width then
        return
      end
      local size, base = width + 1
      part = unpack(sub('>I1>I2>I3>I4', 3 * size - 2, 3 * size), raw, #raw - 2 * size + 1)
      base = unpack(sub('>I1>I2>I3>I4', 3 * size - 2, 3 * size), raw, #raw - size + 1)
      -- The fraction of another rate, or of another tick, is rounded up.
      if base ~= l or exponent ~= s.exponent then arrival, part = arrival + 10 ^ exponent, 0 end
    elseif #raw ~= 8 then
      return
    end
    if scale > 1 then arrival = ceil(arrival / scale) end
    if arrival >= now then
      level = (arrival - now) * l + part
      if level > s.most then level, s.is_clamped = s.most, true end
    end
  end
  s.level, s.refunded, s.receipts = level, refunded, receipts
  return s
end

local function bucket_charge(s)
  local level = s.level + s.cost * s.p
  if level > s.most then level = s.most end
  s.level = level
  if s.receipts > 0 then s.receipts = max(s.receipts, s.now + ceil(level / s.l)) end
end

-- The value, and when it may be forgotten, in microseconds; nothing if it may be forgotten now.
local function bucket_value(s, whole)
  local l, level, scale = s.l, s.level, s.scale
  local value, expires
  if l == 1 then
    if level == 0 and s.receipts == 0 then return end
    expires = s.now + level
    value = pack('>BI7', whole, expires * scale)
  else
    if level == 0 and s.receipts == 0 then return end
    local part = level % l
    local arrival = s.now + (level - part) / l
    if part == 0 then
      expires = arrival
      value = pack('>BI7', whole, arrival * scale)
    else
      expires = arrival + 1
      local width = l < 256 and 1 or l < 65536 and 2 or l < 16777216 and 3 or 4
      local two = sub('I1I1I2I2I3I3I4I4', 4 * width - 3, 4 * width)
      if scale == 1 then
        value = pack('>BI7' .. two, s.fraction + width - 1, arrival, part, l)
      else
        value = pack('>BI7B' .. two, s.fraction + width + 3, arrival * scale, s.exponent, part, l)
      end
    end
  end
  if s.receipts > 0 then
    value = pack('>BI7I7', 174, s.refunded, s.receipts * scale) .. value
    expires = max(expires, s.receipts)
  end
  return value, expires * scale
end
--- refund
-- Takes out what still lies ahead of the charge. Receipt: arrival, part, l, and what had been refunded by then.
local function bucket_refund(s, receipt)
  local arrival, part, base, before = unpack('<dddd', receipt)
  local l, level, since = s.l, s.level, s.refunded - before
  if base ~= l or arrival < s.now or since < 0 then return false end
  local credit = min(s.cost * s.p, (arrival - s.now) * l + part - since, level)
  -- A sum that is no longer exact could give back too much.
  if credit <= 0 or s.refunded + credit > 9007199254740992 then return false end
  s.receipts = max(s.receipts, s.now + ceil(level / l))
  s.level, s.refunded = level - credit, s.refunded + credit
  return true
end
