// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command engines runs the engines of Argo CD and Flux over objects: how they compare an object in the cluster with its
// manifest, and how healthy they find it. It reads a question as JSON from its standard input, and writes the answers.
//
// It has a module of its own, because the engine of Argo CD needs an older version of Kubernetes than the operator.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Question is what is asked.
type Question struct {
	// Kubeconfig is the path of a kubeconfig file of the cluster that the objects are in. Without it, objects are not
	// compared.
	Kubeconfig string `json:"kubeconfig"`
	// HealthCheck is the health check of Argo CD, in Lua.
	HealthCheck string `json:"healthCheck"`
	// Expressions are the health checks of Flux.
	Expressions Expressions `json:"expressions"`
	// Objects are the objects.
	Objects []Object `json:"objects"`
}

// Object is an object as it is in the cluster, and its manifest, which may be missing if objects are not compared.
type Object struct {
	Manifest *unstructured.Unstructured `json:"manifest"`
	Live     *unstructured.Unstructured `json:"live"`
}

// Answer is what the engines make of an object.
type Answer struct {
	// Differences are what Argo CD would change, by the way it compares. Ways without a difference are absent.
	Differences map[string]string `json:"differences"`
	// ArgoCD is the health that Argo CD shows, and Message what it says about it.
	ArgoCD  string `json:"argoCD"`
	Message string `json:"message"`
	// Kstatus is the status that Flux waits by, and Flux the one with the expressions.
	Kstatus string `json:"kstatus"`
	Flux    string `json:"flux"`
}

func main() {
	if err := run(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "engines:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, in io.Reader, out io.Writer) error {
	var question Question
	if err := json.NewDecoder(in).Decode(&question); err != nil {
		return fmt.Errorf("reading the question: %w", err)
	}
	answers := make([]Answer, len(question.Objects))
	if err := compareAll(question, answers); err != nil {
		return err
	}
	for i, object := range question.Objects {
		if err := judge(ctx, question, object.Live, &answers[i]); err != nil {
			return fmt.Errorf("%s: %w", object.Live.GetName(), err)
		}
	}
	return json.NewEncoder(out).Encode(answers)
}
