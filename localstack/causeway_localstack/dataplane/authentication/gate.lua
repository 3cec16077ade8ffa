-- Asks the gate about a request: it goes on, or the client gets the gate's answer.
-- The arguments are the gate's address and the key of the rule's configuration; for the way back from a provider "back".

local OURS = "^x%-amzn%-oidc%-"

local function ask(txn, address, key)
    local asked = {
        ["x-method"] = {txn.sf:method()},
        ["x-host"] = {txn.sf:req_fhdr("host") or ""},
        ["x-url"] = {txn.f:pathq()},
        ["x-frontend"] = {txn.f:fe_name()},
    }
    local headers = txn.http:req_get_headers()
    for _, name in ipairs({"cookie", "authorization"}) do
        asked[name] = {}
        for at, value in pairs(headers[name] or {}) do
            asked[name][at + 1] = value
        end
    end
    local client = core.httpclient()
    return client:get{url = "http://" .. address .. "/" .. key, headers = asked, timeout = 30000}
end

local function answer(txn, said)
    local reply = txn:reply()
    reply:set_status(said.status)
    for name, values in pairs(said.headers) do
        if name == "location" or name == "set-cookie" or name == "content-type" or name == "www-authenticate" then
            for _, value in pairs(values) do
                reply:add_header(name, value)
            end
        end
    end
    reply:set_body(said.body or "")
    txn:done(reply)
end

core.register_action("authenticate", {"http-req"}, function(txn, address, key)
    local said = ask(txn, address, key)
    if not said or not said.status or said.status == 0 then
        answer(txn, {status = 500, headers = {}, body = "The gate of the local data plane does not answer.\n"})
        return
    end
    if not said.headers["x-pass"] then
        answer(txn, said)
        return
    end
    -- Identity headers of a client are not trusted.
    for name, _ in pairs(txn.http:req_get_headers()) do
        if name:find(OURS) then
            txn.http:req_del_header(name)
        end
    end
    for name, values in pairs(said.headers) do
        if name:find(OURS) then
            txn.http:req_set_header(name, values[0])
        end
    end
    for at, value in pairs(said.headers["set-cookie"] or {}) do
        txn:set_var("txn.cookie_" .. at, value)
    end
end, 2)
