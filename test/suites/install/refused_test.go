// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/suites/install/render"
)

func TestRefusedValues(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]struct{ values, says string }{
		"a wrong type":    {`replicas: two`, "at '/replicas': got string, want null or integer"},
		"fewer than none": {`replicas: -1`, "at '/replicas': minimum: got -1, want 0"},
		"no such value":   {`replicaNumber: 3`, "additional properties 'replicaNumber' not allowed"},
		"two numbers": {
			`{replicas: 2, replicaCount: 3}`, "replicas is 2 and replicaCount is 3, but they mean the same: remove one of them",
		},
		"no such in a group":  {`redis: {allowCidrs: []}`, "at '/redis': additional properties 'allowCidrs' not allowed"},
		"a bad duration":      {`leaderElection: {leaseDuration: fast}`, "at '/leaderElection/leaseDuration': 'fast' does not match"},
		"a bad Lease name":    {`leaderElection: {id: Team_A}`, "at '/leaderElection/id': 'Team_A' does not match"},
		"a duration in words": {`controller: {pollingFallbackInterval: 5}`, "at '/controller/pollingFallbackInterval': got number, want string"},
		"a bad network":       {`redis: {denyCIDRs: [10.0.0.0/33]}`, "at '/redis/denyCIDRs/0': '10.0.0.0/33' does not match"},
		"a host as network":   {`redis: {allowCIDRs: [redis]}`, "at '/redis/allowCIDRs/0': 'redis' does not match"},
		"a tag in the name":   {`image: {repository: "operator:v1"}`, "at '/image/repository': 'operator:v1' does not match"},
		"a digest as tag":     {`image: {tag: "sha256:12"}`, "at '/image/tag': 'sha256:12' does not match"},
		"a tag as digest":     {`image: {digest: v1}`, "at '/image/digest': 'v1' does not match"},
		"a bad namespace":     {`watchNamespaces: [Team_A]`, "at '/watchNamespaces/0': 'Team_A' does not match"},
		"a word for a list":   {`watchNamespaces: team-a`, "at '/watchNamespaces': got string, want array"},
		"no such method":      {`metrics: {authentication: Basic}`, "at '/metrics/authentication': value must be one of"},
		"a label of ours":     {`commonLabels: {app.kubernetes.io/name: x}`, "invalid propertyName 'app.kubernetes.io/name'"},
		"no such log level":   {`logging: {level: loud}`, "at '/logging/level'"},
		"a port that is none": {`metrics: {port: 70000}`, "at '/metrics/port': maximum: got 70,000, want 65,535"},
		"Kubernetes authentication without a ClusterRole": {
			`{watchNamespaces: [a], metrics: {authentication: Kubernetes}}`,
			"metrics.authentication Kubernetes needs a ClusterRole, which watchNamespaces excludes: " +
				"set metrics.authentication to ClientCertificate or None",
		},
		"certificates without authorities": {`metrics: {authentication: ClientCertificate}`, "set metrics.clientCASecret.name"},
		"a certificate without HTTPS":      {`metrics: {authentication: None, certificateSecret: x}`, "remove metrics.certificateSecret"},
		"a token that can't be":            {`metrics: {podMonitor: {enabled: true}}`, "set metrics.podMonitor.authorization.credentials"},
		"a monitor without a certificate": {
			`metrics: {authentication: ClientCertificate, clientCASecret: {name: x}, serviceMonitor: {enabled: true}}`,
			"set metrics.serviceMonitor.clientCertificateSecret",
		},
		"two monitors": {
			`metrics: {authentication: None, podMonitor: {enabled: true}, serviceMonitor: {enabled: true}}`, "enable only one of them",
		},
		"a monitor of nothing":        {`metrics: {enabled: false, serviceMonitor: {enabled: true}}`, "set metrics.enabled to true"},
		"alerts about nothing":        {`{metrics: {enabled: false}, prometheusRule: {enabled: true}}`, "prometheusRule needs the metrics"},
		"a path for runbooks":         {`prometheusRule: {runbookURL: docs/operations/runbooks}`, "at '/prometheusRule/runbookURL': 'docs/operations/runbooks' does not match"},
		"a slash after the URL":       {`prometheusRule: {runbookURL: "https://wiki.example/"}`, "at '/prometheusRule/runbookURL'"},
		"dashboards of nothing":       {`{grafanaDashboard: {enabled: true}, metrics: {enabled: false}}`, "grafanaDashboard needs the metrics"},
		"a label of ours for Grafana": {`grafanaDashboard: {label: helm.sh/chart}`, "at '/grafanaDashboard/label'"},
		"one port for two": {
			`probes: {port: 8443}`, "metrics.port and probes.port are both 8443: set one of them to another port",
		},
		"no image": {
			`image: {tag: ""}`,
			"this chart is from the source and names no image: set image.tag or image.digest, or use the chart of a release",
		},
		"several without leader":  {`{replicaCount: 2, leaderElection: {enabled: false}}`, "several replicas need leader election"},
		"a registry that is none": {`image: {registry: team}`, "at '/image/registry': 'team' does not match"},
		"a registry with a slash": {`global: {imageRegistry: mirror.example/}`, "at '/global/imageRegistry': 'mirror.example/' does not match"},
		"a bad override":          {`namespaceOverride: Team_A`, "at '/namespaceOverride': 'Team_A' does not match"},
		"a number as annotation":  {`commonAnnotations: {a: 1}`, "at '/commonAnnotations/a': got number, want string"},
		"no such timing":          {`probes: {liveness: {period: 3}}`, "at '/probes/liveness': additional properties 'period' not allowed"},
		"a probe without a time":  {`probes: {startup: {periodSeconds: 0}}`, "at '/probes/startup/periodSeconds': minimum: got 0, want 1"},
		"a probe by null":         {`probes: {liveness: null}`, "at '/probes': missing property 'liveness'"},
		"profiles for all":        {`pprof: {bindAddress: ":6060"}`, "at '/pprof/bindAddress': ':6060' does not match"},
		"no such DNS policy":      {`dnsPolicy: Host`, "at '/dnsPolicy': value must be one of"},
		"no name servers":         {`dnsPolicy: None`, "dnsPolicy None leaves the Pods without name servers: set dnsConfig.nameservers"},
		"no such DNS setting":     {`dnsConfig: {servers: []}`, "at '/dnsConfig': additional properties 'servers' not allowed"},
		"an alias without a name": {`hostAliases: [{ip: 192.0.2.1}]`, "at '/hostAliases/0': missing property 'hostnames'"},
		"an unnamed container":    {`extraContainers: [{image: x}]`, "at '/extraContainers/0': missing property 'name'"},
		"two without leader":      {`leaderElection: {enabled: false}`, "several replicas need leader election"},
		"two in an update": {
			`{replicas: 1, leaderElection: {enabled: false}, updateStrategy: {rollingUpdate: {maxSurge: 1}}}`,
			"set updateStrategy.type to Recreate",
		},
		"a name with dots":          {`fullnameOverride: my.name`, "at '/fullnameOverride': 'my.name' does not match"},
		"two budgets":               {`podDisruptionBudget: {minAvailable: 1}`, "exactly one of minAvailable and maxUnavailable"},
		"no budget":                 {`podDisruptionBudget: {maxUnavailable: null}`, "exactly one of minAvailable and maxUnavailable"},
		"Secrets of unwatched ones": {`{watchNamespaces: [a], secrets: {namespaces: [b]}}`, "secrets.namespaces names b, which watchNamespaces does not"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			release := render.Release{Name: "jobs", Namespace: render.Namespace, Values: refused.values}
			g.Expect(release.Manifest(t.Context())).Error().To(MatchError(ContainSubstring(refused.says)))
		})
	}
}

// The chart writes these flags itself, and the rest of what it renders depends on them.
func TestRefusedFlags(t *testing.T) {
	t.Parallel()
	for argument, instead := range map[string]string{
		"--metrics-bind-address=0":          "set metrics.enabled and metrics.port instead",
		"-metrics-secure=false":             "set metrics.authentication instead",
		"--metrics-client-ca-file":          "set metrics.clientCASecret instead",
		"--metrics-cert-dir=/certificate":   "set metrics.certificateSecret instead",
		"--metrics-queue-label=false":       "set metrics.queueLabel instead",
		"-leader-elect":                     "set leaderElection.enabled instead",
		"--leader-elect=false":              "set leaderElection.enabled instead",
		"--leader-election-id=other":        "set leaderElection.id instead",
		"--leader-election-namespace=other": "set leaderElection.namespace instead",
		"--leader-elect-lease-duration=30s": "set leaderElection.leaseDuration instead",
		"--leader-elect-renew-deadline=20s": "set leaderElection.renewDeadline instead",
		"--leader-elect-retry-period=1s":    "set leaderElection.retryPeriod instead",
		"--health-probe-bind-address=:9000": "set probes.port instead",
		"--pprof-bind-address=:6060":        "set pprof.bindAddress instead",
		"--watch-namespaces=team-a":         "set watchNamespaces instead",
	} {
		t.Run(argument, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			values := fmt.Sprintf("extraArgs: [--zap-devel, %q]", argument)
			release := render.Release{Name: "jobs", Namespace: render.Namespace, Values: values}
			g.Expect(release.Manifest(t.Context())).Error().To(MatchError(ContainSubstring(instead)))
		})
	}
}

func TestKubernetesThatIsTooOldIsRefused(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	release := render.Release{Name: "jobs", Namespace: render.Namespace}
	for version, accepted := range map[string]bool{
		"1.33.9": false, "v1.33.9-gke.100": false, render.OldestKubernetes: true, "v1.34.0-rc.1": true, "v1.34.4-gke.100": true,
	} {
		_, err := release.Helm(t.Context(), "template", "--kube-version="+version)
		if accepted {
			g.Expect(err).NotTo(HaveOccurred(), version)
			continue
		}
		g.Expect(err).To(MatchError(ContainSubstring("chart requires kubeVersion: >="+render.OldestKubernetes)), version)
	}
}
