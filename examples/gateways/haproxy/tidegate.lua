-- Asks Tidegate whether a request may go on, and leaves the answer in variables of the transaction:
--
--   txn.tidegate_decision      allow, deny, or away when nobody answered
--   txn.tidegate_ratelimit     the header RateLimit
--   txn.tidegate_policy        the header RateLimit-Policy
--   txn.tidegate_retry_after   the header Retry-After
--   txn.tidegate_body          the body of a denial

local ADDRESS = "http://127.0.0.1:8080/api/v1/rate-limit/forward-auth"
local PATIENCE_MS = 250

-- What Tidegate is told beside X-Forwarded-*.
local TOLD = { "x-api-key" }

local function first(headers, name)
    local values = headers[name]
    return values and values[0]
end

-- A variable that would be empty is not set, so that the configuration can ask whether it was found.
local function leave(txn, name, value)
    if value then
        txn:set_var("txn.tidegate_" .. name, value)
    end
end

core.register_action("tidegate", { "http-req" }, function(txn)
    local asked = txn.http:req_get_headers()
    local headers = {
        ["x-forwarded-method"] = { txn.sf:method() },
        ["x-forwarded-uri"] = { txn.sf:pathq() },
        ["x-forwarded-host"] = { first(asked, "host") or "" },
        -- The address of the connection only: what a client writes itself is not passed on.
        ["x-forwarded-for"] = { txn.sf:src() },
    }
    for _, name in ipairs(TOLD) do
        local value = first(asked, name)
        if value then
            headers[name] = { value }
        end
    end

    local answer = core.httpclient():get({ url = ADDRESS, headers = headers, timeout = PATIENCE_MS })
    local told = answer.headers or {}
    leave(txn, "ratelimit", first(told, "ratelimit"))
    leave(txn, "policy", first(told, "ratelimit-policy"))
    if answer.status == 200 then
        leave(txn, "decision", "allow")
    elseif answer.status == 429 then
        leave(txn, "decision", "deny")
        leave(txn, "retry_after", first(told, "retry-after"))
        leave(txn, "body", answer.body)
    else
        leave(txn, "decision", "away")
    end
end, 0)
