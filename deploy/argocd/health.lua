-- The health of every kind of Causeway for Argo CD, by the conditions of an object.
-- https://argo-cd.readthedocs.io/en/stable/operator-manual/health/#custom-health-checks
local spec, status = obj.spec or {}, obj.status or {}
local health = { status = "Progressing", message = "the operator has not looked at it yet" }

if spec.suspend == true then
  return { status = "Suspended", message = "spec.suspend: the operator leaves it as it is" }
end
local condition = {}
for _, one in ipairs(status.conditions or {}) do
  condition[one.type] = one
end
local ready = condition.Ready
local function is_true(kind)
  return condition[kind] ~= nil and condition[kind].status == "True"
end

-- A restore that has ended need not be Ready.
if status.phase == "Failed" then
  return { status = "Degraded", message = status.message or "it failed" }
end
if status.phase == "Succeeded" or status.phase == "Planned" then
  return { status = "Healthy", message = status.message or status.phase }
end
-- Conditions of an earlier generation say nothing about this one.
if ready == nil or (ready.observedGeneration or 0) < (obj.metadata.generation or 0) then
  return health
end
-- These are true while all else is well. Others only warn: a sync need not fail for them.
for _, kind in ipairs({ "Alarm", "BackupFailed", "BackupOverdue", "DataLost", "LogBeginsTooLate", "LogBroken", "UnsignedBackups" }) do
  if is_true(kind) then
    return { status = "Degraded", message = condition[kind].message }
  end
end
health.message = ready.message
if ready.status == "True" then
  health.status = "Healthy"
  -- A backup that is scheduled is all that a sync can wait for: the first one may be due in a week.
  if condition.Restorable ~= nil and condition.Restorable.status == "False" then
    health.message = condition.Restorable.message
  end
elseif is_true("Stalled") then
  health.status = "Degraded"
  health.message = condition.Stalled.message
end
return health
