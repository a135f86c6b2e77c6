-- leaky_bucket: admitted requests start at least period / limit apart, and none is delayed by more than queue. algorithms.md, section 1.7.
--
-- Arguments  cost, l, p, delay_max (of this request), nodelay, max_cost, most (the longest backlog, in parts of 1/l tick), exponent
-- Reply      level, refunded, delay
-- Value      see bucket.lua
--@ constants WHOLE=169 FRACTION=184

--@ settle
s.cost, s.l, s.p, s.delay_max, s.nodelay, s.max_cost, s.most, s.exponent = unpack('<dddddddB', arg, 21)
s.now, s.scale, s.delay = base, 1, 0
if s.exponent > 0 then
  s.scale = 10 ^ s.exponent
  s.now = math.floor(base / s.scale)
end
INCLUDE bucket.settle

--@ retry
if s.cost > s.max_cost then
  wait = -1
else
  wait = 0
  local behind = s.level - s.nodelay * s.p
  if behind > 0 then
    s.delay = math.ceil(behind / s.l)
    local above = behind - s.delay_max * s.l
    if above > 0 then wait = math.ceil(above / s.l) end
  end
end

--@ charge
INCLUDE bucket.charge

--@ value
INCLUDE bucket.value

--@ fields
s.level, s.refunded, s.delay

--@ refund
INCLUDE bucket.refund
