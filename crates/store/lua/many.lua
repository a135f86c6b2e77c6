-- Decides any number of quotas, and charges all that are to be charged or none. algorithms.md, section 2.1.
--
-- KEYS   the counters, in the order of the charges that have one
-- ARGV   one charge each: kind (1 byte; 0 is a quota that admits nothing and has no counter), flags (1 byte: 1 is in shadow, 2 stands for itself, 4 more
--        if an earlier charge has the same counter), number of the shadow (2), end of the quota (8, by the clock), min_interval (8), cost (8), then
--        the other arguments of its algorithm
-- Reply  the clock, then for each charge whose quota has not ended: the wait until it fits (0 is now, -1 never), what the algorithm reports and, if it
--        has a min_interval, how long no request is admitted because the last one is too near
--
-- Atomic because it is a script: the first pass reads all and writes nothing, the second writes. Where memory runs out, the first write fails and
-- nothing has happened; after it no other fails.
--@ script
local asked, count, is_allowed, shadows, opened = {}, 0, true, nil, nil
-- A check that asks for nothing, and a peek, write nothing.
local is_writing = VERB == 'debit'
local k = 0
for i = 1, #ARGV do
  local arg = ARGV[i]
  local kind, flags, number, ends, interval, cost = unpack('<BBI2ddd', arg)
  local base, part, wait, key, s = BASE, flags % 4, -1, nil, nil
  if kind > 0 then
    k = k + 1
    key = KEYS[k]
  end
  -- States of counters that are charged more than once have to be found again.
  if flags > 3 then opened = {} end
  if VERB == 'check' and cost > 0 then is_writing = true end
  if base < ends then
    count = count + 1
    if kind > 0 then
      local raw, last, trouble, packed, expires = call('GET', key), false, nil, nil, nil
      if raw and string.byte(raw) == 173 and #raw >= 8 then
        last, raw = unpack('>I7', raw, 2), #raw > 8 and string.sub(raw, 9)
      end
      EACH
      s = STATE
      SETTLE
      if not trouble then
        RETRY
      end
      END
      if trouble or not wait then return { err = trouble or FOREIGN } end
      if last then
        last = math.ceil(last / (s.scale or 1))
        -- A gap that began in the future began now: the clock went back.
        if last > s.now then last, s.is_clamped = s.now, true end
        local gap = last + interval - s.now
        if gap > wait and wait >= 0 then wait = gap end
        if gap <= 0 then
          EACH
          VALUE
          END
          -- It is forgotten with the rest.
          if not packed or expires <= base then last = false end
        end
      end
      s.kind, s.key, s.base, s.part, s.number, s.interval, s.last, s.wait = kind, key, base, part, number, interval, last, wait
    else
      s = { kind = 0, wait = -1 }
    end
    asked[count] = s
    if wait ~= 0 then
      if part == 0 then
        is_allowed = false
      elseif part == 1 then
        shadows = shadows or {}
        shadows[number] = true
      end
    end
  end
end

local reply, n = { clock, 0, 0, 0, 0, 0, 0, 0, 0, 0 }, 1
for i = 1, count do
  local s = asked[i]
  local kind, key, base, interval, last, wait, part = s.kind, s.key, s.base, s.interval, s.last, s.wait, s.part
  if kind == 0 then
    reply[n + 1] = wait
    n = n + 1
  else
    local is_charged, packed, expires = false, nil, nil
    if VERB == 'check' then
      is_charged = s.cost > 0 and (part == 2 or is_allowed and not (part == 1 and shadows and shadows[s.number]))
    elseif VERB == 'debit' then
      -- Slots cannot be owed.
      is_charged = s.cost > 0 and kind ~= 8
    end
    if opened then
      local earlier = opened[key]
      if earlier then
        earlier.cost, earlier.id, earlier.delay = s.cost, s.id, s.delay
        s, last = earlier, earlier.last
      end
      opened[key] = s
    end
    EACH
    if is_charged then
      CHARGE
    end
    if is_charged or s.is_clamped and is_writing then
      VALUE
    end
    REPLY
    END
    if interval > 0 and VERB == 'check' and is_charged then
      last, s.last = s.now, s.now
    end
    if is_charged or s.is_clamped and is_writing then
      if last then
        local scale = s.scale or 1
        packed, expires = pack('>BI7', 173, last * scale) .. (packed or ''), math.max(expires or 0, (last + interval) * scale)
      end
      WRITE
    end
    if interval > 0 then
      n = n + 1
      reply[n] = last and math.max(0, last + interval - s.now) or 0
    end
  end
end
-- A reply ends where there is nothing.
reply[n + 1] = nil
return reply
