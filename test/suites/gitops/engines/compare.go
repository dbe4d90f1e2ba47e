// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/diff"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/tracing"
	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/clientcmd"
)

// fieldManager is the name that Argo CD applies objects with.
const fieldManager = "argocd-controller"

// compareAll compares the objects in each way that Argo CD knows: as it does without any option, with
// ServerSideApply=true, and with ServerSideDiff=true.
func compareAll(question Question, answers []Answer) error {
	if question.Kubeconfig == "" {
		return nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", question.Kubeconfig)
	if err != nil {
		return err
	}
	kubectl := &kube.KubectlCmd{Log: logr.Discard(), Tracer: tracing.NopTracer{}}
	_, parser, err := kubectl.LoadOpenAPISchema(config)
	if err != nil {
		return err
	}
	applier, cleanup, err := kubectl.ManageServerSideDiffDryRuns(config)
	if err != nil {
		return err
	}
	defer cleanup()
	common := []diff.Option{diff.WithLogr(logr.Discard()), diff.WithGVKParser(parser), diff.WithManager(fieldManager)}
	ways := map[string][]diff.Option{
		"client-side":       common,
		"server-side apply": append(common[:3:3], diff.WithStructuredMergeDiff(true)),
		"server-side diff": append(common[:3:3], diff.WithServerSideDiff(true),
			diff.WithServerSideDryRunner(diff.NewK8sServerSideDryRunner(applier))),
	}
	for i, object := range question.Objects {
		answers[i].Differences = map[string]string{}
		for way, options := range ways {
			change, err := compare(object, options)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", object.Live.GetName(), way, err)
			}
			if change != "" {
				answers[i].Differences[way] = change
			}
		}
	}
	return nil
}

// compare returns how Argo CD would change the object, as a merge patch, or nothing if it is in sync.
func compare(object Object, options []diff.Option) (string, error) {
	result, err := diff.Diff(object.Manifest.DeepCopy(), object.Live.DeepCopy(), options...)
	if err != nil || !result.Modified {
		return "", err
	}
	change, err := jsonpatch.CreateMergePatch(result.NormalizedLive, result.PredictedLive)
	return string(change), err
}
