-- fixed_window: never more than limit between two window boundaries. algorithms.md, section 1.1.
--
-- Arguments  cost, limit, most (limit + max_debt), window; a window of 0 is followed by five boundaries of a calendar, in order
-- Reply      used, end of the window
-- Value      170, end (7 bytes), used (1, 2, 4 or 7 bytes)

--@ settle
local window, after
s.cost, s.limit, s.most, window = unpack('<dddd', arg, 21)
s.now, s.used, s.is_clamped = base, 0, false
if window > 0 then
  s.stop = base - base % window + window
  after = s.stop + window
else
  local a, b, c, d, e = unpack('<ddddd', arg, 53)
  if base < a or base >= d then
    -- The caller's clock is so wrong that it sent the boundaries of other windows.
    trouble = string.format('TGCLOCK %.0f', base)
  end
  if base < b then s.stop, after = b, c elseif base < c then s.stop, after = c, d else s.stop, after = d, e end
end
if raw then
  local size = #raw
  local layout = size == 9 and '>BI7B' or size == 10 and '>BI7I2' or size == 12 and '>BI7I4' or size == 15 and '>BI7I7'
  local kind, stop, used = 0, 0, 0
  if layout then kind, stop, used = unpack(layout, raw) end
  if kind ~= 170 then
    trouble = trouble or FOREIGN
  elseif stop >= s.stop then
    -- If the clock went back the count stays in force, but for no longer than one more window.
    if stop > after then stop, s.is_clamped = after, true end
    s.used, s.stop = used, stop
  end
end

--@ retry
local room = s.limit - s.cost
wait = room < 0 and -1 or s.used <= room and 0 or s.stop - s.now

--@ charge
if s.cost < s.most - s.used then s.used = s.used + s.cost elseif s.used < s.most then s.used = s.most end

--@ value
if s.used > 0 then
  local used = s.used
  local layout = used < 256 and '>BI7B' or used < 65536 and '>BI7I2' or used < 4294967296 and '>BI7I4' or '>BI7I7'
  packed, expires = pack(layout, 170, s.stop, used), s.stop
end

--@ fields
s.used, s.stop

--@ refund
-- Receipt: the end of the window that was charged. Later ones never saw the charge.
if unpack('<d', receipt) == s.stop and s.used > 0 then
  s.used, is_done = math.max(0, s.used - s.cost), true
end
