// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package render

// Namespace is the namespace of releases with one of the Sets.
const Namespace = "ops"

// Watched are the namespaces that RoleOnly names.
var Watched = []string{"team-a", "team-b"}

// RoleOnly are values for somebody who has permissions in a few namespaces only.
const RoleOnly = `
watchNamespaces: [team-a, team-b, team-a]
crds: {enabled: false}
`

// Sets are values that must work, by what they are about.
var Sets = map[string]string{
	"defaults":                  ``,
	"all namespaces by null":    `watchNamespaces: null`,
	"one port without metrics":  `{metrics: {enabled: false}, probes: {port: 8443}}`,
	"Role-only":                 RoleOnly,
	"Role-only without Secrets": RoleOnly + `secrets: {enabled: false}`,
	"Role-only with one Secret": RoleOnly + `secrets: {namespaces: [team-b]}`,
	"certificates and Roles":    RoleOnly + clientCertificate,
	"Secrets narrowed":          `secrets: {namespaces: [team-a]}`,
	"no Secrets":                `secrets: {enabled: false}`,
	"no CRD":                    `crds: {enabled: false}`,
	"CRD not kept":              `crds: {keep: false}`,
	"CRD kept by null":          `crds: {keep: null}`,
	"CRD kept by nothing":       "crds:\n  keep:\n",
	"no RBAC":                   `{rbac: {create: false}, serviceAccount: {create: false, name: other}}`,
	"no user roles":             `rbac: {aggregateRoles: false}`,
	"one replica":               `{replicas: 1, leaderElection: {enabled: false}, podDisruptionBudget: {enabled: false}}`,
	"no replica":                `replicas: 0`,
	"replicaCount":              `replicaCount: 3`,
	"no replicaCount":           `replicaCount: 0`,
	"replicas by both names":    `{replicas: 3, replicaCount: 3}`,
	"no global values":          `global: null`,
	"another namespace":         `{namespaceOverride: team-a, networkPolicy: {enabled: true}, grafanaDashboard: {enabled: true}, prometheusRule: {enabled: true}, ` + monitored + `}`,
	"another for Roles":         RoleOnly + `namespaceOverride: team-a`,
	"annotated":                 annotated,
	"slow probes":               slowProbes,
	"a registry":                `image: {registry: "mirror.example:5000/cache"}`,
	"a registry instead":        `image: {registry: mirror.example, repository: "registry.example:5000/team/operator"}`,
	"a registry of all charts":  `{global: {imageRegistry: localhost, other: 1}, image: {registry: mirror.example, digest: "` + digest + `"}}`,
	"budget in percent":         `podDisruptionBudget: {maxUnavailable: null, minAvailable: 50%}`,
	"no metrics":                `metrics: {enabled: false}`,
	"metrics over HTTP":         `metrics: {authentication: None, port: 8080}`,
	"metrics by certificate":    clientCertificate,
	"NetworkPolicy":             `networkPolicy: {enabled: true}`,
	"NetworkPolicy in full":     networkPolicy,
	"ServiceMonitor": `
metrics: {serviceMonitor: {enabled: true, labels: {release: prometheus}, interval: 30s, scrapeTimeout: 10s}}
`,
	"ServiceMonitor over HTTP":  `metrics: {authentication: None, serviceMonitor: {enabled: true}}`,
	"ServiceMonitor and mTLS":   clientCertificate + `  serviceMonitor: {enabled: true, clientCertificateSecret: prometheus}`,
	"ServiceMonitor with token": `metrics: {serviceMonitor: {enabled: true, authorization: {credentials: {name: t, key: t}}}}`,
	"PodMonitor":                `metrics: {podMonitor: {enabled: true, authorization: {credentials: {name: t, key: t}}}}`,
	"PodMonitor over HTTP":      `metrics: {authentication: None, podMonitor: {enabled: true}}`,
	"PodMonitor and mTLS":       clientCertificate + `  podMonitor: {enabled: true, clientCertificateSecret: prometheus}`,
	"PrometheusRule": `
prometheusRule:
  enabled: true
  labels: {release: prometheus}
  annotations: {example.com/team: platform}
  runbookURL: https://wiki.example/runbooks
`,
	"a digest":               `image: {tag: "", repository: registry.example:5000/team/operator, digest: "` + digest + `"}`,
	"a tag and a digest":     `image: {tag: v1.2.3, digest: "` + digest + `"}`,
	"every flag":             everyFlag,
	"every field of the Pod": everyField,
	"dashboards":             `grafanaDashboard: {enabled: true}`,
	"dashboards elsewhere":   dashboards,
}

const dashboards = `
grafanaDashboard:
  {enabled: true, namespace: team-a, label: example.com/dashboards, labelValue: "true", annotations: {grafana_folder: Jobs}}
`

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

const clientCertificate = `
metrics:
  authentication: ClientCertificate
  clientCASecret: {name: authorities}
  certificateSecret: certificate
`

const networkPolicy = `
networkPolicy:
  enabled: true
  metricsFrom:
  - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}
  apiServerTo: [{ipBlock: {cidr: 192.0.2.1/32}}]
  apiServerPorts: [6443]
  redisEgress:
  - to: [{ipBlock: {cidr: 198.51.100.0/24}}]
    ports: [{protocol: TCP, port: 6379}]
  extraEgress:
  - to: [{podSelector: {}}]
`

const monitored = `metrics: {certificateSecret: certificate, serviceMonitor: {enabled: true}}`

const annotated = `
commonAnnotations: {example.com/team: platform, example.com/note: common}
deploymentAnnotations: {example.com/note: deployment}
serviceAccount: {annotations: {example.com/note: account}}
networkPolicy: {enabled: true}
metrics:
  service: {annotations: {example.com/note: service}}
  serviceMonitor: {enabled: true, annotations: {example.com/note: monitor}}
grafanaDashboard: {enabled: true, annotations: {example.com/note: dashboard}}
`

const slowProbes = `
probes:
  liveness: {initialDelaySeconds: 1, timeoutSeconds: 10, failureThreshold: 9}
  readiness: {periodSeconds: 10, timeoutSeconds: null}
  startup: {periodSeconds: 10}
`

const everyFlag = `
watchNamespaces: [team-a]
crds: {enabled: false}
leaderElection: {namespace: ops, id: watching.batch.miracle.dev, leaseDuration: 30s, renewDeadline: 20s, retryPeriod: 1.5s}
controller: {maxConcurrentReconciles: 1000000, pollingFallbackInterval: "0"}
redis:
  allowCIDRs: [10.0.0.0/8, "fd00::/8"]
  denyCIDRs: [0.0.0.0/0, "::/0"]
  maxServersPerNamespace: 0
  configureNotifications: true
  allowInsecureTLS: true
logging: {level: 2, encoder: json, stacktraceLevel: panic, timeEncoding: rfc3339, development: true}
probes: {port: 9091}
pprof: {bindAddress: "127.0.0.1:6060"}
metrics: {port: 9090}
extraArgs: [--zap-log-level=error]
`

const everyField = `
nameOverride: jobs
imagePullSecrets: [{name: registry}]
commonLabels: {team: platform}
podLabels: {team: queues, tier: backend}
podAnnotations: {example.com/note: "yes"}
serviceAccount: {annotations: {example.com/role: operator}}
updateStrategy: {rollingUpdate: {maxUnavailable: 1}}
resources: {limits: null, requests: {cpu: 1}}
revisionHistoryLimit: 0
enableServiceLinks: true
hostUsers: false
dnsPolicy: None
dnsConfig: {nameservers: [192.0.2.53], searches: [svc.cluster.local], options: [{name: ndots, value: "2"}, {name: edns0}]}
hostAliases: [{ip: 192.0.2.6, hostnames: [redis.example]}]
runtimeClassName: gvisor
schedulerName: other
extraInitContainers: [{name: before, image: "example/before:v1"}]
extraContainers: [{name: proxy, image: "example/proxy:v1", ports: [{containerPort: 8444}]}]
terminationGracePeriodSeconds: 60
priorityClassName: system-cluster-critical
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: dedicated, operator: Exists}]
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]}]
topologySpreadConstraints:
- {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}
- {maxSkew: 2, topologyKey: rack, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {team: queues}}}
extraEnv: [{name: HTTPS_PROXY, value: "http://proxy.example:3128"}]
extraVolumes: [{name: scratch, emptyDir: {}}]
extraVolumeMounts: [{name: scratch, mountPath: /scratch}]
metrics: {service: {annotations: {example.com/scrape: "true"}}}
extraObjects:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: "{{ .Release.Name }}-extra"}
- |
  apiVersion: v1
  kind: ConfigMap
  metadata:
    name: {{ include "operator.fullname" . }}-text
`
