-- fixed_window: never more than limit between two window boundaries. algorithms.md, section 1.1.
--
-- Arguments  cost, limit, most (limit + max_debt), window; a window of 0 is followed by five boundaries of a calendar, in order
-- Reply      used, end of the window
-- Value      170, end, used (1, 2, 4 or 7 bytes)

local function fixed_window_settle(arg, raw, now)
  local cost, limit, most, window = unpack('<dddd', arg, 21)
  local stop, after
  if window > 0 then
    stop = now - now % window + window
    after = stop + window
  else
    local a, b, c, d, e = unpack('<ddddd', arg, 53)
    if now < a or now >= d then return nil, format('TGCLOCK %.0f', now) end
    if now < b then stop, after = b, c elseif now < c then stop, after = c, d else stop, after = d, e end
  end
  local used, is_clamped = 0, false
  if raw then
    local size = #raw
    local layout = size == 9 and '>BI7B' or size == 10 and '>BI7I2' or size == 12 and '>BI7I4' or size == 15 and '>BI7I7'
    if not layout then return end
    local kind, ends, count = unpack(layout, raw)
    if kind ~= 170 then return end
    -- The clock went back: the count stays in force, but for no longer than one more window.
    if ends >= stop then
      used = count
      if ends > after then ends, is_clamped = after, true end
      stop = ends
    end
  end
  return { now = now, cost = cost, limit = limit, most = most, used = used, stop = stop, is_clamped = is_clamped }
end

local function fixed_window_retry(s)
  local room = s.limit - s.cost
  if room < 0 then return -1 end
  if s.used <= room then return 0 end
  return s.stop - s.now
end

local function fixed_window_charge(s)
  local used, cost, most = s.used, s.cost, s.most
  if cost < most - used then s.used = used + cost elseif used < most then s.used = most end
end

local function fixed_window_value(s)
  local used = s.used
  if used == 0 then return end
  local layout = used < 256 and '>BI7B' or used < 65536 and '>BI7I2' or used < 4294967296 and '>BI7I4' or '>BI7I7'
  return pack(layout, 170, s.stop, used), s.stop
end

local function fixed_window_fields(s)
  return s.used, s.stop
end
--- refund
-- Receipt: the end of the window that was charged. Later ones never saw the charge.
local function fixed_window_refund(s, receipt)
  if unpack('<d', receipt) ~= s.stop or s.used == 0 then return false end
  s.used = max(0, s.used - s.cost)
  return true
end
