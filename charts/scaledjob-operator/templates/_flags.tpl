{{/* The flags of values that are empty by default, as a list. */}}
{{- define "operator.flags" -}}
{{- $flags := list -}}
{{- with .Values.watchNamespaces -}}
{{- $flags = append $flags (printf "--watch-namespaces=%s" (join "," (uniq .))) -}}
{{- end -}}
{{- /* Without a flag, the Lease has the name that this makes of the release scaledjob-operator. */ -}}
{{- $lease := "" -}}
{{- if .Values.leaderElection.enabled -}}
{{- $lease = default (printf "%s.batch.miracle.dev" (include "operator.fullname" .)) .Values.leaderElection.id -}}
{{- if eq $lease "scaledjob-operator.batch.miracle.dev" -}}
{{- $lease = "" -}}
{{- end -}}
{{- end -}}
{{- $valued := list
  (list "leader-election-id" $lease)
  (list "leader-election-namespace" .Values.leaderElection.namespace)
  (list "leader-elect-lease-duration" .Values.leaderElection.leaseDuration)
  (list "leader-elect-renew-deadline" .Values.leaderElection.renewDeadline)
  (list "leader-elect-retry-period" .Values.leaderElection.retryPeriod)
  (list "max-concurrent-reconciles" .Values.controller.maxConcurrentReconciles)
  (list "polling-fallback-interval" .Values.controller.pollingFallbackInterval)
  (list "redis-allow-cidrs" (join "," .Values.redis.allowCIDRs))
  (list "redis-deny-cidrs" (join "," .Values.redis.denyCIDRs))
  (list "max-redis-servers-per-namespace" .Values.redis.maxServersPerNamespace)
  (list "redis-connections-per-server" .Values.redis.connectionsPerServer)
  (list "pprof-bind-address" .Values.pprof.bindAddress)
  (list "zap-log-level" .Values.logging.level)
  (list "zap-encoder" .Values.logging.encoder)
  (list "zap-stacktrace-level" .Values.logging.stacktraceLevel)
  (list "zap-time-encoding" .Values.logging.timeEncoding)
-}}
{{- range $valued -}}
{{- $value := index . 1 -}}
{{- /* Zero is a value; Helm reads numbers as floats. */ -}}
{{- if kindIs "float64" $value -}}
{{- $value = int64 $value -}}
{{- end -}}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "")) -}}
{{- $flags = append $flags (printf "--%s=%v" (index . 0) $value) -}}
{{- end -}}
{{- end -}}
{{- $switches := list
  (list "configure-redis-notifications" .Values.redis.configureNotifications)
  (list "allow-insecure-redis-tls" .Values.redis.allowInsecureTLS)
  (list "zap-devel" .Values.logging.development)
-}}
{{- range $switches -}}
{{- if index . 1 -}}
{{- $flags = append $flags (printf "--%s" (index . 0)) -}}
{{- end -}}
{{- end -}}
{{- with $flags -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}
