// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"bytes"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"miracle.dev/scaledjob-operator/test/kit/manifests"
)

// Names in the manifests.
const (
	namespace     = "kueue-system"
	account       = "kueue-controller-manager"
	certificates  = "kueue-webhook-server-cert"
	service       = "kueue-webhook-service"
	configuration = "controller_manager_config.yaml"
)

// Excluded is a label of namespaces that Kueue has nothing to do with: neither it nor its webhooks see what is in them.
const Excluded = "kueue.test/excluded"

// included selects the other namespaces.
func included() map[string]any { return map[string]any{"key": Excluded, "operator": "DoesNotExist"} }

// local is where Kueue runs: the port of its webhooks, the address of its probes, and the folder of its certificates.
type local struct {
	port         int64
	probes       string
	certificates string
}

// adapted are the manifests for a Kueue that runs outside the cluster, and its configuration.
type adapted struct {
	objects       bytes.Buffer
	configuration []byte
}

// adapt changes the manifests that are shipped.
func (l local) adapt(shipped []byte) (*adapted, error) {
	result := &adapted{}
	objects, err := manifests.Parse(string(shipped))
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		if err := l.add(object, result); err != nil {
			return nil, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return result, nil
}

// add adds an object, changed where that is necessary.
func (l local) add(object *unstructured.Unstructured, to *adapted) (err error) {
	switch object.GetKind() {
	case "Deployment", "APIService":
		return nil
	case "ConfigMap":
		to.configuration, err = l.configure(object)
		return err
	case "Service":
		if object.GetName() != service {
			return nil
		}
		// The API server takes the port from the webhooks, and the name in the certificate from the Service.
		object.Object["spec"] = map[string]any{"type": "ExternalName", "externalName": host}
	case "CustomResourceDefinition":
		err = l.setPort(object.Object, "spec", "conversion", "webhook")
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		err = l.changeWebhooks(object)
	}
	if err != nil {
		return err
	}
	document, err := yaml.Marshal(object.Object)
	to.objects.WriteString("---\n")
	to.objects.Write(document)
	return err
}

// setPort sets the port of a webhook, if there is one in these fields.
func (l local) setPort(object map[string]any, fields ...string) error {
	webhook, found, err := unstructured.NestedMap(object, fields...)
	if err != nil || !found {
		return err
	}
	if err := unstructured.SetNestedField(webhook, l.port, "clientConfig", "service", "port"); err != nil {
		return err
	}
	return unstructured.SetNestedMap(object, webhook, fields...)
}

// changeWebhooks sets the ports, and leaves out the namespaces that are excluded.
func (l local) changeWebhooks(object *unstructured.Unstructured) error {
	webhooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
	if err != nil {
		return err
	}
	for _, each := range webhooks {
		webhook, isMap := each.(map[string]any)
		if !isMap {
			return fmt.Errorf("a webhook is %v", each)
		}
		if err := unstructured.SetNestedField(webhook, l.port, "clientConfig", "service", "port"); err != nil {
			return err
		}
		selector, found, err := unstructured.NestedSlice(webhook, "namespaceSelector", "matchExpressions")
		if err != nil {
			return err
		}
		if !found {
			continue // It is about Kueue's own objects.
		}
		if err := unstructured.SetNestedSlice(webhook, append(selector, included()), "namespaceSelector", "matchExpressions"); err != nil {
			return err
		}
	}
	return unstructured.SetNestedSlice(object.Object, webhooks, "webhooks")
}

// configure returns the configuration in a ConfigMap, changed.
func (l local) configure(object *unstructured.Unstructured) ([]byte, error) {
	text, _, err := unstructured.NestedString(object.Object, "data", configuration)
	if err != nil {
		return nil, err
	}
	var config map[string]any
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return nil, err
	}
	config["health"] = map[string]any{"healthProbeBindAddress": l.probes}
	config["metrics"] = map[string]any{"bindAddress": "0"}
	config["webhook"] = map[string]any{"host": host, "port": l.port, "certDir": l.certificates}
	config["leaderElection"] = map[string]any{"leaderElect": false}
	config["integrations"] = map[string]any{"frameworks": []any{"batch/job"}}
	config["managedJobsNamespaceSelector"] = map[string]any{"matchExpressions": []any{
		map[string]any{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": []any{"kube-system", namespace}},
		included(),
	}}
	config["featureGates"] = map[string]any{"VisibilityOnDemand": false}
	return yaml.Marshal(config)
}
