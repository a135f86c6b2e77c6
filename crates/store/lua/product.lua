-- Products of two whole numbers of up to 53 bits, as exact as the 128 bits of the Rust kernels.
--
-- `above(a, b, c, d)` is whether a * b > c * d. Rounding keeps the order, so only equal products need this look at what they were rounded by: Dekker's
-- product, in halves of 26 bits.

--@ above
local function above(a, b, c, d)
  local function rest(x, y, product)
    local t = 134217729 * x
    local x_high = t - (t - x)
    local x_low = x - x_high
    t = 134217729 * y
    local y_high = t - (t - y)
    local y_low = y - y_high
    return ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
  end
  local one, other = a * b, c * d
  if one ~= other then return one > other end
  return rest(a, b, one) > rest(c, d, other)
end
