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

local function sliding_window_log_settle(arg, raw, now)
  local cost, limit, most, window = unpack('<dddd', arg, 21)
  local s = {
    now = now, cost = cost, limit = limit, most = most, window = window, raw = '',
    n = 0, first = 1, oldest = now, newest = -1, used = 0, next = 0, gap = 1, wide = 0, entry = -1, is_clamped = false,
  }
  if not raw then return s end
  local code = (byte(raw) or 0) - 192
  if code < 0 or #raw < 12 then return end
  local header, wide, gap = code % 4, (code - code % 4) / 4 % 4, (code - code % 16) / 16
  local h, w, g = header < 2 and header + 1 or 3 * header - 2, wide == 3 and 7 or wide, gap < 2 and gap + 1 or 3 * gap - 2
  local n = (#raw - 8 - 3 * h) / (g + w)
  if n < 1 or n % 1 > 0 then return end
  local layout = sub('>BI7I1I1I1>BI7I2I2I2>BI7I4I4I4>BI7I7I7I7', header * 10 + 1, header * 10 + 10)
  local _, newest, span, used, next = unpack(layout, raw)
  s.raw, s.n, s.first, s.oldest, s.newest, s.used, s.next = raw, n, 9 + 3 * h, newest - span, newest, used, next
  s.gap, s.wide = g, w
  s.layout = '>' .. sub('I1I2I4I7', 2 * gap + 1, 2 * gap + 2) .. (wide == 0 and '' or sub('I1I2I7', 2 * wide - 1, 2 * wide))
  if newest > now then sliding_window_log_clamp(s) end
  sliding_window_log_drop(s)
  return s
end

local function sliding_window_log_retry(s)
  local room, used = s.limit - s.cost, s.used
  if room < 0 then return -1 end
  if used <= room then return 0 end
  local i, at = s.first, s.oldest
  local size = s.gap + s.wide
  while true do
    local gap, units = sliding_window_log_entry(s, i)
    if i > s.first then at = at + gap end
    used = used - units
    if used <= room then return at + s.window - s.now end
    i = i + size
  end
end

local function sliding_window_log_charge(s)
  local units = s.cost
  if units > s.most - s.used then units = s.most > s.used and s.most - s.used or 0 end
  if units == 0 then return end
  local now = s.now
  if s.n == 0 then
    s.raw, s.first, s.oldest, s.newest, s.gap = '', 1, now, now, 1
    s.wide = units == 1 and 0 or units < 256 and 1 or units < 65536 and 2 or 7
  end
  local gap = now - s.newest
  if gap >= 256 ^ s.gap or (s.wide == 0 and units > 1) or (s.wide > 0 and units >= 256 ^ s.wide) then
    local at, cost = sliding_window_log_entries(s)
    at[s.n + 1], cost[s.n + 1] = now, units
    sliding_window_log_write(s, at, cost, s.n + 1)
  else
    local g, w = s.gap == 7 and 'I7' or s.gap == 4 and 'I4' or s.gap == 2 and 'I2' or 'I1', s.wide
    local entry
    if w == 0 then
      entry = pack('>' .. g, gap)
    else
      entry = pack('>' .. g .. (w == 1 and 'I1' or w == 2 and 'I2' or 'I7'), gap, units)
    end
    s.raw, s.first, s.n = sub(s.raw, s.first) .. entry, 1, s.n + 1
  end
  s.used, s.newest, s.entry, s.next = s.used + units, now, s.next, s.next + 1
end

local function sliding_window_log_value(s)
  if s.used == 0 then return end
  local span = s.newest - s.oldest
  local largest = max(span, s.used, s.next)
  local header = largest < 256 and 0 or largest < 65536 and 1 or largest < 4294967296 and 2 or 3
  local wide = s.wide == 7 and 3 or s.wide
  local gap = s.gap == 7 and 3 or s.gap == 4 and 2 or s.gap - 1
  local layout = sub('>BI7I1I1I1>BI7I2I2I2>BI7I4I4I4>BI7I7I7I7', header * 10 + 1, header * 10 + 10)
  local value = pack(layout, 192 + 16 * gap + 4 * wide + header, s.newest, span, s.used, s.next)
  return value .. sub(s.raw, s.first), s.newest + s.window
end

local function sliding_window_log_fields(s)
  return s.used, s.used > 0 and s.newest or -1, s.entry
end
--- refund
-- Takes units out of the entry that was charged, and the entry itself once it is empty. Receipt: its number, and when it was charged.
local function sliding_window_log_refund(s, receipt)
  local number, charged_at = unpack('<dd', receipt)
  local i = number - (s.next - s.n) + 1
  if charged_at + s.window <= s.now or i < 1 or i > s.n then return false end
  local at, cost = sliding_window_log_entries(s)
  local credit = min(s.cost, cost[i])
  if credit == 0 then return false end
  cost[i], s.used = cost[i] - credit, s.used - credit
  local last = s.n
  while last > 0 and cost[last] == 0 do last = last - 1 end
  for j = last + 1, s.n do at[j] = at[last] end
  if last > 0 then
    s.newest = at[last]
    sliding_window_log_write(s, at, cost, s.n)
  end
  return true
end
