-- sliding_window: never more than limit in any window, from a log of at most M pairs. algorithms.md, section 1.3.
--
-- Arguments  cost, limit, most (limit + max_debt), window, entries (M)
-- Reply      used, newest time (-1 without one), clamps
-- Value      see pairs.lua; after a clock that went back: 175, clamps (4 bytes), then that
--            157, used, the time from the oldest pair to the newest, and the least count * gap but for the last one (7 bytes each), then that: a full log
--            whose newest pair took the last charge in
--
-- Where requests are frequent a full log goes on like that: its newest pair takes one charge after the other in, and no other pair changes. What is in
-- front of such a log is all that has to be known to see that it will, so it is not taken apart: a script of three quotas then took 37 to 43 microseconds instead of 58 to 69.
--@ constants FIRST=128 KINDS=28

--@ settle
s.cost, s.limit, s.most, s.window, s.entries = unpack('<ddddd', arg, 21)
s.now, s.used, s.clamps, s.is_clamped, s.n, s.v, s.newest, s.oldest, s.widest, s.most_units = base, 0, 0, false, 0, nil, -1, 0, 0, 1
s.log, s.grown, s.is_growing = nil, nil, false
if raw then
  local kind = string.byte(raw)
  if kind == 175 and #raw > 5 then
    s.clamps = unpack('>I4', raw, 2)
    raw = string.sub(raw, 6)
  elseif kind == 157 and #raw > 30 then
    if IS_PLAIN then
      INCLUDE sliding_window.grow
    end
    if not s.log then raw = string.sub(raw, 23) end
  end
  if not s.log then
    INCLUDE pairs.read
  end
end
if s.n == 0 then
  s.v = {}
elseif not s.log then
  local n, v, used, span = s.n, s.v, 0, 0
  for i = 2, 2 * n - 2, 2 do
    used = used + v[i - 1]
    span = span + v[i]
  end
  s.used, s.oldest = used + v[2 * n - 1], s.newest - span
  if s.newest > base then
    -- The clock went back: what lies in the future counts as of now.
    local at, units = s.newest, 0
    while n > 0 and at >= base do
      units = units + v[2 * n - 1]
      n = n - 1
      if n > 0 then at = at - v[2 * n] end
    end
    if n > 0 then v[2 * n] = base - at else s.oldest = base end
    n = n + 1
    v[2 * n - 1], s.n, s.newest = units, n, base
    s.widest, s.most_units = 9007199254740992, 9007199254740992
    s.clamps, s.is_clamped = (s.clamps + 1) % 4294967296, true
  end
  local first = 1
  while first <= n and s.oldest + s.window <= base do
    s.used = s.used - v[2 * first - 1]
    if first < n then s.oldest = s.oldest + v[2 * first] end
    first = first + 1
  end
  if first > 1 or s.is_clamped then
    INCLUDE pairs.drop
  end
  if s.n == 0 then s.clamps = 0 end
end

-- Looks whether the newest pair will take the charge in. If so, `s.log` is the value as it is, and `s.grown` the value with the charge.
--@ grow
local _, used, span, least, code, newest = unpack('>BI7I7I7BI7', raw)
local since, size, wide = s.now - newest, #raw, (code - FIRST) % 4
local gap, width = (code - FIRST - wide) / 4 + 1, wide == 3 and 7 or wide
local pair = gap + width
local n = (size - 30 - width) / pair + 1
if since > 0 and span + since < s.window and s.cost <= s.limit - used and n == s.entries and n > 2 and wide > 0 and code >= FIRST and gap < 8 then
  local counts, gaps = string.sub('I1I2I7', 2 * wide - 1, 2 * wide), string.sub('I1I2I3I4I5I6I7', 2 * gap - 1, 2 * gap)
  local units_before, before, units = unpack('>' .. counts .. gaps .. counts, raw, size - pair - width + 1)
  local held_back, longer, more = units * since, before + since, units + s.cost
  if held_back < least and held_back < units_before * before and longer < 256 ^ gap and more < 256 ^ width then
    s.n, s.used, s.newest, s.log = n, used, newest, raw
    s.grown = pack(
      '>BI7I7I7BI7c0' .. gaps .. counts,
      157, used + s.cost, span + since, least, code, s.now, string.sub(raw, 31, size - pair), longer, more)
  end
end

--@ retry
local room, used = s.limit - s.cost, s.used
if room < 0 then
  wait = -1
elseif used <= room then
  wait = 0
else
  local v, at, i = s.v, s.oldest, 1
  used = used - v[1]
  while used > room do
    at = at + v[i + 1]
    i = i + 2
    used = used - v[i]
  end
  wait = at + s.window - s.now
end

--@ charge
local units, time = s.cost, s.now
if units > s.most - s.used then units = s.most > s.used and s.most - s.used or 0 end
s.used, s.is_growing = s.used + units, false
if s.log then
  s.newest, s.log = time, s.grown
elseif units > 0 then
  if s.n == 0 then s.oldest = time end
  INCLUDE pairs.add
end
while s.n > s.entries do
  -- Merges the two neighbours that hold back the least.
  local v, last = s.v, 2 * s.n - 3
  local cheapest, least = 1, v[1] * v[2]
  for i = 3, last, 2 do
    local held_back = v[i] * v[i + 1]
    if held_back < least then
      cheapest, least = i, held_back
    elseif held_back == least and held_back >= 9007199254740992 then
      INCLUDE product.above
      if above(v[cheapest], v[cheapest + 1], v[i], v[i + 1]) then cheapest = i end
    end
  end
  local units = v[cheapest] + v[cheapest + 2]
  v[cheapest + 2] = units
  if units > s.most_units then s.most_units = units end
  if cheapest > 1 then
    local gap = v[cheapest - 1] + v[cheapest + 1]
    v[cheapest - 1] = gap
    if gap > s.widest then s.widest = gap end
  else
    s.oldest = s.oldest + v[2]
  end
  s.is_growing = cheapest == last
  for i = cheapest, last do v[i] = v[i + 2] end
  s.n = s.n - 1
end

--@ value
if s.log then
  packed, expires = s.log, s.newest + s.window
elseif s.n > 0 then
  INCLUDE pairs.value
  expires = s.newest + s.window
  if s.clamps > 0 then
    packed = pack('>BI4', 175, s.clamps) .. packed
  elseif s.is_growing and s.n > 2 then
    local v, least = s.v, 9007199254740991
    for i = 1, 2 * s.n - 5, 2 do
      local held_back = v[i] * v[i + 1]
      if held_back < least then least = held_back end
    end
    packed = pack('>BI7I7I7', 157, s.used, s.newest - s.oldest, least) .. packed
  end
end

--@ fields
s.used, s.n > 0 and s.newest or -1, s.clamps

--@ refund
-- The charge lies in the first pair that is no earlier than it, because merging only moves units to the next later pair.
-- Receipt: when it was charged, and how often the log had been clamped by then.
local charged_at, clamps = unpack('<dd', receipt)
if charged_at + s.window > s.now and clamps == s.clamps then
  local i, at = 1, s.oldest
  while i < s.n and at < charged_at do
    at = at + s.v[2 * i]
    i = i + 1
  end
  if i <= s.n and at >= charged_at then
    INCLUDE pairs.take
  end
end
