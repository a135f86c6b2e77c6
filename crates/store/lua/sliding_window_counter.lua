-- sliding_window_counter: the two-counter approximation of a sliding window. algorithms.md, section 1.4.
--
-- Arguments  cost, limit, most (limit + max_debt), window
-- Reply      current, previous
-- Value      171, end of the window (7 bytes), used in it and in the one before (1, 2 or 7 bytes each)

--@ settle
s.cost, s.limit, s.most, s.window = unpack('<dddd', arg, 21)
s.now, s.current, s.previous, s.is_clamped = base, 0, 0, false
s.stop = base - base % s.window + s.window
if raw then
  local size = #raw
  local layout = size == 10 and '>BI7BB' or size == 12 and '>BI7I2I2' or size == 22 and '>BI7I7I7'
  local kind, stop, current, previous = 0, 0, 0, 0
  if layout then kind, stop, current, previous = unpack(layout, raw) end
  if kind ~= 171 then
    trouble = FOREIGN
  elseif stop == s.stop then
    s.current, s.previous = current, previous
  elseif stop + s.window == s.stop then
    s.previous = current
  elseif stop > s.stop then
    -- The clock went back: the weight that the window before had is not known, so it counts in full.
    s.current, s.is_clamped = current, true
    if previous < s.most - current then s.current = current + previous elseif current < s.most then s.current = s.most end
  end
end

--@ retry
local room, left = s.limit - s.cost, s.stop - s.now
if room < 0 then
  wait = -1
else
  -- What is left when the current window is counted; below 0 the window must roll before the request fits.
  local units, of = room - s.current, s.previous
  local is_rolled = units < 0
  if is_rolled then units, of = room, s.current end
  -- The share of the window that `units` are of `of`, rounded down: as much of `of` may still count.
  local product, share = units * s.window, s.window
  if units < of then
    share = math.floor(product / of)
    if product >= 9007199254740992 then
      INCLUDE product.above
      while above(share, of, units, s.window) do share = share - 1 end
      while not above(share + 1, of, units, s.window) do share = share + 1 end
    end
  end
  -- of * left <= units * window is the same as left <= share, for whole numbers.
  if is_rolled then
    wait = left + s.window - share
  else
    wait = left > share and left - share or 0
  end
end

--@ charge
if s.cost < s.most - s.current then
  s.current = s.current + s.cost
elseif s.current < s.most then
  s.current = s.most
end

--@ value
local current, previous = s.current, s.previous
if current > 0 or previous > 0 then
  local larger = current > previous and current or previous
  local layout = larger < 256 and '>BI7BB' or larger < 65536 and '>BI7I2I2' or '>BI7I7I7'
  packed, expires = pack(layout, 171, s.stop, current, previous), s.stop + s.window
end

--@ fields
s.current, s.previous

--@ refund
-- Receipt: the number of the window that was charged.
local charged, current = unpack('<d', receipt), s.stop / s.window - 1
if charged == current and s.current > 0 then
  s.current, is_done = math.max(0, s.current - s.cost), true
elseif charged + 1 == current and s.previous > 0 then
  s.previous, is_done = math.max(0, s.previous - s.cost), true
end
