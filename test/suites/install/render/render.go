// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package render renders what users install: the Helm chart, and the kustomizations of config.
package render

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"miracle.dev/scaledjob-operator/test/kit/manifests"
	"miracle.dev/scaledjob-operator/test/kit/programs"
)

// OldestKubernetes is the oldest version that the chart accepts.
const OldestKubernetes = "1.34"

// Release is a release of the chart.
type Release struct {
	Name, Namespace string
	// Values is a file of values. It wins over that of Image.
	Values string
}

// Helm runs a command of Helm that takes the chart, such as "install", for the release. It returns what Helm prints; an
// error has what Helm says.
func (r Release) Helm(ctx context.Context, command string, args ...string) (string, error) {
	chart, err := Chart()
	if err != nil {
		return "", err
	}
	// Without a tag of the image, the chart of the source refuses to be installed.
	image := filepath.Join(chart, "..", "..", "test", "suites", "install", "render", "image.yaml")
	return Helm(ctx, r.Values, append([]string{
		command, r.Name, chart, "--namespace=" + r.Namespace, "--values=" + image, "--values=-",
	}, args...)...)
}

// Manifest returns what Helm would send to the API server.
func (r Release) Manifest(ctx context.Context) (string, error) {
	return r.Helm(ctx, "template", "--kube-version="+OldestKubernetes)
}

// Objects returns the objects of the manifest.
func (r Release) Objects(ctx context.Context) ([]*unstructured.Unstructured, error) {
	manifest, err := r.Manifest(ctx)
	if err != nil {
		return nil, err
	}
	return manifests.Parse(manifest)
}

// helm returns the path of the Helm that hack/tools/helm pins. The first call builds it.
var helm = sync.OnceValues(func() (string, error) {
	root, err := programs.Root()
	if err != nil {
		return "", err
	}
	path, err := programs.Go(context.Background(), root, "tool", "-n", "-modfile=hack/tools/helm/go.mod", "helm")
	return strings.TrimSpace(path), err
})

// Helm runs Helm with this standard input, and returns what it prints. Nothing of the user's counts.
func Helm(ctx context.Context, stdin string, args ...string) (string, error) {
	path, err := helm()
	if err != nil {
		return "", err
	}
	var output, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{"HOME=/nonexistent"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &output, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("helm: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return output.String(), nil
}

// Manifest returns what a kustomization of config renders, such as "default".
func Manifest(ctx context.Context, kustomization string) (string, error) {
	root, err := programs.Root()
	if err != nil {
		return "", err
	}
	return programs.Kustomize(ctx, filepath.Join(root, "config", kustomization))
}

// Kustomizations returns the objects of kustomizations of config.
func Kustomizations(ctx context.Context, names ...string) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, name := range names {
		manifest, err := Manifest(ctx, name)
		if err != nil {
			return nil, err
		}
		objects, err := manifests.Parse(manifest)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

// Arguments returns those of the operator in the Deployment among objects.
func Arguments(objects []*unstructured.Unstructured) ([]string, error) {
	isDeployment := func(object *unstructured.Unstructured) bool { return object.GetKind() == "Deployment" }
	deployment := objects[slices.IndexFunc(objects, isDeployment)]
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if err != nil {
		return nil, err
	}
	args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	return args, err
}

// Chart returns the folder of the chart.
func Chart() (string, error) {
	root, err := programs.Root()
	return filepath.Join(root, "charts", "scaledjob-operator"), err
}
