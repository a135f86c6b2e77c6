-- Decides one quota and charges it if there is room: what most requests need. algorithms.md, section 1.
--
-- KEYS   the counter
-- ARGV   the charge: 20 bytes that are of interest with several charges only, then the arguments of its algorithm
-- Reply  the clock, the wait until it fits (0 is now, -1 never), then what the algorithm reports
--
-- Atomic because it is a script. Nothing is written when the request is denied, unless the clock went back.

local key, arg = KEYS[1], ARGV[1]
local raw, last = call('GET', key), nil
local s, trouble = settle(arg, raw, clock)
if not s and not trouble and byte(raw) == 173 and #raw >= 8 then
  -- The quota had a min_interval before, and may have one again.
  last = unpack('>I7', raw, 2)
  s, trouble = settle(arg, #raw > 8 and sub(raw, 9), clock)
  if s then
    if last > clock then last, s.is_clamped = clock, true end
    -- It is forgotten with the rest.
    local packed, expires = value(s)
    if not packed or expires <= clock then last = nil end
  end
end
if not s then return { err = trouble or 'TGFOREIGN a value that is not a counter of this kind' } end
local wait = retry(s)
if wait == 0 then charge(s) end
if wait == 0 or s.is_clamped then
  local packed, expires = value(s)
  if last then packed, expires = pack('>BI7', 173, last) .. (packed or ''), max(expires or 0, last) end
  write(key, packed, expires, clock)
end
return { clock, wait, fields(s) }
