-- The clock: the server's, in microseconds, read once. No clock of a client decides anything.
local time = call('TIME')
local clock = time[1] * 1000000 + time[2]

-- Sets a value that may be forgotten at `expires`, both in one command. Rounded up and a millisecond later: a value that lives too long
-- changes nothing, for from `expires` on it answers like none.
local function write(key, value, expires, now)
  if not value or expires <= now then
    call('DEL', key)
  else
    call('SET', key, value, 'PX', format('%d', ceil((expires - now) / MILLISECOND) + 1))
  end
end
