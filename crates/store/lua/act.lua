-- Gives back what still counts of a charge, or extends or gives back a lease. algorithms.md, sections 1.0 and 1.8.
--
-- KEYS   the counter
-- ARGV   the charge as for a check, with the units that are given back as its cost; for a refund also the receipt, as the algorithm says
-- Reply  the clock, and 1 if there was something to give back or to extend, else 0
--
-- Atomic because it is a script. A counter at full credit is deleted.
--@ script
local key, arg, receipt, base = KEYS[1], ARGV[1], ARGV[2], clock
local raw, trouble, last, packed, expires = call('GET', key)
if not raw then return { clock, 0 } end
local interval, is_done = unpack('<d', arg, 13), false
if string.byte(raw) == 173 and #raw >= 8 then
  last, raw = unpack('>I7', raw, 2), #raw > 8 and string.sub(raw, 9)
end
STATE
SETTLE
if trouble then return { err = trouble } end
local scale = s.scale or 1
if last then
  last = math.ceil(last / scale)
  -- A gap that began in the future began now: the clock went back.
  if last > s.now then last, s.is_clamped = s.now, true end
  if last + interval <= s.now then
    VALUE
    -- It is forgotten with the rest.
    if not packed or expires <= base then last = nil end
    packed, expires = nil, nil
  end
end
ACT
if is_done or s.is_clamped then
  VALUE
  if last then
    packed, expires = pack('>BI7', 173, last * scale) .. (packed or ''), math.max(expires or 0, (last + interval) * scale)
  end
  WRITE
end
return { clock, is_done and 1 or 0 }
