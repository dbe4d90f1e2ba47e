// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/suites/install/render"
)

// Kubernetes permits names that YAML would read as numbers, booleans, dates or nothing.
func TestNamesThatLookLikeOtherThingsAreTexts(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"123", "1e3", "0x10", "on", "true", "null", "2026-01-01"} {
		for name, values := range map[string]string{"cluster": namesInTheCluster, "roles": namesInRoles} {
			t.Run(word+" "+name, func(t *testing.T) {
				t.Parallel()
				g := NewWithT(t)
				release := render.Release{Name: word, Namespace: word, Values: strings.ReplaceAll(values, "WORD", word)}
				objects := must.Get(release.Objects(t.Context()))(g)
				for _, object := range objects {
					g.Expect(otherThanTexts("", object.Object)).To(BeEmpty(), title(object))
					if object.GetKind() == "RoleBinding" {
						g.Expect(object.GetNamespace()).To(Equal(word), title(object))
					}
				}
			})
		}
	}
}

const namesInTheCluster = `
commonLabels: {example.com/team: "WORD"}
commonAnnotations: {example.com/team: "WORD"}
deploymentAnnotations: {example.com/note: "WORD"}
runtimeClassName: "WORD"
schedulerName: "WORD"
podLabels: {example.com/tier: "WORD"}
podAnnotations: {example.com/note: "WORD"}
imagePullSecrets: [{name: "WORD"}]
nodeSelector: {example.com/disk: "WORD"}
nameOverride: "WORD"
priorityClassName: "WORD"
serviceAccount: {name: "WORD", annotations: {example.com/role: "WORD"}}
secrets: {namespaces: ["WORD"]}
leaderElection: {namespace: "WORD", id: "WORD"}
networkPolicy: {enabled: true}
grafanaDashboard: {enabled: true, namespace: "WORD", label: "WORD", labelValue: "WORD", annotations: {example.com/folder: "WORD"}}
metrics:
  authentication: ClientCertificate
  clientCASecret: {name: "WORD", key: "WORD"}
  certificateSecret: "WORD"
  serviceMonitor: {enabled: true, clientCertificateSecret: "WORD", labels: {release: "WORD"}, interval: "0"}
prometheusRule: {enabled: true, labels: {release: "WORD"}, annotations: {example.com/note: "WORD"}}
`

const namesInRoles = `
watchNamespaces: ["WORD"]
crds: {enabled: false}
namespaceOverride: "WORD"
image: {repository: "WORD", tag: "WORD"}
fullnameOverride: "WORD"
serviceAccount: {create: false, name: "WORD"}
metrics: {podMonitor: {enabled: true, scrapeTimeout: "0"}}
`

var (
	// notTexts are the fields that are not texts, other than in the CRD.
	notTexts = regexp.MustCompile(`\.(replicas|\w*[pP]ort|\w*Seconds|failureThreshold|maxSkew|maxUnavailable|automountServiceAccountToken|enableServiceLinks|` +
		`readOnly\w*|runAsNonRoot|allowPrivilegeEscalation|honorLabels|insecureSkipVerify)$`)
	// inSchema are those of the CRD, which no value changes.
	inSchema = regexp.MustCompile(`^\.spec\.(versions|names)\.`)
)

// otherThanTexts are the leaves that should be texts and are not.
func otherThanTexts(path string, value any) []string {
	var found []string
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			found = append(found, otherThanTexts(path+"."+key, field)...)
		}
	case []any:
		for i, item := range value {
			found = append(found, otherThanTexts(fmt.Sprintf("%s.%d", path, i), item)...)
		}
	case string:
	default:
		if !notTexts.MatchString(path) && !inSchema.MatchString(path) {
			found = append(found, fmt.Sprintf("%s: %v", path, value))
		}
	}
	return found
}
