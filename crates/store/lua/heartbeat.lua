-- heartbeat: says that an instance lives, and answers who else does.
--
-- Instances divide a quota among themselves while the store is away, so each has to know how many there are (algorithms.md, section 5.3).
--
-- KEYS[1]  a sorted set: instance -> when it was last heard, in milliseconds of the server's clock
-- ARGV[1]  the instance
-- ARGV[2]  after how many milliseconds of silence an instance is taken for dead
-- reply    the server's time in microseconds as text, then the living instances, at most 4096

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local silence = tonumber(ARGV[2])
redis.call('ZADD', KEYS[1], now, ARGV[1])
-- What was heard in the future comes from a clock that was set back.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. string.format('%.0f', now - silence))
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. string.format('%.0f', now + silence), '+inf')
redis.call('PEXPIRE', KEYS[1], silence * 10)
local alive = redis.call('ZREVRANGE', KEYS[1], 0, 4095)
table.insert(alive, 1, string.format('%.0f', time[1] * 1000000 + time[2]))
return alive
