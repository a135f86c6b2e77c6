-- sliding_window: never more than limit in any window, from a log of at most M pairs. algorithms.md, section 1.3.
--
-- Arguments  cost, limit, most (limit + max_debt), window, entries (M)
-- Reply      used, newest time (-1 without one), clamps
-- Value      see pairs.lua; kinds 128 to 155; after a clock that went back: 175, clamps (4 bytes), then that

local function sliding_window_settle(arg, raw, now)
  local cost, limit, most, window, entries = unpack('<ddddd', arg, 21)
  local n, at, count, used, clamps, is_clamped = 0, nil, nil, 0, 0, false
  if raw then
    if byte(raw) == 175 and #raw > 5 then
      clamps = unpack('>I4', raw, 2)
      raw = sub(raw, 6)
    end
    n, at, count = pairs_read(raw, 128, 28)
    if not n then return end
    if at[n] > now then
      -- The clock went back: what lies in the future counts as of now.
      local units = 0
      while n > 0 and at[n] >= now do
        units = units + count[n]
        n = n - 1
      end
      n = n + 1
      at[n], count[n] = now, units
      clamps, is_clamped = (clamps + 1) % 4294967296, true
    end
    local gone = 0
    while gone < n and at[gone + 1] + window <= now do gone = gone + 1 end
    for i = 1, n - gone do
      at[i], count[i] = at[i + gone], count[i + gone]
      used = used + count[i]
    end
    n = n - gone
    if n == 0 then clamps = 0 end
  end
  return {
    now = now, cost = cost, limit = limit, most = most, window = window, entries = entries,
    n = n, at = at, count = count, used = used, clamps = clamps, is_clamped = is_clamped,
  }
end

local function sliding_window_retry(s)
  local room, used = s.limit - s.cost, s.used
  if room < 0 then return -1 end
  if used <= room then return 0 end
  local at, count = s.at, s.count
  local i = 0
  while used > room do
    i = i + 1
    used = used - count[i]
  end
  return at[i] + s.window - s.now
end

local function sliding_window_charge(s)
  local n, used, units, now, entries = s.n, s.used, s.cost, s.now, s.entries
  if units > s.most - used then units = s.most > used and s.most - used or 0 end
  s.used = used + units
  if n == 0 then
    if units > 0 then s.n, s.at, s.count = 1, { now }, { units } end
    return
  end
  local at, count = s.at, s.count
  if at[n] == now then
    count[n] = count[n] + units
  elseif units > 0 then
    n = n + 1
    at[n], count[n] = now, units
  end
  while n > entries do
    -- Merges the two neighbours that hold back the least.
    local cheapest, least = 1, count[1] * (at[2] - at[1])
    for i = 2, n - 1 do
      local held_back = count[i] * (at[i + 1] - at[i])
      if held_back < least or (held_back == least and held_back >= 9007199254740992
        and product_above(count[cheapest], at[cheapest + 1] - at[cheapest], count[i], at[i + 1] - at[i])) then
        cheapest, least = i, held_back
      end
    end
    count[cheapest + 1] = count[cheapest + 1] + count[cheapest]
    for i = cheapest, n - 1 do at[i], count[i] = at[i + 1], count[i + 1] end
    n = n - 1
  end
  s.n = n
end

local function sliding_window_value(s)
  local n = s.n
  if n == 0 then return end
  local value = pairs_value(128, n, s.at, s.count)
  if s.clamps > 0 then value = pack('>BI4', 175, s.clamps) .. value end
  return value, s.at[n] + s.window
end

local function sliding_window_fields(s)
  local n = s.n
  return s.used, n > 0 and s.at[n] or -1, s.clamps
end
--- refund
-- The charge lies in the first pair that is no earlier than it, because merging only moves units to the next later pair.
-- Receipt: when it was charged, and how often the log had been clamped by then.
local function sliding_window_refund(s, receipt)
  local charged_at, clamps = unpack('<dd', receipt)
  if charged_at + s.window <= s.now or clamps ~= s.clamps then return false end
  local n, at, count, i = s.n, s.at, s.count, 1
  while i <= n and at[i] < charged_at do i = i + 1 end
  if i > n then return false end
  if s.cost < count[i] then
    count[i] = count[i] - s.cost
  else
    for j = i, n - 1 do at[j], count[j] = at[j + 1], count[j + 1] end
    s.n = n - 1
  end
  return true
end
