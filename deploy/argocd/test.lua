-- The health of objects in every state: `lua5.1 test.lua` in this folder. Argo CD's own Lua is version 5.1, too.
local script = assert(loadstring("local obj = ...\n" .. assert(io.open("health.lua")):read("*a")))

local function object(spec, conditions)
  return { metadata = { generation = 2 }, spec = spec, status = { conditions = conditions } }
end
local function condition(kind, status, message)
  return { type = kind, status = status, message = message, observedGeneration = 2 }
end
local function phase(name)
  return { metadata = { generation = 1 }, spec = {}, status = { phase = name, message = "see" } }
end
local ready = condition("Ready", "True", "it serves")
local older = { type = "Ready", status = "True", message = "it served", observedGeneration = 1 }
local unseen = "the operator has not looked at it yet"

local cases = {
  { "no status", { metadata = { generation = 1 }, spec = {} }, "Progressing", unseen },
  { "an earlier generation", object({}, { older }), "Progressing", unseen },
  { "ready", object({}, { ready }), "Healthy", "it serves" },
  { "on its way", object({}, { condition("Ready", "False", "2 of 3 members answer") }), "Progressing", "2 of 3 members answer" },
  { "stalled", object({}, { condition("Ready", "False", "no"), condition("Stalled", "True", "no quorum") }), "Degraded", "no quorum" },
  { "without backups", object({}, { ready, condition("BackupOverdue", "True", "cache has none") }), "Degraded", "cache has none" },
  { "no backup was due yet", object({}, { ready, condition("Restorable", "False", "there is no backup yet") }), "Healthy", "there is no backup yet" },
  { "backups came", object({}, { ready, condition("BackupOverdue", "False", "all came") }), "Healthy", "it serves" },
  { "backups are not signed", object({}, { ready, condition("UnsignedBackups", "True", "no rights") }), "Degraded", "no rights" },
  { "a node holds all pods", object({}, { ready, condition("NodeFailureRisk", "True", "all are on node-1") }), "Healthy", "it serves" },
  { "suspended", object({ suspend = true }, { ready }), "Suspended", "spec.suspend: the operator leaves it as it is" },
  { "a restore at work", phase("Running"), "Progressing", unseen },
  { "a restore that is done", phase("Succeeded"), "Healthy", "see" },
  { "a restore that only looked", phase("Planned"), "Healthy", "see" },
  { "a restore that failed", phase("Failed"), "Degraded", "see" },
}
for _, case in ipairs(cases) do
  local what, given, status, message = unpack(case)
  local health = script(given)
  if health.status ~= status or health.message ~= message then
    error(what .. ": " .. tostring(health.status) .. ": " .. tostring(health.message))
  end
end
