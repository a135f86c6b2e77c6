-- gcra: never more than burst at once, and limit per period in the long run. algorithms.md, section 1.6.
--
-- Arguments  cost, l, p, burst, most (what debits can reach, in parts of 1/l tick), exponent (a tick is 10^exponent microseconds)
-- Reply      level, refunded
-- Value      see bucket.lua
--@ constants WHOLE=168 FRACTION=176

--@ settle
s.cost, s.l, s.p, s.burst, s.most, s.exponent = unpack('<dddddB', arg, 21)
s.now, s.scale = base, 1
if s.exponent > 0 then
  s.scale = 10 ^ s.exponent
  s.now = math.floor(base / s.scale)
end
INCLUDE bucket.settle

--@ retry
if s.cost > s.burst then
  wait = -1
else
  local above = s.level - (s.burst - s.cost) * s.p
  wait = above > 0 and math.ceil(above / s.l) or 0
end

--@ charge
INCLUDE bucket.charge

--@ value
INCLUDE bucket.value

--@ fields
s.level, s.refunded

--@ refund
INCLUDE bucket.refund
