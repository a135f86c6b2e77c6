-- Pairs of a time and a count, oldest first, as a string: what sliding_window and sliding_window_ring remember.
--
-- Value   kind, newest time (7 bytes), its count, then for each older pair, newest first: the gap to the one after it, its count
-- The kind says how wide gaps (1 to 7 bytes) and counts (0, 1, 2 or 7 bytes) are; where all counts are 1 they take none.

local function pairs_read(raw, first, kinds)
  local size, kind = #raw, byte(raw) or 0
  local code = kind - first
  if size < 8 or code < 0 or code >= kinds then return end
  local wide = code % 4
  local gap = (code - wide) / 4 + 1
  local width = wide == 3 and 7 or wide
  local n = (size - 8 - width) / (gap + width) + 1
  if n < 1 or n % 1 > 0 then return end
  local _, newest = unpack('>BI7', raw)
  local at, count = {}, {}
  at[n], count[n] = newest, 1
  if wide == 0 then
    if n > 1 then
      local gaps = { unpack('>' .. rep(sub('I1I2I3I4I5I6I7', 2 * gap - 1, 2 * gap), n - 1), raw, 9) }
      for i = 1, n - 1 do
        newest = newest - gaps[i]
        at[n - i], count[n - i] = newest, 1
      end
    end
    return n, at, count
  end
  local counts = sub('I1I2I7', 2 * wide - 1, 2 * wide)
  count[n] = unpack('>' .. counts, raw, 9)
  if n > 1 then
    local both = { unpack('>' .. rep(sub('I1I2I3I4I5I6I7', 2 * gap - 1, 2 * gap) .. counts, n - 1), raw, 9 + width) }
    for i = 1, n - 1 do
      newest = newest - both[2 * i - 1]
      at[n - i], count[n - i] = newest, both[2 * i]
    end
  end
  return n, at, count
end

local function pairs_value(first, n, at, count)
  local widest, most = 0, count[n]
  for i = 2, n do
    local gap, units = at[i] - at[i - 1], count[i - 1]
    if gap > widest then widest = gap end
    if units > most then most = units end
  end
  local gap = widest < 256 and 1 or widest < 65536 and 2 or widest < 16777216 and 3 or widest < 4294967296 and 4
    or widest < 1099511627776 and 5 or widest < 281474976710656 and 6 or 7
  local wide = most == 1 and 0 or most < 256 and 1 or most < 65536 and 2 or 3
  local counts = wide == 0 and '' or sub('I1I2I7', 2 * wide - 1, 2 * wide)
  local kind = first + 4 * (gap - 1) + wide
  if n == 1 then
    return pack('>BI7' .. counts, kind, at[1], most)
  end
  local numbers = {}
  local j = 0
  for i = n, 2, -1 do
    if wide > 0 then
      j = j + 1
      numbers[j] = count[i]
    end
    j = j + 1
    numbers[j] = at[i] - at[i - 1]
  end
  if wide > 0 then numbers[j + 1] = count[1] end
  local layout = '>BI7' .. rep(counts .. sub('I1I2I3I4I5I6I7', 2 * gap - 1, 2 * gap), n - 1) .. counts
  return pack(layout, kind, at[n], spread(numbers))
end
