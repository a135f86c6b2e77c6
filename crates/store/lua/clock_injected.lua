-- The clock of tests, sent with each charge: nanoseconds, or microseconds as in production. The server's clock runs on meanwhile, so values live an hour longer.
local clock = unpack('<d', ARGV[1], #ARGV[1] - 7)

local function write(key, value, expires, now)
  if not value or expires <= now then
    call('DEL', key)
  else
    call('SET', key, value, 'PX', format('%d', ceil((expires - now) / MILLISECOND) + 1 + 3600000))
  end
end
