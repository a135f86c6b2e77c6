-- sliding_window_counter: the two-counter approximation of a sliding window. algorithms.md, section 1.4.
--
-- Arguments  cost, limit, most (limit + max_debt), window
-- Reply      current, previous
-- Value      171, end of the window, used in it and in the one before (1, 2 or 7 bytes each)

local function sliding_window_counter_settle(arg, raw, now)
  local cost, limit, most, window = unpack('<dddd', arg, 21)
  local stop = now - now % window + window
  local current, previous, is_clamped = 0, 0, false
  if raw then
    local size = #raw
    local layout = size == 10 and '>BI7BB' or size == 12 and '>BI7I2I2' or size == 22 and '>BI7I7I7'
    if not layout then return end
    local kind, ends, count, before = unpack(layout, raw)
    if kind ~= 171 then return end
    if ends == stop then
      current, previous = count, before
    elseif ends + window == stop then
      previous = count
    elseif ends > stop then
      -- The clock went back: the weight that the window before had is not known, so it counts in full.
      current, is_clamped = count, true
      if before < most - count then current = count + before elseif count < most then current = most end
    end
  end
  return {
    now = now, cost = cost, limit = limit, most = most, window = window,
    stop = stop, current = current, previous = previous, is_clamped = is_clamped,
  }
end

-- floor(units * window / of), at most the window.
local function sliding_window_counter_share(units, window, of)
  if units >= of then return window end
  local product = units * window
  local share = floor(product / of)
  if product >= 9007199254740992 then
    while product_above(share, of, units, window) do share = share - 1 end
    while not product_above(share + 1, of, units, window) do share = share + 1 end
  end
  return share
end

local function sliding_window_counter_retry(s)
  local cost, limit, window, current, previous = s.cost, s.limit, s.window, s.current, s.previous
  if cost > limit then return -1 end
  local left, room = s.stop - s.now, limit - cost - current
  if room >= 0 then
    if not product_above(previous, left, room, window) then return 0 end
    return left - sliding_window_counter_share(room, window, previous)
  end
  return left + window - sliding_window_counter_share(limit - cost, window, current)
end

local function sliding_window_counter_charge(s)
  local used, cost, most = s.current, s.cost, s.most
  if cost < most - used then s.current = used + cost elseif used < most then s.current = most end
end

local function sliding_window_counter_value(s)
  local current, previous, stop = s.current, s.previous, s.stop
  if current == 0 and previous == 0 then return end
  local larger = current > previous and current or previous
  local layout = larger < 256 and '>BI7BB' or larger < 65536 and '>BI7I2I2' or '>BI7I7I7'
  return pack(layout, 171, stop, current, previous), stop + s.window
end

local function sliding_window_counter_fields(s)
  return s.current, s.previous
end
--- refund
-- Receipt: the number of the window that was charged.
local function sliding_window_counter_refund(s, receipt)
  local id, now_id = unpack('<d', receipt), s.stop / s.window - 1
  if id == now_id and s.current > 0 then
    s.current = max(0, s.current - s.cost)
    return true
  elseif id + 1 == now_id and s.previous > 0 then
    s.previous = max(0, s.previous - s.cost)
    return true
  end
  return false
end
