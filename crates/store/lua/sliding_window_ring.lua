-- sliding_window_counter with buckets: never more than limit in any window, from the counts of its sub-windows. algorithms.md, section 1.5.
--
-- Arguments  cost, limit, most (limit + max_debt), buckets (k), width
-- Reply      used, number of the newest sub-window that counts (-1 without one)
-- Value      see pairs.lua; times are numbers of sub-windows, and those without units are left out
--@ constants FIRST=160 KINDS=8

--@ settle
s.cost, s.limit, s.most, s.buckets, s.width = unpack('<ddddd', arg, 21)
s.now, s.used, s.is_clamped, s.n, s.v, s.newest, s.oldest, s.widest, s.most_units = base, 0, false, 0, nil, -1, 0, 0, 1
s.current, s.live = (base - base % s.width) / s.width, 1
if raw then
  INCLUDE pairs.read
end
if s.n == 0 then
  s.v = {}
else
  local n, v, used, span, current = s.n, s.v, 0, 0, s.current
  for i = 2, 2 * n - 2, 2 do
    used = used + v[i - 1]
    span = span + v[i]
  end
  s.used, s.oldest = used + v[2 * n - 1], s.newest - span
  if s.newest > current then
    -- The clock went back: what lies in later sub-windows counts in that of now.
    local at, units = s.newest, 0
    while n > 0 and at >= current do
      units = units + v[2 * n - 1]
      n = n - 1
      if n > 0 then at = at - v[2 * n] end
    end
    if n > 0 then v[2 * n] = current - at else s.oldest = current end
    n = n + 1
    v[2 * n - 1], s.n, s.newest, s.is_clamped = units, n, current, true
  end
  local first = 1
  while first <= n and s.oldest + s.buckets < current do
    s.used = s.used - v[2 * first - 1]
    if first < n then s.oldest = s.oldest + v[2 * first] end
    first = first + 1
  end
  -- In the last tick of now's sub-window the oldest one no longer counts.
  if first <= n and (s.oldest + s.buckets + 1) * s.width - 1 <= base then
    s.used, s.live = s.used - v[2 * first - 1], 2
    if first == n then first, s.live = n + 1, 1 end
  end
  if first > 1 or s.is_clamped then
    INCLUDE pairs.drop
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
  if s.live == 2 then at, i = at + v[2], 3 end
  used = used - v[i]
  while used > room do
    at = at + v[i + 1]
    i = i + 2
    used = used - v[i]
  end
  wait = (at + s.buckets + 1) * s.width - 1 - s.now
end

--@ charge
local units, time = s.cost, s.current
if units > s.most - s.used then units = s.most > s.used and s.most - s.used or 0 end
if units > 0 then
  s.used = s.used + units
  INCLUDE pairs.add
end

--@ value
if s.n > 0 then
  INCLUDE pairs.value
  expires = (s.newest + s.buckets + 1) * s.width - 1
end

--@ fields
s.used, s.n >= s.live and s.newest or -1

--@ refund
-- Receipt: the number of the sub-window that was charged.
local charged, i, at = unpack('<d', receipt), 1, s.oldest
while i < s.n and at < charged do
  at = at + s.v[2 * i]
  i = i + 1
end
if i <= s.n and at == charged then
  INCLUDE pairs.take
end
