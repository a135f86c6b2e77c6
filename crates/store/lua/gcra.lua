-- gcra: never more than burst at once, and limit per period in the long run. algorithms.md, section 1.6.
--
-- Arguments  cost, l, p, burst, most (what debits can reach, in parts of 1/l tick), exponent (a tick is 10^exponent microseconds)
-- Reply      level, refunded
-- Value      see bucket.lua; kinds 168, and 176 to 183 with a fraction

local function gcra_settle(arg, raw, base)
  local cost, l, p, burst, most, exponent = unpack('<dddddB', arg, 21)
  local scale = exponent == 0 and 1 or 10 ^ exponent
  return bucket_settle({
    now = floor(base / scale), scale = scale, exponent = exponent, fraction = 176,
    cost = cost, l = l, p = p, burst = burst, most = most,
    level = 0, refunded = 0, receipts = 0, is_clamped = false,
  }, raw, 168)
end

local function gcra_retry(s)
  local cost = s.cost
  if cost > s.burst then return -1 end
  local above = s.level - (s.burst - cost) * s.p
  if above <= 0 then return 0 end
  return ceil(above / s.l)
end

local gcra_charge = bucket_charge

local function gcra_value(s)
  return bucket_value(s, 168)
end

local function gcra_fields(s)
  return s.level, s.refunded
end
--- refund
local gcra_refund = bucket_refund
