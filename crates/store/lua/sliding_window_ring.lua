-- sliding_window_counter with buckets: never more than limit in any window, from the counts of its sub-windows. algorithms.md, section 1.5.
--
-- Arguments  cost, limit, most (limit + max_debt), buckets (k), width
-- Reply      used, number of the newest sub-window that counts (-1 without one)
-- Value      see pairs.lua; kinds 160 to 167; times are numbers of sub-windows, and those without units are left out

local function sliding_window_ring_settle(arg, raw, now)
  local cost, limit, most, buckets, width = unpack('<ddddd', arg, 21)
  local newest = (now - now % width) / width
  local n, at, count, used, live, is_clamped = 0, nil, nil, 0, 1, false
  if raw then
    n, at, count = pairs_read(raw, 160, 8)
    if not n then return end
    if at[n] > newest then
      -- The clock went back: what lies in later sub-windows counts in that of now.
      local units = 0
      while n > 0 and at[n] >= newest do
        units = units + count[n]
        n = n - 1
      end
      n = n + 1
      at[n], count[n], is_clamped = newest, units, true
    end
    local gone = 0
    while gone < n and at[gone + 1] + buckets < newest do gone = gone + 1 end
    for i = 1, n - gone do
      at[i], count[i] = at[i + gone], count[i + gone]
      used = used + count[i]
    end
    n = n - gone
    -- In the last tick of now's sub-window the oldest one no longer counts.
    if n > 0 and (at[1] + buckets) * width + width - 1 <= now then
      live, used = 2, used - count[1]
      if n == 1 then n, live = 0, 1 end
    end
  end
  return {
    now = now, cost = cost, limit = limit, most = most, buckets = buckets, width = width, newest = newest,
    n = n, at = at, count = count, used = used, live = live, is_clamped = is_clamped,
  }
end

local function sliding_window_ring_retry(s)
  local room, used = s.limit - s.cost, s.used
  if room < 0 then return -1 end
  if used <= room then return 0 end
  local at, count = s.at, s.count
  local i = s.live - 1
  while used > room do
    i = i + 1
    used = used - count[i]
  end
  return (at[i] + s.buckets) * s.width + s.width - 1 - s.now
end

local function sliding_window_ring_charge(s)
  local n, used, units, newest = s.n, s.used, s.cost, s.newest
  if units > s.most - used then units = s.most > used and s.most - used or 0 end
  if units == 0 then return end
  s.used = used + units
  if n == 0 then
    s.n, s.at, s.count = 1, { newest }, { units }
  elseif s.at[n] == newest then
    s.count[n] = s.count[n] + units
  else
    s.n, s.at[n + 1], s.count[n + 1] = n + 1, newest, units
  end
end

local function sliding_window_ring_value(s)
  local n = s.n
  if n == 0 then return end
  return pairs_value(160, n, s.at, s.count), (s.at[n] + s.buckets) * s.width + s.width - 1
end

local function sliding_window_ring_fields(s)
  local n = s.n
  return s.used, n >= s.live and s.at[n] or -1
end
--- refund
-- Receipt: the number of the sub-window that was charged.
local function sliding_window_ring_refund(s, receipt)
  local charged, n, at, count = unpack('<d', receipt), s.n, s.at, s.count
  for i = 1, n do
    if at[i] == charged then
      if s.cost < count[i] then
        count[i] = count[i] - s.cost
      else
        for j = i, n - 1 do at[j], count[j] = at[j + 1], count[j + 1] end
        s.n = n - 1
      end
      return true
    end
  end
  return false
end
