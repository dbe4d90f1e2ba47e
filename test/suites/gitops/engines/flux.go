// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Expressions are an item of healthCheckExprs of a Kustomization of Flux.
type Expressions struct {
	InProgress string `json:"inProgress"`
	Failed     string `json:"failed"`
	Current    string `json:"current"`
}

// status evaluates the expressions in the order that Flux documents. An object whose generation was not observed is in
// progress whatever they say, and so is one for which none of them is true. An expression that asks for a field which
// is missing fails, and Flux goes on waiting.
func (e Expressions) status(object *unstructured.Unstructured) (string, error) {
	observed, found, err := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	if err != nil || found && observed != object.GetGeneration() {
		return status.InProgressStatus.String(), err
	}
	for _, each := range []struct {
		expression string
		means      status.Status
	}{{e.InProgress, status.InProgressStatus}, {e.Failed, status.FailedStatus}, {e.Current, status.CurrentStatus}} {
		if each.expression == "" {
			continue
		}
		is, err := holds(each.expression, object)
		if err != nil {
			return "", err
		}
		if is {
			return each.means.String(), nil
		}
	}
	return status.InProgressStatus.String(), nil
}

func holds(expression string, object *unstructured.Unstructured) (bool, error) {
	environment, err := cel.NewEnv(cel.OptionalTypes())
	if err != nil {
		return false, err
	}
	parsed, issues := environment.Parse(expression)
	if issues.Err() != nil {
		return false, issues.Err()
	}
	program, err := environment.Program(parsed)
	if err != nil {
		return false, err
	}
	result, _, err := program.Eval(object.Object)
	return err == nil && result.Value() == true, nil // An error is a missing field.
}
