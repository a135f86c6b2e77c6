-- sliding_window_log: never more than limit in any window, and never less than it allows. algorithms.md, section 1.2.
--
-- Arguments  cost, limit, most (limit + max_debt), window
-- Reply      used, newest time (-1 without one), number of the entry that was charged (-1 without one)
-- Value      kind, newest time (7 bytes), the time from the oldest entry to it, used, the number of the next entry, then the entries, oldest first: the
--            gap to the one before, cost. The kind says how wide gaps (1, 2, 4 or 7 bytes), costs (0, 1, 2 or 7 bytes; 0 where all are 1) and the
--            numbers in front (1, 2, 4 or 7 bytes) are. Kinds 192 to 255.
--
-- A log may be long, so only its ends are looked at: what has left at the front, what is charged at the end. An entry that was refunded stays with a
-- cost of 0, so that the numbers of entries follow each other; after the last entry with a cost such entries have its time.

--@ functions
-- The entry at a position of the string: the gap to the one before it, and its cost.
local function entry_at(s, position)
  local gap, units = unpack(s.layout, s.raw, position)
  return gap, s.wide == 0 and 1 or units
end

-- All entries: their times and costs.
local function entries_of(s)
  local at, cost, time, size = {}, {}, s.oldest, s.gap + s.wide
  for i = 1, s.n do
    local gap, units = entry_at(s, s.first + (i - 1) * size)
    if i > 1 then time = time + gap end
    at[i], cost[i] = time, units
  end
  return at, cost
end

-- Writes all entries again, as wide as they need to be.
local function write_entries(s, at, cost, n)
  local widest, most, least = 0, 0, 1
  for i = 1, n do
    if i > 1 then widest = math.max(widest, at[i] - at[i - 1]) end
    most, least = math.max(most, cost[i]), math.min(least, cost[i])
  end
  local gap = widest < 256 and 1 or widest < 65536 and 2 or widest < 4294967296 and 4 or 7
  local wide = most == 1 and least == 1 and 0 or most < 256 and 1 or most < 65536 and 2 or 7
  local gaps = gap == 1 and '>I1' or gap == 2 and '>I2' or gap == 4 and '>I4' or '>I7'
  local costs = wide == 1 and 'I1' or wide == 2 and 'I2' or wide == 7 and 'I7' or ''
  local entries = {}
  for i = 1, n do
    entries[i] = pack(gaps .. costs, i > 1 and at[i] - at[i - 1] or 0, wide > 0 and cost[i] or nil)
  end
  s.raw, s.first, s.n, s.oldest, s.gap, s.wide, s.layout = table.concat(entries), 1, n, at[1], gap, wide, gaps .. costs
end

--@ settle
s.cost, s.limit, s.most, s.window = unpack('<dddd', arg, 21)
s.now, s.raw, s.n, s.first, s.oldest, s.newest, s.used, s.next = base, '', 0, 1, base, -1, 0, 0
s.gap, s.wide, s.layout, s.entry, s.is_clamped = 1, 0, '>I1', -1, false
if raw then
  local size, code = #raw, (string.byte(raw) or 0) - 192
  local header, wide, gap = code % 4, (code - code % 4) / 4 % 4, (code - code % 16) / 16
  local h, w, g = header < 2 and header + 1 or 3 * header - 2, wide == 3 and 7 or wide, gap < 2 and gap + 1 or 3 * gap - 2
  local n = (size - 8 - 3 * h) / (g + w)
  if code < 0 or n < 1 or n % 1 > 0 then
    trouble = FOREIGN
  else
    local layout, kind, span = string.sub('>BI7I1I1I1>BI7I2I2I2>BI7I4I4I4>BI7I7I7I7', header * 10 + 1, header * 10 + 10)
    kind, s.newest, span, s.used, s.next = unpack(layout, raw)
    s.raw, s.n, s.first, s.oldest, s.gap, s.wide = raw, n, 9 + 3 * h, s.newest - span, g, w
    s.layout = '>' .. string.sub('I1I2I4I7', 2 * gap + 1, 2 * gap + 2) .. (wide == 0 and '' or string.sub('I1I2I7', 2 * wide - 1, 2 * wide))
    if s.newest > base then
      -- The clock went back: entries of the future count as of now.
      local at, cost = entries_of(s)
      for i = s.n, 1, -1 do
        if at[i] <= s.now then break end
        at[i] = s.now
      end
      s.newest, s.is_clamped = s.now, true
      write_entries(s, at, cost, s.n)
    end
    local size = s.gap + s.wide
    while s.n > 0 and s.oldest + s.window <= s.now do
      local _, units = entry_at(s, s.first)
      s.used, s.n, s.first = s.used - units, s.n - 1, s.first + size
      if s.n > 0 then s.oldest = s.oldest + entry_at(s, s.first) end
    end
    if s.used == 0 then s.n, s.next = 0, 0 end
  end
end

--@ retry
local room, used = s.limit - s.cost, s.used
if room < 0 then
  wait = -1
elseif used <= room then
  wait = 0
else
  local i, at, size = s.first, s.oldest, s.gap + s.wide
  wait = nil
  while not wait and i <= #s.raw do
    local gap, units = entry_at(s, i)
    if i > s.first then at = at + gap end
    used = used - units
    if used <= room then wait = at + s.window - s.now end
    i = i + size
  end
end

--@ charge
local units, now = s.cost, s.now
if units > s.most - s.used then units = s.most > s.used and s.most - s.used or 0 end
if units > 0 then
  if s.n == 0 then
    s.raw, s.first, s.oldest, s.newest, s.gap = '', 1, now, now, 1
    s.wide = units == 1 and 0 or units < 256 and 1 or units < 65536 and 2 or 7
  end
  local gap, wide = now - s.newest, s.wide
  if gap >= 256 ^ s.gap or (wide == 0 and units > 1) or (wide > 0 and units >= 256 ^ wide) then
    local at, cost = entries_of(s)
    at[s.n + 1], cost[s.n + 1] = now, units
    write_entries(s, at, cost, s.n + 1)
  else
    local layout = s.gap == 7 and '>I7' or s.gap == 4 and '>I4' or s.gap == 2 and '>I2' or '>I1'
    local entry
    if wide == 0 then
      entry = pack(layout, gap)
    else
      entry = pack(layout .. (wide == 1 and 'I1' or wide == 2 and 'I2' or 'I7'), gap, units)
    end
    s.raw, s.first, s.n = string.sub(s.raw, s.first) .. entry, 1, s.n + 1
  end
  s.used, s.newest, s.entry, s.next = s.used + units, now, s.next, s.next + 1
end

--@ value
if s.used > 0 then
  local span = s.newest - s.oldest
  local largest = math.max(span, s.used, s.next)
  local header = largest < 256 and 0 or largest < 65536 and 1 or largest < 4294967296 and 2 or 3
  local wide = s.wide == 7 and 3 or s.wide
  local gap = s.gap == 7 and 3 or s.gap == 4 and 2 or s.gap - 1
  local layout = string.sub('>BI7I1I1I1>BI7I2I2I2>BI7I4I4I4>BI7I7I7I7', header * 10 + 1, header * 10 + 10)
  packed = pack(layout, 192 + 16 * gap + 4 * wide + header, s.newest, span, s.used, s.next) .. string.sub(s.raw, s.first)
  expires = s.newest + s.window
end

--@ fields
s.used, s.used > 0 and s.newest or -1, s.entry

--@ refund
-- Takes units out of the entry that was charged, and the entry itself once it is empty. Receipt: its number, and when it was charged.
local number, charged_at = unpack('<dd', receipt)
local i = number - (s.next - s.n) + 1
if charged_at + s.window > s.now and i >= 1 and i <= s.n then
  local at, cost = entries_of(s)
  local credit = math.min(s.cost, cost[i])
  if credit > 0 then
    cost[i], s.used, is_done = cost[i] - credit, s.used - credit, true
    local last = s.n
    while last > 0 and cost[last] == 0 do last = last - 1 end
    if last > 0 then
      for j = last + 1, s.n do at[j] = at[last] end
      s.newest = at[last]
      write_entries(s, at, cost, s.n)
    end
  end
end
