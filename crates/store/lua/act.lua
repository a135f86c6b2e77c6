-- Gives back what still counts of a charge, or extends or gives back a lease. algorithms.md, sections 1.0 and 1.8.
--
-- KEYS   the counter
-- ARGV   the charge as for a check, with the units that are given back as its cost; for a refund also the receipt, as the algorithm says
-- Reply  the clock, and 1 if there was something to give back or to extend, else 0
--
-- Atomic because it is a script. A counter at full credit is deleted.

local key, arg = KEYS[1], ARGV[1]
local raw, last = call('GET', key), nil
if not raw then return { clock, 0 } end
if byte(raw) == 173 and #raw >= 8 then
  last, raw = unpack('>I7', raw, 2), #raw > 8 and sub(raw, 9)
end
local s, trouble = settle(arg, raw, clock)
if not s then return { err = trouble or 'TGFOREIGN a value that is not a counter of this kind' } end
local scale = s.scale or 1
if last then
  last = ceil(last / scale)
  if last > s.now then last, s.is_clamped = s.now, true end
  -- It is forgotten with the rest.
  local packed, expires = value(s)
  if last + unpack('<d', arg, 13) <= s.now and (not packed or expires <= clock) then last = nil end
end
local is_done = act(s, ARGV[2])
if is_done or s.is_clamped then
  local packed, expires = value(s)
  if last then
    local interval = unpack('<d', arg, 13)
    packed, expires = pack('>BI7', 173, last * scale) .. (packed or ''), max(expires or 0, (last + interval) * scale)
  end
  write(key, packed, expires, clock)
end
return { clock, is_done and 1 or 0 }
