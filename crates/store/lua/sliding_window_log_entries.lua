-- The entries of a sliding_window_log: see sliding_window_log.lua, which comes after this.

-- The entry at a position of the string: the gap to the one before it, and its cost.
local function sliding_window_log_entry(s, position)
  local gap, units = unpack(s.layout, s.raw, position)
  return gap, s.wide == 0 and 1 or units
end

-- All entries: their times and costs.
local function sliding_window_log_entries(s)
  local at, cost, time, size = {}, {}, s.oldest, s.gap + s.wide
  for i = 1, s.n do
    local gap, units = sliding_window_log_entry(s, s.first + (i - 1) * size)
    if i > 1 then time = time + gap end
    at[i], cost[i] = time, units
  end
  return at, cost
end

-- Writes all entries again, as wide as they need to be.
local function sliding_window_log_write(s, at, cost, n)
  local widest, most, least = 0, 0, 1
  for i = 1, n do
    if i > 1 then widest = max(widest, at[i] - at[i - 1]) end
    most, least = max(most, cost[i]), min(least, cost[i])
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

-- Brings entries of the future to now: the clock went back.
local function sliding_window_log_clamp(s)
  local at, cost = sliding_window_log_entries(s)
  for i = s.n, 1, -1 do
    if at[i] <= s.now then break end
    at[i] = s.now
  end
  s.newest, s.is_clamped = s.now, true
  sliding_window_log_write(s, at, cost, s.n)
end

-- Drops what has left the window.
local function sliding_window_log_drop(s)
  local size = s.gap + s.wide
  while s.n > 0 and s.oldest + s.window <= s.now do
    local _, units = sliding_window_log_entry(s, s.first)
    s.used, s.n, s.first = s.used - units, s.n - 1, s.first + size
    if s.n > 0 then s.oldest = s.oldest + sliding_window_log_entry(s, s.first) end
  end
  if s.used == 0 then s.n, s.next = 0, 0 end
end
