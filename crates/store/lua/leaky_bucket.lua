-- leaky_bucket: admitted requests start at least period / limit apart, and none is delayed by more than queue. algorithms.md, section 1.7.
--
-- Arguments  cost, l, p, delay_max (of this request), nodelay, max_cost, most (the longest backlog, in parts of 1/l tick), exponent
-- Reply      level, refunded, delay
-- Value      see bucket.lua; kinds 169, and 184 to 191 with a fraction

local function leaky_bucket_settle(arg, raw, base)
  local cost, l, p, delay_max, nodelay, max_cost, most, exponent = unpack('<dddddddB', arg, 21)
  local scale = exponent == 0 and 1 or 10 ^ exponent
  return bucket_settle({
    now = floor(base / scale), scale = scale, exponent = exponent, fraction = 184,
    cost = cost, l = l, p = p, delay_max = delay_max, nodelay = nodelay, max_cost = max_cost, most = most,
    level = 0, refunded = 0, receipts = 0, delay = 0, is_clamped = false,
  }, raw, 169)
end

local function leaky_bucket_retry(s)
  if s.cost > s.max_cost then return -1 end
  local behind = s.level - s.nodelay * s.p
  if behind <= 0 then return 0 end
  s.delay = ceil(behind / s.l)
  local above = behind - s.delay_max * s.l
  if above <= 0 then return 0 end
  return ceil(above / s.l)
end

local leaky_bucket_charge = bucket_charge

local function leaky_bucket_value(s)
  return bucket_value(s, 169)
end

local function leaky_bucket_fields(s)
  return s.level, s.refunded, s.delay
end
--- refund
local leaky_bucket_refund = bucket_refund
