-- concurrency: never more than limit units in flight. algorithms.md, section 1.8.
--
-- Arguments  cost, limit, ttl, then the id of the lease (16 bytes) unless nothing can be taken
-- Reply      used, when the last lease expires (0 without one)
-- Value      172, then for each lease, first to expire first: expiry (7 bytes), id        where every lease has a weight of 1
--            156, used (7 bytes), then for each lease: expiry, weight (7 bytes), id       otherwise
--
-- There may be many leases, so only those are looked at that have expired or are asked for.

local function concurrency_settle(arg, raw, now)
  local cost, limit, ttl = unpack('<ddd', arg, 21)
  local s = {
    now = now, cost = cost, limit = limit, ttl = ttl, id = sub(arg, 45, 60),
    raw = '', size = 23, used = 0, is_clamped = false, is_changed = false,
  }
  if not raw then return s end
  local kind, first = byte(raw), 2
  if kind == 156 and #raw > 37 then
    s.used, s.size, first = unpack('>I7', raw, 2), 30, 9
  elseif kind ~= 172 or #raw < 24 then
    return
  end
  local size = s.size
  local n = (#raw - first + 1) / size
  if n % 1 > 0 then return end
  if size == 23 then s.used = n end
  while first < #raw and unpack('>I7', raw, first) <= now do
    s.used = s.used - (size == 23 and 1 or unpack('>I7', raw, first + 7))
    first = first + size
  end
  s.raw = sub(raw, first)
  return s
end

-- Where a lease is; nothing if it is gone.
local function concurrency_find(s)
  local raw, size = s.raw, s.size
  if #s.id < 16 then return end
  local position = 1
  while true do
    position = find(raw, s.id, position, true)
    if not position then return end
    -- An id ends where its lease does; elsewhere the bytes only look like it.
    if (position + 15) % size == 0 then return position + 16 - size end
    position = position + 1
  end
end

local function concurrency_weight(s, position)
  if s.size == 23 then return 1 end
  return unpack('>I7', s.raw, position + 7)
end

local function concurrency_retry(s)
  local room = s.limit - s.cost
  if room >= 0 and concurrency_find(s) then return 0 end
  if room < 0 or s.limit == 0 then return -1 end
  local used, position = s.used, 1
  if used <= room then return 0 end
  while true do
    used = used - concurrency_weight(s, position)
    if used <= room then return unpack('>I7', s.raw, position) - s.now end
    position = position + s.size
  end
end

local function concurrency_remove(s, position)
  s.raw, s.is_changed = sub(s.raw, 1, position - 1) .. sub(s.raw, position + s.size), true
end

-- Puts a lease where its expiry belongs: mostly at the end.
local function concurrency_insert(s, weight)
  if weight ~= 1 and s.size == 23 then
    local leases = {}
    for position = 1, #s.raw, 23 do
      leases[#leases + 1] = sub(s.raw, position, position + 6) .. '\0\0\0\0\0\0\1' .. sub(s.raw, position + 7, position + 22)
    end
    s.raw, s.size = table.concat(leases), 30
  end
  local expires = s.now + s.ttl
  local lease = s.size == 23 and pack('>I7', expires) .. s.id or pack('>I7I7', expires, weight) .. s.id
  local last = #s.raw
  while last > 0 and unpack('>I7', s.raw, last - s.size + 1) > expires do last = last - s.size end
  s.raw, s.is_changed = sub(s.raw, 1, last) .. lease .. sub(s.raw, last + 1), true
end

-- Extends a lease, which keeps its weight; false when it is gone.
local function concurrency_renew(s)
  local position = concurrency_find(s)
  if not position then return false end
  local weight = concurrency_weight(s, position)
  concurrency_remove(s, position)
  concurrency_insert(s, weight)
  return true
end

local function concurrency_charge(s)
  if #s.id < 16 or concurrency_renew(s) then return end
  concurrency_insert(s, s.cost)
  s.used = s.used + s.cost
end

local function concurrency_value(s)
  local raw = s.raw
  if #raw == 0 then return end
  local expires = unpack('>I7', raw, #raw - s.size + 1)
  if s.size == 23 then return '\172' .. raw, expires end
  return pack('>BI7', 156, s.used) .. raw, expires
end

local function concurrency_fields(s)
  local raw = s.raw
  return s.used, #raw > 0 and unpack('>I7', raw, #raw - s.size + 1) or 0
end
--- refund
-- Gives the slots back; false when the lease was gone already.
local function concurrency_release(s)
  local position = concurrency_find(s)
  if not position then return false end
  s.used = s.used - concurrency_weight(s, position)
  concurrency_remove(s, position)
  return true
end
