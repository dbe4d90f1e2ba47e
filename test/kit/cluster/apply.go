// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/manifests"
)

// fieldOwner is the field manager of what Apply sets.
const fieldOwner = "cluster-test"

// InstallCRDs applies the manifests in files, and in folders those named
// *.yaml, and returns when their kinds are served.
func (c *Cluster) InstallCRDs(ctx context.Context, paths ...string) error {
	for _, path := range paths {
		files, err := manifestFiles(path)
		if err != nil {
			return err
		}
		for _, file := range files {
			if err := c.applyFile(ctx, file); err != nil {
				return fmt.Errorf("installing %s: %w", file, err)
			}
		}
	}
	return nil
}

// manifestFiles returns the YAML files of a folder, or the file path itself is.
func manifestFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	files, err := filepath.Glob(filepath.Join(path, "*.yaml"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no manifest in %s", path)
	}
	return files, err
}

func (c *Cluster) applyFile(ctx context.Context, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(c.Apply(ctx, file), file.Close())
}

// Apply creates or updates the objects of a stream of YAML documents, in their order, by server-side apply. A
// namespaced object that names no namespace goes to "default". After a CustomResourceDefinition it waits until the kind
// is served.
func (c *Cluster) Apply(ctx context.Context, documents io.Reader) error {
	manifest, err := io.ReadAll(documents)
	if err != nil {
		return fmt.Errorf("reading a manifest: %w", err)
	}
	objects, err := manifests.Parse(string(manifest))
	if err != nil {
		return fmt.Errorf("reading a manifest: %w", err)
	}
	for _, object := range objects {
		if err := c.applyObject(ctx, object); err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), client.ObjectKeyFromObject(object), err)
		}
	}
	return nil
}

func (c *Cluster) applyObject(ctx context.Context, object *unstructured.Unstructured) error {
	namespaced, err := c.client.IsObjectNamespaced(object)
	if err != nil {
		return err
	}
	if namespaced && object.GetNamespace() == "" {
		object.SetNamespace(metav1.NamespaceDefault)
	}
	configuration := client.ApplyConfigurationFromUnstructured(object)
	if err := c.client.Apply(ctx, configuration, client.FieldOwner(fieldOwner), client.ForceOwnership); err != nil {
		return err
	}
	if object.GroupVersionKind() == crdKind {
		return poll(ctx, func(ctx context.Context) error { return c.isServed(ctx, object.GetName()) })
	}
	return nil
}

var crdKind = apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")

// isServed fails unless the kind a CustomResourceDefinition defines is served.
func (c *Cluster) isServed(ctx context.Context, name string) error {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := c.client.Get(ctx, client.ObjectKey{Name: name}, &crd); err != nil {
		return err
	}
	established := slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
	if !established {
		return errors.New("not established")
	}
	// Clients look a kind up in discovery, which follows a moment later.
	_, err := c.client.RESTMapper().RESTMapping(schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind})
	return err
}
