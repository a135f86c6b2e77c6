-- Pairs of a time and a count, oldest first, as a string: what sliding_window and sliding_window_ring remember.
--
-- Value  kind, newest time (7 bytes), then for each pair, oldest first: its count, and the gap to the next one
-- The kind, from FIRST on, says how wide gaps (1 to 7 bytes) and counts (0, 1, 2 or 7 bytes) are; where all counts are 1 they take none.
--
-- s.n, s.newest  how many pairs there are, and the time of the last
-- s.v            count, gap, count, gap, ..., count: not the times themselves, because it is count * gap that a merge looks at
-- s.widest       no gap is larger; s.most_units: and no count

--@ read
local size, code = #raw, (string.byte(raw) or 0) - FIRST
local wide = code % 4
local gap, width = (code - wide) / 4 + 1, wide == 3 and 7 or wide
local n = (size - 8 - width) / (gap + width) + 1
if code < 0 or code >= KINDS or n < 1 or n % 1 > 0 then
  trouble = FOREIGN
else
  local gaps, v = string.sub('I1I2I3I4I5I6I7', 2 * gap - 1, 2 * gap), nil
  if wide > 0 then
    local counts = string.sub('I1I2I7', 2 * wide - 1, 2 * wide)
    v = { unpack('>' .. string.rep(counts .. gaps, n - 1) .. counts, raw, 9) }
  else
    v = { 1 }
    if n > 1 then
      local bare = { unpack('>' .. string.rep(gaps, n - 1), raw, 9) }
      for i = 1, n - 1 do
        v[2 * i] = bare[i]
        v[2 * i + 1] = 1
      end
    end
  end
  s.n, s.newest, s.v, s.widest, s.most_units = n, unpack('>I7', raw, 2), v, 256 ^ gap - 1, wide > 0 and 256 ^ width - 1 or 1
end

-- Drops the pairs before `first`.
--@ drop
s.n = s.n - first + 1
if s.n == 0 then
  s.v, s.widest, s.most_units = {}, 0, 1
else
  s.v = { spread(s.v, 2 * first - 1, 2 * (s.n + first - 1) - 1) }
  s.widest, s.most_units = 0, s.v[1]
  for i = 3, 2 * s.n - 1, 2 do
    s.widest, s.most_units = math.max(s.widest, s.v[i - 1]), math.max(s.most_units, s.v[i])
  end
end

-- Adds `units` at `time`, which is not before the newest pair.
--@ add
local n, v = s.n, s.v
if n == 0 then
  s.n, s.newest, v[1], s.most_units = 1, time, units, units
elseif s.newest == time then
  units = v[2 * n - 1] + units
  v[2 * n - 1] = units
  if units > s.most_units then s.most_units = units end
else
  local gap = time - s.newest
  v[2 * n], v[2 * n + 1], s.n, s.newest = gap, units, n + 1, time
  if gap > s.widest then s.widest = gap end
  if units > s.most_units then s.most_units = units end
end

-- Takes units out of pair `i`, and the pair itself once it is empty.
--@ take
local v, j = s.v, 2 * i - 1
is_done = true
if s.cost < v[j] then
  v[j] = v[j] - s.cost
else
  if i == s.n then
    if i > 1 then s.newest = s.newest - v[j - 1] end
  else
    if i > 1 then
      v[j - 1] = v[j - 1] + v[j + 1]
      s.widest = math.max(s.widest, v[j - 1])
    end
    for k = j, 2 * s.n - 3 do v[k] = v[k + 2] end
  end
  s.n = s.n - 1
end

--@ value
local n, widest, most_units = s.n, s.widest, s.most_units
local gap = widest < 256 and 1 or widest < 65536 and 2 or widest < 16777216 and 3 or widest < 4294967296 and 4
  or widest < 1099511627776 and 5 or widest < 281474976710656 and 6 or 7
local gaps = string.sub('I1I2I3I4I5I6I7', 2 * gap - 1, 2 * gap)
if most_units > 1 then
  local wide = most_units < 256 and 1 or most_units < 65536 and 2 or 3
  local counts = string.sub('I1I2I7', 2 * wide - 1, 2 * wide)
  packed = pack('>BI7' .. string.rep(counts .. gaps, n - 1) .. counts, FIRST - 4 + 4 * gap + wide, s.newest, spread(s.v, 1, 2 * n - 1))
elseif n == 1 then
  packed = pack('>BI7', FIRST - 4 + 4 * gap, s.newest)
else
  local bare = {}
  for i = 1, n - 1 do bare[i] = s.v[2 * i] end
  packed = pack('>BI7' .. string.rep(gaps, n - 1), FIRST - 4 + 4 * gap, s.newest, spread(bare))
end
