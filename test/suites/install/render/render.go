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
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"miracle.dev/scaledjob-operator/test/kit/manifests"
)

// OldestKubernetes is the oldest version that the chart accepts.
const OldestKubernetes = "1.34"

// Release is a release of the chart.
type Release struct {
	Name, Namespace string
	// Values is a file of values. It wins over that of Image.
	Values string
}

// Manifest returns what Helm would send to the API server. An error has what Helm says.
func (r Release) Manifest(ctx context.Context) (string, error) {
	chart, err := Chart(ctx)
	if err != nil {
		return "", err
	}
	image, err := Image(ctx)
	if err != nil {
		return "", err
	}
	return Helm(ctx, r.Values, "template", r.Name, chart, "--namespace="+r.Namespace, "--values="+image, "--values=-",
		"--kube-version="+OldestKubernetes)
}

// Objects returns the objects of the manifest.
func (r Release) Objects(ctx context.Context) ([]*unstructured.Unstructured, error) {
	manifest, err := r.Manifest(ctx)
	if err != nil {
		return nil, err
	}
	return manifests.Parse(manifest)
}

// Helm runs the Helm that hack/tools/helm pins, with this standard input, and returns what it prints. Nothing of the
// user's counts.
func Helm(ctx context.Context, stdin string, args ...string) (string, error) {
	path, err := tool(ctx, "hack/tools/helm/go.mod", "helm")
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{"HOME=/nonexistent"}
	cmd.Stdin = strings.NewReader(stdin)
	return run(cmd)
}

// Manifest returns what a kustomization of config renders, such as "default".
func Manifest(ctx context.Context, kustomization string) (string, error) {
	root, err := Root(ctx)
	if err != nil {
		return "", err
	}
	return build(ctx, filepath.Join(root, "config", kustomization))
}

// Kustomization returns the objects of the kustomization in a folder.
func Kustomization(ctx context.Context, folder string) ([]*unstructured.Unstructured, error) {
	manifest, err := build(ctx, folder)
	if err != nil {
		return nil, err
	}
	return manifests.Parse(manifest)
}

func build(ctx context.Context, folder string) (string, error) {
	path, err := tool(ctx, "hack/tools/go.mod", "kustomize")
	if err != nil {
		return "", err
	}
	return run(exec.CommandContext(ctx, path, "build", folder))
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

// Chart returns the folder of the chart.
func Chart(ctx context.Context) (string, error) {
	root, err := Root(ctx)
	return filepath.Join(root, "charts", "scaledjob-operator"), err
}

// Image returns a file of values with a tag of the image, without which the chart of the source refuses to be installed.
func Image(ctx context.Context) (string, error) {
	root, err := Root(ctx)
	return filepath.Join(root, "test", "suites", "install", "render", "image.yaml"), err
}

// Root returns the root of the source.
func Root(ctx context.Context) (string, error) {
	file, err := goCommand(ctx, "env", "GOMOD")
	return filepath.Dir(file), err
}

// tool returns the path of a program that a file go.mod pins. The first call builds the program.
func tool(ctx context.Context, modFile, name string) (string, error) {
	root, err := Root(ctx)
	if err != nil {
		return "", err
	}
	return goCommand(ctx, "tool", "-n", "-modfile="+filepath.Join(root, modFile), name)
}

// answers are those of the go command, by its arguments. It takes its time, and always answers the same.
var answers struct {
	mu   sync.Mutex
	text map[string]string
}

// goCommand returns the line that the go command prints.
func goCommand(ctx context.Context, args ...string) (string, error) {
	answers.mu.Lock()
	defer answers.mu.Unlock()
	key := strings.Join(args, " ")
	if text, known := answers.text[key]; known {
		return text, nil
	}
	output, err := run(exec.CommandContext(ctx, "go", args...))
	if err != nil {
		return "", err
	}
	if answers.text == nil {
		answers.text = map[string]string{}
	}
	answers.text[key] = strings.TrimSpace(output)
	return answers.text[key], nil
}

func run(cmd *exec.Cmd) (string, error) {
	var output, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return output.String(), nil
}
