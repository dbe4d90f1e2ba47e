-- The health of a ScaledJob, for Argo CD: the key resource.customizations.health.batch.miracle.dev_ScaledJob of the
-- ConfigMap argocd-cm. It uses the libraries base and table only, which Argo CD always opens.

local status = obj.status or {}

local function condition(type)
  for _, each in ipairs(status.conditions or {}) do
    if each.type == type then
      return each
    end
  end
  return {}
end

local function health(status, message)
  return {status = status, message = message or ""}
end

if status.observedGeneration ~= obj.metadata.generation then
  return health("Progressing", "The operator has not seen this version of the ScaledJob yet.")
end
local stalled, reconciling, ready = condition("Stalled"), condition("Reconciling"), condition("Ready")
if stalled.status == "True" then
  return health("Degraded", stalled.message)
end
if reconciling.status == "True" then
  return health("Progressing", reconciling.message)
end
if obj.spec.suspend then
  return health("Suspended", ready.message)
end
if ready.status == "True" then
  return health("Healthy", ready.message)
end
return health("Progressing", ready.message)
