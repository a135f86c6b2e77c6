-- Decides one quota and charges it if there is room: what most requests need. algorithms.md, section 1.
--
-- KEYS   the counter
-- ARGV   the charge: 20 bytes that are of interest with several charges only, then the arguments of its algorithm
-- Reply  the clock, the wait until it fits (0 is now, -1 never), then what the algorithm reports
--
-- Atomic because it is a script. Nothing is written when the request is denied, unless the clock went back.
--@ script
local key, arg, base = KEYS[1], ARGV[1], clock
local raw, trouble, last, wait, packed, expires = call('GET', key)
STATE
SETTLE
if trouble and raw and string.byte(raw) == 173 and #raw >= 8 then
  -- The quota had a min_interval before, and may have one again.
  trouble, last = nil, unpack('>I7', raw, 2)
  raw = #raw > 8 and string.sub(raw, 9)
  SETTLE
  if last > clock then last, s.is_clamped = clock, true end
  VALUE
  -- It is forgotten with the rest.
  if not packed or expires <= clock then last = nil end
  packed, expires = nil, nil
end
if trouble then return { err = trouble } end
RETRY
if not wait then return { err = FOREIGN } end
if wait == 0 then
  CHARGE
end
if wait == 0 or s.is_clamped then
  VALUE
  if last then packed, expires = pack('>BI7', 173, last) .. (packed or ''), math.max(expires or 0, last) end
  WRITE
end
return { clock, wait, FIELDS }
