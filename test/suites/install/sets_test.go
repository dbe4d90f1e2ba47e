// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/suites/install/render"
)

// rendered are the objects of a release, by kind, namespace and name.
type rendered struct {
	Gomega
	objects map[string]*unstructured.Unstructured
}

// renderSet renders the values of that name.
func renderSet(t *testing.T, name string) rendered {
	t.Helper()
	g := NewWithT(t)
	values, known := render.Sets[name]
	g.Expect(known).To(BeTrue(), name)
	release := render.Release{Name: "jobs", Namespace: render.Namespace, Values: values}
	objects := must.Get(release.Objects(t.Context()))(g)
	r := rendered{g, map[string]*unstructured.Unstructured{}}
	for _, object := range objects {
		g.Expect(r.objects).NotTo(HaveKey(title(object)), "each object is rendered once")
		r.objects[title(object)] = object
	}
	return r
}

// titles are the objects whose titles begin with a text.
func (r rendered) titles(prefix string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.objects)), func(title string) bool {
		return !strings.HasPrefix(title, prefix)
	})
}

// fields are the leaves of an object below a path.
func (r rendered) fields(title string, path ...string) map[string]string {
	r.Expect(r.objects).To(HaveKey(title))
	var below any = r.objects[title].Object
	for _, key := range path {
		below = child(below, key)
	}
	found := map[string]string{}
	flatten(found, "", below)
	return found
}

// deployment is the title of the Deployment.
const deployment = "Deployment ops/jobs-scaledjob-operator-manager"

// args are the arguments of the operator.
func (r rendered) args() []string {
	return must.Get(render.Arguments(slices.Collect(maps.Values(r.objects))))(r)
}

func TestRoleOnly(t *testing.T) {
	t.Parallel()
	for name := range render.Sets {
		if !strings.HasPrefix(name, "Role-only") {
			continue
		}
		r := renderSet(t, name)
		r.Expect(r.titles("Cluster")).To(BeEmpty(), "no ClusterRole and no ClusterRoleBinding")
		for title, object := range r.objects {
			r.Expect(object.GetNamespace()).To(BeElementOf(append(render.Watched, render.Namespace)), title)
		}
		r.Expect(r.args()).To(ContainElements("--watch-namespaces=team-a,team-b", "--metrics-secure=false"))
		r.Expect(r.titles("Role ")).To(ContainElements(
			"Role ops/jobs-scaledjob-operator-manager",
			"Role team-a/jobs-scaledjob-operator-manager-jobs", "Role team-b/jobs-scaledjob-operator-manager-jobs"))
		r.Expect(r.titles("RoleBinding ")).To(HaveLen(len(r.titles("Role "))))
	}
	const readers = "-manager-secrets"
	secrets := func(name string) []string {
		return slices.DeleteFunc(renderSet(t, name).titles("Role "), func(title string) bool { return !strings.HasSuffix(title, readers) })
	}
	g := NewWithT(t)
	g.Expect(secrets("Role-only")).To(HaveLen(2))
	g.Expect(secrets("Role-only with one Secret")).To(ConsistOf("Role team-b/jobs-scaledjob-operator-manager-secrets"))
	g.Expect(secrets("Role-only without Secrets")).To(BeEmpty())
}

// What the operator may do in a namespace does not depend on how it is granted. Only the reviews, which are for the
// metrics, can't be granted by a Role.
func TestRolesPermitWhatTheClusterRolesDo(t *testing.T) {
	t.Parallel()
	cluster, roles := renderSet(t, "defaults"), renderSet(t, "Role-only")
	everywhere := append(cluster.permissions("ClusterRole jobs-scaledjob-operator-manager"),
		cluster.permissions("ClusterRole jobs-scaledjob-operator-secret-reader")...)
	reviews := []string{
		"create tokenreviews.authentication.k8s.io", "create subjectaccessreviews.authorization.k8s.io",
	}
	roles.Expect(everywhere).To(ContainElements(reviews))
	wanted := slices.DeleteFunc(everywhere, func(permission string) bool { return slices.Contains(reviews, permission) })
	for _, namespace := range render.Watched {
		granted := append(roles.permissions("Role "+namespace+"/jobs-scaledjob-operator-manager-jobs"),
			roles.permissions("Role "+namespace+"/jobs-scaledjob-operator-manager-secrets")...)
		roles.Expect(granted).To(ConsistOf(wanted))
	}
	const lease = "Role ops/jobs-scaledjob-operator-manager"
	roles.Expect(roles.permissions(lease)).To(ConsistOf(cluster.permissions(lease)))

	overHTTP := renderSet(t, "metrics over HTTP").permissions("ClusterRole jobs-scaledjob-operator-manager")
	for _, review := range reviews {
		roles.Expect(overHTTP).NotTo(ContainElement(review), "nobody is authenticated")
	}
}

// permissions are those of a role, as "verb resource.group".
func (r rendered) permissions(title string) []string {
	r.Expect(r.objects).To(HaveKey(title))
	rules, _, err := unstructured.NestedSlice(r.objects[title].Object, "rules")
	r.Expect(err).NotTo(HaveOccurred())
	var all []string
	for _, rule := range rules {
		list := func(key string) []any { return child(rule, key).([]any) }
		for _, verb := range list("verbs") {
			for _, resource := range list("resources") {
				for _, group := range list("apiGroups") {
					all = append(all, strings.TrimSuffix(fmt.Sprintf("%s %s.%s", verb, resource, group), "."))
				}
			}
		}
	}
	return all
}

func TestSecretsOfChosenNamespaces(t *testing.T) {
	t.Parallel()
	narrowed, none := renderSet(t, "Secrets narrowed"), renderSet(t, "no Secrets")
	const reader = "jobs-scaledjob-operator-secret-reader"
	narrowed.Expect(narrowed.titles("ClusterRoleBinding ")).To(ConsistOf("ClusterRoleBinding jobs-scaledjob-operator-manager"))
	narrowed.Expect(narrowed.titles("ClusterRole " + reader)).To(HaveLen(1))
	narrowed.Expect(narrowed.fields("RoleBinding team-a/"+reader, "roleRef")).To(HaveKeyWithValue("kind", "ClusterRole"))
	for title := range none.objects {
		none.Expect(title).NotTo(HaveSuffix(reader))
	}
}

func TestNullForAllNamespaces(t *testing.T) {
	t.Parallel()
	null := renderSet(t, "all namespaces by null")
	null.Expect(null.titles("")).To(Equal(renderSet(t, "defaults").titles("")))
	null.Expect(null.args()).NotTo(ContainElement(HavePrefix("--watch-namespaces")))
}

func TestCRD(t *testing.T) {
	t.Parallel()
	const title, policy = "CustomResourceDefinition scaledjobs.batch.miracle.dev", "helm.sh/resource-policy"
	notKept, none := renderSet(t, "CRD not kept"), renderSet(t, "no CRD")
	for _, name := range []string{"defaults", "CRD kept by null", "CRD kept by nothing"} {
		kept := renderSet(t, name)
		kept.Expect(kept.objects[title].GetAnnotations()).To(HaveKeyWithValue(policy, "keep"), name)
	}
	notKept.Expect(notKept.objects[title].GetAnnotations()).NotTo(HaveKey(policy))
	none.Expect(none.objects).NotTo(HaveKey(title))
}

func TestImage(t *testing.T) {
	t.Parallel()
	for name, image := range map[string]string{
		"defaults":           "scaledjob-operator:v0.0.0-test",
		"a digest":           "registry.example:5000/team/operator@" + digest,
		"a tag and a digest": "scaledjob-operator:v1.2.3@" + digest,

		"a registry":               "mirror.example:5000/cache/scaledjob-operator:v0.0.0-test",
		"a registry instead":       "mirror.example/team/operator:v0.0.0-test",
		"a registry of all charts": "localhost/scaledjob-operator:v0.0.0-test@" + digest,
	} {
		r := renderSet(t, name)
		r.Expect(r.fields(deployment, "spec", "template", "spec", "containers", "0")).To(HaveKeyWithValue("image", image))
	}
}

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestMetrics(t *testing.T) {
	t.Parallel()
	const service, reader = "Service ops/jobs-scaledjob-operator-metrics", "ClusterRole jobs-scaledjob-operator-metrics-reader"
	byToken, open := renderSet(t, "defaults"), renderSet(t, "metrics over HTTP")
	byToken.Expect(byToken.args()).NotTo(ContainElement(HavePrefix("--metrics-secure")))
	byToken.Expect(byToken.objects).To(HaveKey(reader))
	byToken.Expect(byToken.fields(service, "spec", "ports", "0")).To(HaveKeyWithValue("name", "https"))

	open.Expect(open.args()).To(ContainElements("--metrics-secure=false", "--metrics-bind-address=:8080"))
	open.Expect(open.objects).NotTo(HaveKey(reader))
	open.Expect(open.fields(service, "spec", "ports", "0")).To(And(HaveKeyWithValue("name", "http"), HaveKeyWithValue("port", "8080")))

	byCertificate := renderSet(t, "metrics by certificate")
	byCertificate.Expect(byCertificate.objects).NotTo(HaveKey(reader))
	byCertificate.Expect(byCertificate.args()).To(ContainElements(
		"--metrics-client-ca-file=/etc/scaledjob-operator/metrics-client-ca/ca.crt",
		"--metrics-cert-dir=/etc/scaledjob-operator/metrics-certificate"))
	pod := byCertificate.fields(deployment, "spec", "template", "spec")
	byCertificate.Expect(pod).To(And(
		HaveKeyWithValue("volumes.0.secret.secretName", "authorities"), HaveKeyWithValue("volumes.1.secret.secretName", "certificate"),
		HaveKeyWithValue("containers.0.volumeMounts.0.mountPath", "/etc/scaledjob-operator/metrics-client-ca"),
		HaveKeyWithValue("containers.0.volumeMounts.1.mountPath", "/etc/scaledjob-operator/metrics-certificate")))

	withRoles := renderSet(t, "certificates and Roles")
	withRoles.Expect(withRoles.args()).To(ContainElement(HavePrefix("--metrics-client-ca-file=")))
	withRoles.Expect(withRoles.titles("Cluster")).To(BeEmpty())

	none := renderSet(t, "no metrics")
	none.Expect(none.args()).To(ContainElement("--metrics-bind-address=0"))
	none.Expect(none.objects).NotTo(HaveKey(service))
}

func TestMonitors(t *testing.T) {
	t.Parallel()
	const (
		service   = "ServiceMonitor ops/jobs-scaledjob-operator-manager"
		pod       = "PodMonitor ops/jobs-scaledjob-operator-manager"
		endpoints = "endpoints"
		podPoints = "podMetricsEndpoints"
	)
	for name, want := range map[string]struct {
		title, list string
		fields      map[string]string
	}{
		"ServiceMonitor": {service, endpoints, map[string]string{
			"scheme": "https", "port": "https", "tlsConfig.insecureSkipVerify": "true", "interval": "30s", "scrapeTimeout": "10s",
			"bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
		}},
		"ServiceMonitor over HTTP": {service, endpoints, map[string]string{"scheme": "http", "port": "http"}},
		"ServiceMonitor and mTLS": {service, endpoints, map[string]string{
			"scheme": "https", "port": "https", "tlsConfig.ca.secret.name": "certificate", "tlsConfig.ca.secret.key": "ca.crt",
			"tlsConfig.serverName":       "jobs-scaledjob-operator-metrics.ops.svc",
			"tlsConfig.cert.secret.name": "prometheus", "tlsConfig.cert.secret.key": "tls.crt",
			"tlsConfig.keySecret.name": "prometheus", "tlsConfig.keySecret.key": "tls.key",
		}},
		"ServiceMonitor with token": {service, endpoints, map[string]string{
			"scheme": "https", "port": "https", "tlsConfig.insecureSkipVerify": "true",
			"authorization.credentials.name": "t", "authorization.credentials.key": "t",
		}},
		"PodMonitor": {pod, podPoints, map[string]string{
			"scheme": "https", "port": "metrics", "tlsConfig.insecureSkipVerify": "true",
			"authorization.credentials.name": "t", "authorization.credentials.key": "t",
		}},
		"PodMonitor over HTTP": {pod, podPoints, map[string]string{"scheme": "http", "port": "metrics"}},
	} {
		r := renderSet(t, name)
		want.fields["path"], want.fields["honorLabels"] = "/metrics", "true"
		r.Expect(r.fields(want.title, "spec", want.list, "0")).To(Equal(want.fields), name)
		r.Expect(r.fields(deployment, "spec", "template", "metadata")).To(HaveKeyWithValue("labels.app.kubernetes.io/name", "scaledjob-operator"))
	}
	labels := renderSet(t, "ServiceMonitor")
	labels.Expect(labels.objects[service].GetLabels()).To(HaveKeyWithValue("release", "prometheus"))
}

// Grafana's sidecar finds them, and what it reads are the files of the kustomization.
func TestDashboards(t *testing.T) {
	t.Parallel()
	const prefix = "ConfigMap ops/jobs-scaledjob-operator-dashboard-"
	byDefault, r, elsewhere := renderSet(t, "defaults"), renderSet(t, "dashboards"), renderSet(t, "dashboards elsewhere")
	byDefault.Expect(byDefault.titles("ConfigMap")).To(BeEmpty())
	r.Expect(r.titles("ConfigMap")).To(ConsistOf(prefix+"operator", prefix+"scaledjob", prefix+"scaledjobs"))
	for _, title := range r.titles("ConfigMap") {
		r.Expect(r.objects[title].GetLabels()).To(HaveKeyWithValue("grafana_dashboard", "1"))
	}
	r.Expect(r.fields(prefix+"scaledjob", "data")).To(HaveKeyWithValue("scaledjob.json", ContainSubstring(`"title": "ScaledJob"`)))

	r.Expect(elsewhere.titles("ConfigMap team-a/")).To(HaveLen(3))
	for _, title := range elsewhere.titles("ConfigMap") {
		found := elsewhere.objects[title]
		r.Expect(found.GetLabels()).To(And(HaveKeyWithValue("example.com/dashboards", "true"), Not(HaveKey("grafana_dashboard"))))
		r.Expect(found.GetAnnotations()).To(HaveKeyWithValue("grafana_folder", "Jobs"))
	}
}

func TestNetworkPolicy(t *testing.T) {
	t.Parallel()
	const title = "NetworkPolicy ops/jobs-scaledjob-operator-manager"
	r := renderSet(t, "NetworkPolicy in full")
	r.Expect(r.fields(title, "spec", "ingress")).To(And(
		HaveKeyWithValue("1.ports.0.port", "metrics"),
		HaveKeyWithValue("1.from.0.namespaceSelector.matchLabels.kubernetes.io/metadata.name", "monitoring")))
	r.Expect(r.fields(title, "spec", "egress")).To(And(
		HaveKeyWithValue("0.ports.0.port", "53"),
		HaveKeyWithValue("1.ports.0.port", "6443"), HaveKeyWithValue("1.to.0.ipBlock.cidr", "192.0.2.1/32"),
		HaveKeyWithValue("2.ports.0.port", "6379"), HaveKeyWithValue("2.to.0.ipBlock.cidr", "198.51.100.0/24"),
		HaveKey(HavePrefix("3.to"))))
	byDefault := renderSet(t, "defaults")
	byDefault.Expect(byDefault.titles("NetworkPolicy")).To(BeEmpty())
}

func TestOneReplica(t *testing.T) {
	t.Parallel()
	r := renderSet(t, "one replica")
	r.Expect(r.fields(deployment, "spec")).To(And(HaveKeyWithValue("replicas", "1"), HaveKeyWithValue("strategy.type", "Recreate")))
	r.Expect(r.args()).NotTo(ContainElement(HavePrefix("--leader")))
	r.Expect(r.titles("PodDisruptionBudget")).To(BeEmpty())
	r.Expect(r.titles("Role")).To(BeEmpty(), "there is no Lease")
}

func TestReplicas(t *testing.T) {
	t.Parallel()
	for name, replicas := range map[string]string{
		"defaults": "2", "no replica": "0", "replicaCount": "3", "no replicaCount": "0", "replicas by both names": "3",
	} {
		r := renderSet(t, name)
		r.Expect(r.fields(deployment, "spec")).To(HaveKeyWithValue("replicas", replicas), name)
	}
}

// No object stays behind in the namespace of the release, and what names the namespace follows.
func TestAnotherNamespace(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"another namespace", "another for Roles"} {
		r := renderSet(t, name)
		for title, object := range r.objects {
			r.Expect(object.GetNamespace()).NotTo(Equal(render.Namespace), title)
			if strings.HasSuffix(object.GetKind(), "RoleBinding") {
				r.Expect(r.fields(title, "subjects")).To(HaveKeyWithValue("0.namespace", "team-a"), title)
			}
		}
		r.Expect(r.objects).To(HaveKey("Deployment team-a/jobs-scaledjob-operator-manager"))
		r.Expect(r.objects).To(HaveKey("Role team-a/jobs-scaledjob-operator-manager"), "of the Lease")
		r.Expect(r.args()).NotTo(ContainElement(HavePrefix("--leader-election-namespace")), "by default that of the Pod")
	}
	r := renderSet(t, "another namespace")
	r.Expect(r.fields("ServiceMonitor team-a/jobs-scaledjob-operator-manager", "spec")).To(And(
		HaveKeyWithValue("namespaceSelector.matchNames.0", "team-a"),
		HaveKeyWithValue("endpoints.0.tlsConfig.serverName", "jobs-scaledjob-operator-metrics.team-a.svc")))
}

// An annotation that makes a tool delete an object must not reach the CRD.
func TestAnnotationsOfAllObjectsButTheCRD(t *testing.T) {
	t.Parallel()
	const note, crd = "example.com/note", "CustomResourceDefinition scaledjobs.batch.miracle.dev"
	r, byDefault := renderSet(t, "annotated"), renderSet(t, "defaults")
	for title, object := range r.objects {
		if title != crd {
			r.Expect(object.GetAnnotations()).To(HaveKeyWithValue("example.com/team", "platform"), title)
		}
	}
	r.Expect(r.objects[crd].GetAnnotations()).To(Equal(byDefault.objects[crd].GetAnnotations()))
	for title, own := range map[string]string{
		deployment: "deployment", "ServiceAccount ops/jobs-scaledjob-operator-manager": "account",
		"Service ops/jobs-scaledjob-operator-metrics": "service", "ServiceMonitor ops/jobs-scaledjob-operator-manager": "monitor",
		"NetworkPolicy ops/jobs-scaledjob-operator-manager": "common", "ConfigMap ops/jobs-scaledjob-operator-dashboard-operator": "dashboard",
	} {
		r.Expect(r.objects[title].GetAnnotations()).To(HaveKeyWithValue(note, own), title)
	}
	pod := r.fields(deployment, "spec", "template", "metadata", "annotations")
	r.Expect(pod).NotTo(HaveKey(note), "they would restart the Pods")
}

func TestTimingsOfProbes(t *testing.T) {
	t.Parallel()
	r := renderSet(t, "slow probes")
	container := r.fields(deployment, "spec", "template", "spec", "containers", "0")
	for field, value := range map[string]string{
		"livenessProbe.initialDelaySeconds": "1", "livenessProbe.periodSeconds": "20", "livenessProbe.timeoutSeconds": "10",
		"livenessProbe.failureThreshold": "9", "livenessProbe.httpGet.path": "/healthz",
		"readinessProbe.periodSeconds": "10", "startupProbe.periodSeconds": "10", "startupProbe.failureThreshold": "45",
	} {
		r.Expect(container).To(HaveKeyWithValue(field, value))
	}
	r.Expect(container).NotTo(HaveKey("readinessProbe.timeoutSeconds"))
}

func TestEveryFlag(t *testing.T) {
	t.Parallel()
	r := renderSet(t, "every flag")
	r.Expect(r.args()).To(Equal([]string{
		"--leader-elect", "--metrics-bind-address=:9090", "--health-probe-bind-address=:9091", "--metrics-secure=false",
		"--watch-namespaces=team-a", "--leader-election-id=watching.batch.miracle.dev", "--leader-election-namespace=ops", "--leader-elect-lease-duration=30s",
		"--leader-elect-renew-deadline=20s", "--leader-elect-retry-period=1.5s", "--max-concurrent-reconciles=1000000",
		"--polling-fallback-interval=0", "--redis-allow-cidrs=10.0.0.0/8,fd00::/8", "--redis-deny-cidrs=0.0.0.0/0,::/0",
		"--max-redis-servers-per-namespace=0", "--pprof-bind-address=127.0.0.1:6060", "--zap-log-level=2", "--zap-encoder=json", "--zap-stacktrace-level=panic",
		"--zap-time-encoding=rfc3339", "--configure-redis-notifications", "--allow-insecure-redis-tls", "--zap-devel",
		"--zap-log-level=error",
	}))
}

func TestEveryFieldOfThePod(t *testing.T) {
	t.Parallel()
	const title = "Deployment ops/jobs-manager"
	r := renderSet(t, "every field of the Pod")
	r.Expect(r.titles("ConfigMap")).To(HaveLen(2))
	pod := r.fields(title, "spec", "template", "spec")
	r.Expect(pod).To(And(
		HaveKeyWithValue("imagePullSecrets.0.name", "registry"), HaveKeyWithValue("terminationGracePeriodSeconds", "60"),
		HaveKeyWithValue("priorityClassName", "system-cluster-critical"), HaveKeyWithValue("nodeSelector.kubernetes.io/os", "linux"),
		HaveKeyWithValue("tolerations.0.key", "dedicated"), HaveKey(HavePrefix("affinity.nodeAffinity")),
		HaveKeyWithValue("topologySpreadConstraints.0.labelSelector.matchLabels.app.kubernetes.io/name", "scaledjob-operator"),
		HaveKeyWithValue("topologySpreadConstraints.1.labelSelector.matchLabels.team", "queues"),
		HaveKeyWithValue("containers.0.env.0.name", "HTTPS_PROXY"), HaveKeyWithValue("containers.0.volumeMounts.0.mountPath", "/scratch"),
		HaveKeyWithValue("volumes.0.name", "scratch"),
		HaveKeyWithValue("containers.0.name", "manager"), HaveKeyWithValue("containers.1.ports.0.containerPort", "8444"),
		HaveKeyWithValue("initContainers.0.name", "before"), HaveKeyWithValue("enableServiceLinks", "true"),
		HaveKeyWithValue("hostUsers", "false"), HaveKeyWithValue("dnsPolicy", "None"),
		HaveKeyWithValue("dnsConfig.nameservers.0", "192.0.2.53"), HaveKeyWithValue("dnsConfig.options.0.value", "2"),
		HaveKeyWithValue("hostAliases.0.hostnames.0", "redis.example"),
		HaveKeyWithValue("runtimeClassName", "gvisor"), HaveKeyWithValue("schedulerName", "other")))
	r.Expect(r.fields(title, "spec")).To(HaveKeyWithValue("revisionHistoryLimit", "0"))
	r.Expect(pod).NotTo(HaveKey(HaveSuffix("resourceFieldRef.resource")), "there is no limit for GOMEMLIMIT")
	r.Expect(pod).NotTo(HaveKey("topologySpreadConstraints.1.labelSelector.matchLabels.app.kubernetes.io/name"))
	labels := r.fields(title, "spec", "template", "metadata", "labels")
	r.Expect(labels).To(And(HaveKeyWithValue("team", "queues"), HaveKeyWithValue("tier", "backend")))
	r.Expect(r.objects[title].GetLabels()).To(HaveKeyWithValue("team", "platform"))
}
