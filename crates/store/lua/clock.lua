-- The clock: the server's, in microseconds, read once. No clock of a client decides anything.
--@ read
local time = call('TIME')
local clock = time[1] * 1000000 + time[2]

-- Sets a value that may be forgotten at `expires`, and for how long, in one command. Rounded up and a millisecond later: a value that lives
-- too long changes nothing, for from `expires` on it answers like none. A number that is given to a command is printed with 17 digits, which
-- takes twice as long as this.
--@ write
if not packed or expires <= base then
  call('DEL', key)
else
  call('SET', key, packed, 'PX', string.format('%d', math.ceil((expires - base) / MILLISECOND) + 1))
end
