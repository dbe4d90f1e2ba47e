// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package gitops tests what Argo CD and Flux make of ScaledJobs, with their own engines: that a ScaledJob in the
// cluster does not differ from its manifest, and how healthy it is shown.
package gitops

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/programs"
)

const (
	// root is the root of the source.
	root = "../../.."
	// healthCheck is the health check for Argo CD.
	healthCheck = root + "/config/argocd/health.lua"
)

var (
	control *cluster.Cluster
	api     client.WithWatch
	// engines is the path of the program of that name.
	engines string
)

func TestMain(m *testing.M) {
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	os.Exit(cluster.Run(m, 0, start, stop))
}

func start(ctx context.Context) (err error) {
	if engines, err = programs.Path(ctx, os.Stderr, "gitops-engines"); err != nil {
		return err
	}
	control, api, err = operator.StartCluster(ctx, cluster.Options{ControllerManager: true, Log: os.Stderr})
	return err
}

func stop(context.Context) error { return control.Stop() }

// question and answer are those of the program engines.
type question struct {
	Kubeconfig  string      `json:"kubeconfig"`
	HealthCheck string      `json:"healthCheck"`
	Expressions expressions `json:"expressions"`
	Objects     []pair      `json:"objects"`
}

type expressions struct {
	InProgress string `json:"inProgress"`
	Failed     string `json:"failed"`
	Current    string `json:"current"`
}

// pair is an object of the cluster and its manifest.
type pair struct {
	Manifest *unstructured.Unstructured `json:"manifest"`
	Live     *unstructured.Unstructured `json:"live"`
}

type answer struct {
	Differences map[string]string `json:"differences"`
	ArgoCD      string            `json:"argoCD"`
	Message     string            `json:"message"`
	Kstatus     string            `json:"kstatus"`
	Flux        string            `json:"flux"`
}

// ask runs the engines over the objects.
func ask(ctx context.Context, asked question) ([]answer, error) {
	script, err := os.ReadFile(healthCheck)
	if err != nil {
		return nil, err
	}
	asked.HealthCheck = string(script)
	input, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	run := exec.CommandContext(ctx, engines)
	run.Stdin = bytes.NewReader(input)
	output, err := run.Output()
	if failed, is := errors.AsType[*exec.ExitError](err); is {
		return nil, fmt.Errorf("%w: %s", err, failed.Stderr)
	}
	if err != nil {
		return nil, err
	}
	var answers []answer
	return answers, json.Unmarshal(output, &answers)
}
