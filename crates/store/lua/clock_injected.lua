-- The clock of tests, sent with each charge: nanoseconds, or microseconds as in production.
--@ read
local clock = unpack('<d', ARGV[1], #ARGV[1] - 7)

-- The server's clock runs on meanwhile, so values live an hour longer.
--@ write
if not packed or expires <= base then
  call('DEL', key)
else
  call('SET', key, packed, 'PX', string.format('%d', math.ceil((expires - base) / MILLISECOND) + 1 + 3600000))
end
