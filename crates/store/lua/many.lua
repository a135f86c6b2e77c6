-- Decides any number of quotas, and charges all that are to be charged or none. algorithms.md, section 2.1.
--
-- KEYS   the counters, in the order of the charges that have one
-- ARGV   one charge each: kind (1 byte; 0 is a quota that admits nothing and has no counter), flags (1 byte: 1 is in shadow, 2 stands for itself, 4 more
--        if an earlier charge has the same counter), number of the shadow (2), end of the quota (8, by the clock), min_interval (8), cost (8), then
--        the other arguments of its algorithm
-- Reply  the clock, then for each charge whose quota has not ended: the wait until it fits (0 is now, -1 never), three numbers that the algorithm
--        reports, and how long no request is admitted because the last one is too near
--
-- Atomic because it is a script: the first pass reads all and writes nothing, the second writes. Where memory runs out, the first write fails and
-- nothing has happened; after it no other fails.
--@ script
local states, lasts, waits = {}, {}, {}
local is_allowed, shadows = true, nil
-- The states of counters that are charged more than once, by their keys.
local opened = nil
-- A check that asks for nothing, and a peek, write nothing.
local is_writing = VERB == 'debit'
local k = 0
for i = 1, #ARGV do
  local arg = ARGV[i]
  local kind, flags, number, ends, interval, cost = unpack('<BBI2ddd', arg)
  local base, wait = BASE, -1
  if kind > 0 then k = k + 1 end
  if VERB == 'check' and cost > 0 then is_writing = true end
  if flags >= 4 then opened = {} end
  if base < ends then
    if kind > 0 then
      local raw, s, trouble, last, packed, expires = call('GET', KEYS[k])
      if raw and string.byte(raw) == 173 and #raw >= 8 then
        last, raw = unpack('>I7', raw, 2), #raw > 8 and string.sub(raw, 9)
      end
      EACH STATE SETTLE
      if trouble then return { err = trouble } end
      EACH RETRY
      if not wait then return { err = FOREIGN } end
      if last then
        local scale = s.scale or 1
        last = math.ceil(last / scale)
        -- A gap that began in the future began now: the clock went back.
        if last > s.now then last, s.is_clamped = s.now, true end
        local gap = last + interval - s.now
        if gap <= 0 then
          EACH VALUE
          -- It is forgotten with the rest.
          if not packed or expires <= base then last = nil end
        elseif wait >= 0 and gap > wait then
          wait = gap
        end
      end
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
  local arg, wait, s, last = ARGV[i], waits[i], states[i], lasts[i]
  local kind, flags, number, ends, interval, cost = unpack('<BBI2ddd', arg)
  if kind > 0 then k = k + 1 end
  if wait then
    local a, b, c, gap = 0, 0, 0, 0
    if s then
      local key, base, part, is_charged, packed, expires = KEYS[k], BASE, flags % 4, false, nil, nil
      if opened then
        local earlier = opened[key]
        if earlier then
          earlier.cost, earlier.id, earlier.delay = s.cost, s.id, s.delay
          s, last = earlier, earlier.last
        end
        opened[key] = s
      end
      if VERB == 'check' then
        is_charged = cost > 0 and (part == 2 or is_allowed and not (part == 1 and shadows and shadows[number]))
        if is_charged and interval > 0 then last = s.now end
      elseif VERB == 'debit' then
        -- Slots cannot be owed.
        is_charged = cost > 0 and kind ~= 8
      end
      if is_charged then
        EACH CHARGE
      end
      if is_charged or s.is_clamped and is_writing then
        EACH VALUE
        if last then
          local scale = s.scale or 1
          packed, expires = pack('>BI7', 173, last * scale) .. (packed or ''), math.max(expires or 0, (last + interval) * scale)
        end
        WRITE
      end
      if last then gap = math.max(0, last + interval - s.now) end
      if opened then s.last = last end
      EACH FIELDS
    end
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = wait, a, b, c or 0, gap
    n = n + 5
  end
end
return reply
