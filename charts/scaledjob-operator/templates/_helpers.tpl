{{/* The names of objects begin with this. */}}
{{- define "operator.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 45 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 45 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The namespace of all objects that are not in a watched namespace. */}}
{{- define "operator.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "operator.replicas" -}}
{{- $replicas := 2 -}}
{{- range list .Values.replicaCount .Values.replicas -}}
{{- if not (kindIs "invalid" .) -}}
{{- $replicas = int . -}}
{{- end -}}
{{- end -}}
{{- $replicas -}}
{{- end -}}

{{- define "operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (printf "%s-manager" (include "operator.fullname" .)) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "operator.selectorLabels" -}}
app.kubernetes.io/name: scaledjob-operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* The labels of objects that go when the operator goes. Takes a list: the context and the component. */}}
{{- define "operator.labels" -}}
{{- $context := index . 0 -}}
app.kubernetes.io/name: scaledjob-operator
app.kubernetes.io/component: {{ index . 1 | quote }}
{{ include "operator.releaseLabels" $context }}
{{- end -}}

{{/* The labels and annotations of such an object. Takes a dict: the context, the component, and optionally the object's own
     labels and annotations. */}}
{{- define "operator.metadata" -}}
{{- $labels := include "operator.labels" (list .context .component) | fromYaml -}}
labels:
  {{- mergeOverwrite $labels (default (dict) .labels) | toYaml | nindent 2 }}
{{- with mergeOverwrite (dict) (default (dict) .context.Values.commonAnnotations) (default (dict) .annotations) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "operator.releaseLabels" -}}
app.kubernetes.io/part-of: scaledjob-operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The registry of a repository is what stands before its first slash, if that has a dot or a colon or is localhost. */}}
{{- define "operator.image" -}}
{{- $image := .Values.image -}}
{{- $reference := $image.repository -}}
{{- with default $image.registry (default (dict) .Values.global).imageRegistry -}}
{{- $reference = printf "%s/%s" . (regexReplaceAll "^(localhost|[^/]*[.:][^/]*)/" $reference "") -}}
{{- end -}}
{{- if or $image.tag (not $image.digest) -}}
{{- $reference = printf "%s:%s" $reference (default .Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- if $image.digest -}}
{{- $reference = printf "%s@%s" $reference $image.digest -}}
{{- end -}}
{{- $reference -}}
{{- end -}}

{{/* Kubernetes, ClientCertificate or None. */}}
{{- define "operator.metricsAuthentication" -}}
{{- default (ternary "None" "Kubernetes" (not (empty .Values.watchNamespaces))) .Values.metrics.authentication -}}
{{- end -}}

{{/* The rules of a kind in files/role.yaml, which is generated from the code. The reviews are left out where they are
     not needed: only Kubernetes authentication needs them, and a Role can't grant them. Takes a list: the context and
     the kind. */}}
{{- define "operator.rules" -}}
{{- $context := index . 0 -}}
{{- $kind := index . 1 -}}
{{- $authentication := include "operator.metricsAuthentication" $context -}}
{{- $reviews := and $context.Values.metrics.enabled (eq $authentication "Kubernetes") -}}
{{- $rules := list -}}
{{- range splitList "\n---\n" ($context.Files.Get "files/role.yaml") -}}
{{- $role := fromYaml . -}}
{{- if eq (toString $role.kind) $kind -}}
{{- range $role.rules -}}
{{- $isReview := or (has "tokenreviews" .resources) (has "subjectaccessreviews" .resources) -}}
{{- if or $reviews (not $isReview) -}}
{{- $rules = append $rules . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $rules -}}
{{- end -}}

{{/* A binding's subjects and role. Takes a list: the context, the kind of the role, and its name. */}}
{{- define "operator.binding" -}}
{{- $context := index . 0 -}}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ index . 1 }}
  name: {{ index . 2 | quote }}
subjects:
- kind: ServiceAccount
  name: {{ include "operator.serviceAccountName" $context | quote }}
  namespace: {{ include "operator.namespace" $context | quote }}
{{- end -}}

{{/* The scheme of an endpoint of a ServiceMonitor or PodMonitor, and how Prometheus authenticates. Takes a list: the
     context, and the values of the monitor. */}}
{{- define "operator.endpoint" -}}
{{- $context := index . 0 -}}
{{- $monitor := index . 1 -}}
{{- $metrics := $context.Values.metrics -}}
{{- $authentication := include "operator.metricsAuthentication" $context -}}
path: /metrics
honorLabels: {{ $monitor.honorLabels }}
scheme: {{ ternary "http" "https" (eq $authentication "None") }}
{{- if ne $authentication "None" }}
tlsConfig:
{{- if $monitor.tlsConfig }}
  {{- toYaml $monitor.tlsConfig | nindent 2 }}
{{- else }}
  {{- if $metrics.certificateSecret }}
  ca:
    secret:
      name: {{ $metrics.certificateSecret | quote }}
      key: ca.crt
  serverName: {{ printf "%s-metrics.%s.svc" (include "operator.fullname" $context) (include "operator.namespace" $context) | quote }}
  {{- else }}
  # The server has signed its certificate itself.
  insecureSkipVerify: true
  {{- end }}
  {{- with $monitor.clientCertificateSecret }}
  cert:
    secret:
      name: {{ . | quote }}
      key: tls.crt
  keySecret:
    name: {{ . | quote }}
    key: tls.key
  {{- end }}
{{- end }}
{{- end }}
{{- with $monitor.interval }}
interval: {{ . | quote }}
{{- end }}
{{- with $monitor.scrapeTimeout }}
scrapeTimeout: {{ . | quote }}
{{- end }}
{{- with $monitor.relabelings }}
relabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $monitor.metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
