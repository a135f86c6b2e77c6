-- Products of two whole numbers of up to 53 bits, as exact as the 128 bits of the Rust kernels.

-- What a * b is beyond `product`, its value rounded to a double: Dekker's product, in halves of 26 bits.
local function product_rest(a, b, product)
  local c = 134217729 * a
  local a_high = c - (c - a)
  local a_low = a - a_high
  c = 134217729 * b
  local b_high = c - (c - b)
  local b_low = b - b_high
  return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
end

-- Whether a * b > c * d. Rounding keeps the order, so only equal products above 2^53 need a second look.
local function product_above(a, b, c, d)
  local x, y = a * b, c * d
  if x ~= y or x < 9007199254740992 then return x > y end
  return product_rest(a, b, x) > product_rest(c, d, y)
end
