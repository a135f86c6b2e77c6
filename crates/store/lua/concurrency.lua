-- concurrency: never more than limit units in flight. algorithms.md, section 1.8.
--
-- Arguments  cost, limit, ttl, then the id of the lease (16 bytes) unless nothing can be taken
-- Reply      used, when the last lease expires (0 without one)
-- Value      172, then for each lease, first to expire first: expiry (7 bytes), id        where every lease has a weight of 1
--            156, used (7 bytes), then for each lease: expiry, weight (7 bytes), id       otherwise
--
-- There may be many leases, so only those are looked at that have expired or are asked for.

--@ functions
-- Where a lease is; nothing if it is gone.
local function find_lease(s)
  local raw, size = s.raw, s.size
  if #s.id < 16 then return end
  local position = 1
  while true do
    position = string.find(raw, s.id, position, true)
    if not position then return end
    -- An id ends where its lease does; elsewhere the bytes only look like it.
    if (position + 15) % size == 0 then return position + 16 - size end
    position = position + 1
  end
end

local function weight_of(s, position)
  if s.size == 23 then return 1 end
  return unpack('>I7', s.raw, position + 7)
end

local function remove_lease(s, position)
  s.raw = string.sub(s.raw, 1, position - 1) .. string.sub(s.raw, position + s.size)
end

-- Puts a lease where its expiry belongs: mostly at the end.
local function insert_lease(s, weight)
  if weight ~= 1 and s.size == 23 then
    local leases = {}
    for position = 1, #s.raw, 23 do
      leases[#leases + 1] = string.sub(s.raw, position, position + 6) .. '\0\0\0\0\0\0\1' .. string.sub(s.raw, position + 7, position + 22)
    end
    s.raw, s.size = table.concat(leases), 30
  end
  local expires = s.now + s.ttl
  local lease = s.size == 23 and pack('>I7', expires) .. s.id or pack('>I7I7', expires, weight) .. s.id
  local last = #s.raw
  while last > 0 and unpack('>I7', s.raw, last - s.size + 1) > expires do last = last - s.size end
  s.raw = string.sub(s.raw, 1, last) .. lease .. string.sub(s.raw, last + 1)
end

-- Extends a lease, which keeps its weight; false when it is gone.
local function renew_lease(s)
  local position = find_lease(s)
  if not position then return false end
  local weight = weight_of(s, position)
  remove_lease(s, position)
  insert_lease(s, weight)
  return true
end

--@ settle
s.cost, s.limit, s.ttl = unpack('<ddd', arg, 21)
s.now, s.id, s.raw, s.size, s.used, s.is_clamped = base, string.sub(arg, 45, 60), '', 23, 0, false
if raw then
  local kind, first = string.byte(raw), 2
  if kind == 156 and #raw > 37 then s.used, s.size, first = unpack('>I7', raw, 2), 30, 9 end
  local n = (#raw - first + 1) / s.size
  if kind ~= 172 and s.size == 23 or n < 1 or n % 1 > 0 or unpack('>I7', raw, #raw - s.size + 1) > 9007199254740992 then
    trouble = FOREIGN
  else
    if s.size == 23 then s.used = n end
    while first < #raw and unpack('>I7', raw, first) <= base do
      s.used = s.used - (s.size == 23 and 1 or unpack('>I7', raw, first + 7))
      first = first + s.size
    end
    s.raw = string.sub(raw, first)
  end
end

--@ retry
local room = s.limit - s.cost
if room >= 0 and find_lease(s) then
  wait = 0
elseif room < 0 or s.limit == 0 then
  wait = -1
elseif s.used <= room then
  wait = 0
else
  -- An upper estimate: until enough leases have expired, if nobody renews or releases.
  local used, position = s.used, 1
  wait = nil
  while not wait and position <= #s.raw do
    used = used - weight_of(s, position)
    if used <= room then wait = unpack('>I7', s.raw, position) - s.now end
    position = position + s.size
  end
end

--@ charge
if #s.id == 16 and not renew_lease(s) then
  insert_lease(s, s.cost)
  s.used = s.used + s.cost
end

--@ value
local raw = s.raw
if #raw > 0 then
  expires = unpack('>I7', raw, #raw - s.size + 1)
  packed = s.size == 23 and '\172' .. raw or pack('>BI7', 156, s.used) .. raw
end

--@ fields
s.used, #s.raw > 0 and unpack('>I7', s.raw, #s.raw - s.size + 1) or 0

--@ renew
is_done = renew_lease(s)

--@ release
local position = find_lease(s)
if position then
  s.used, is_done = s.used - weight_of(s, position), true
  remove_lease(s, position)
end
