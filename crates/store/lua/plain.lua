-- Decides a few quotas that are all enforced, and charges all or none: what nearly all requests need. algorithms.md, sections 1 and 2.1.
--
-- KEYS   the counters, no two the same
-- ARGV   one charge each: 20 bytes that are of interest to many.lua only, then the arguments of its algorithm
-- Reply  the clock, then for each charge: the wait until it fits (0 is now, -1 never), and what the algorithm reports
--
-- Atomic because it is a script: all counters are read before one is written. Nothing is written when the request is denied, unless the clock went
-- back. It is written out for each charge, so that their states are locals and not tables.
--@ begin
local is_allowed, key, arg, base, raw, trouble, wait, packed, expires = true

-- Several values with one command. It does not tell a counter that is absent from a key that holds no text: a foreign one.
--@ values
local values, found = call('MGET', spread(KEYS)), 0
for i = 1, #KEYS do
  if values[i] then found = found + 1 end
end
if found < #KEYS and call('EXISTS', spread(KEYS)) > found then return { err = FOREIGN } end

--@ look
arg, wait = ARGV[INDEX], nil
base = BASE
READ
SETTLE
if trouble and raw and string.byte(raw) == 173 and #raw >= 8 then
  -- The quota had a min_interval before, and may have one again.
  trouble, s.last = nil, unpack('>I7', raw, 2)
  raw = #raw > 8 and string.sub(raw, 9)
  SETTLE
  if s.last > base then s.last, s.is_clamped = base, true end
  VALUE
  -- It is forgotten with the rest.
  if not packed or expires <= base then s.last = nil end
  packed, expires = nil, nil
end
if trouble then return { err = trouble } end
RETRY
if not wait then return { err = FOREIGN } end
if wait ~= 0 then is_allowed = false end
s.wait = wait

--@ charge
if ALLOWED then
  CHARGE
end
if ALLOWED or s.is_clamped then
  key, arg, packed, expires = KEYS[INDEX], ARGV[INDEX], nil, nil
  base = BASE
  VALUE
  if s.last then packed, expires = pack('>BI7', 173, s.last) .. (packed or ''), math.max(expires or 0, s.last) end
  WRITE
end
