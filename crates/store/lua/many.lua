-- Decides any number of quotas, and charges all that are to be charged or none. algorithms.md, section 2.1.
--
-- KEYS   the counters, in the order of the charges that have one
-- ARGV   one charge each: kind (1 byte; 0 is a quota that admits nothing and has no counter), flags (1: in shadow, 2: stands for itself, 4: its counter
--        is that of an earlier charge too), number of the shadow (2), end of the quota (8, in microseconds), min_interval (8), cost (8), then the other
--        arguments of its algorithm
-- Reply  the clock, then for each charge whose quota has not ended: the wait until it fits (0 is now, -1 never), three numbers that the algorithm
--        reports, and how long no request is admitted because the last one is too near
--
-- Atomic because it is a script: the first pass reads all and writes nothing, the second writes. Where memory runs out, the first write fails and
-- nothing has happened; after it no other fails.

local states, lasts, waits = {}, {}, {}
local is_allowed, shadows = true, nil
-- A check that asks for nothing, and a peek, write nothing.
local is_writing = verb == 'debit'

-- The state of a counter, and when a request was last admitted.
local function open(kind, arg, raw, base, interval)
  local last = nil
  if raw and byte(raw) == 173 and #raw >= 8 then
    last, raw = unpack('>I7', raw, 2), #raw > 8 and sub(raw, 9)
  end
  local s, trouble = settle(kind, arg, raw, base)
  if not s then return nil, trouble end
  if last then
    last = ceil(last / (s.scale or 1))
    -- A gap that began in the future began now: the clock went back.
    if last > s.now then last, s.is_clamped = s.now, true end
    -- It is forgotten with the rest.
    if last + interval <= s.now then
      local packed, expires = value(kind, s)
      if not packed or expires <= base then last = nil end
    end
  end
  return s, last
end

local k = 0
for i = 1, #ARGV do
  local arg = ARGV[i]
  local kind, flags, number, ends, interval, cost = unpack('<BBI2ddd', arg)
  local base = BASE
  if kind > 0 then k = k + 1 end
  if cost > 0 and verb == 'check' then is_writing = true end
  if base < ends then
    local wait = -1
    if kind > 0 then
      local s, last = open(kind, arg, call('GET', KEYS[k]), base, interval)
      if not s then return { err = last or 'TGFOREIGN a value that is not a counter of this kind' } end
      wait = retry(kind, s)
      if last and wait >= 0 then wait = max(wait, last + interval - s.now) end
      states[i], lasts[i] = s, last
    end
    waits[i] = wait
    if wait ~= 0 then
      local part = flags % 4
      if part == 0 then
        is_allowed = false
      elseif part == 1 then
        shadows = shadows or {}
        shadows[number] = true
      end
    end
  end
end

local reply, n = { clock }, 1
k = 0
for i = 1, #ARGV do
  local arg = ARGV[i]
  local kind, flags, number, ends, interval, cost = unpack('<BBI2ddd', arg)
  if kind > 0 then k = k + 1 end
  if waits[i] then
    local s, last, a, b, c, gap = states[i], lasts[i], 0, 0, 0, 0
    if s then
      local base, part, is_charged = BASE, flags % 4, false
      if flags >= 4 then
        local delay = s.delay
        s, last = open(kind, arg, call('GET', KEYS[k]), base, interval)
        s.delay = delay
      end
      if verb == 'check' and cost > 0 then
        is_charged = part == 2 or is_allowed and not (part == 1 and shadows and shadows[number])
        if is_charged and interval > 0 then last = s.now end
      elseif verb == 'debit' then
        -- Slots cannot be owed.
        is_charged = cost > 0 and kind ~= 8
      end
      if is_charged then charge(kind, s) end
      if is_charged or s.is_clamped and is_writing then
        local packed, expires = value(kind, s)
        if last then
          local scale = s.scale or 1
          packed, expires = pack('>BI7', 173, last * scale) .. (packed or ''), max(expires or 0, (last + interval) * scale)
        end
        write(KEYS[k], packed, expires, base)
      end
      if last then gap = max(0, last + interval - s.now) end
      a, b, c = fields(kind, s)
    end
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = waits[i], a, b, c or 0, gap
    n = n + 5
  end
end
return reply
