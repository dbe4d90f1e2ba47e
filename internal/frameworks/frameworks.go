// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package frameworks knows the Redis keys of job frameworks. All of it is in one data file, from which the table in
// docs/how-to/queues.md is generated too, and the manifests on the pages below docs/how-to/frameworks.
//
//	frameworks.yaml  the data
//	manifest.go      a ScaledJob for a framework
//	page.go          what is generated on the page of a framework
//	table.go         the table
package frameworks

import (
	_ "embed"
	"fmt"

	"sigs.k8s.io/yaml"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

//go:embed frameworks.yaml
var data []byte

// Framework is a job framework, with the keys of one of its queues. Queue stands for its name in the keys and texts.
type Framework struct {
	// ID is the name that users type, and Name the one that they read.
	ID   string `json:"id"`
	Name string `json:"name"`
	// DefaultQueue is the name of the queue unless workers choose another one; empty if there is none.
	DefaultQueue string `json:"queue,omitempty"`
	// Keys are those that count.
	Keys []Key `json:"keys"`
	// Strategy is the type of the scaling strategy; empty for the default.
	Strategy scaledjobv1.ScalingStrategyType `json:"strategy,omitempty"`
	// Number says how exact the number of Jobs is, and Notes what else to know.
	Number string   `json:"number"`
	Notes  []string `json:"notes,omitempty"`
	// Page is the name of the page that shows the framework; empty for what is no framework.
	Page string `json:"page,omitempty"`
	// Evidence says how the keys are known, and Version of which release.
	Evidence Evidence `json:"evidence,omitempty"`
	Version  string   `json:"version,omitempty"`
	// End is how a worker ends when the queue is empty; empty if the framework has no option for it.
	End string `json:"end,omitempty"`
	// ClaimGrace is how long a worker of these pages may take from ready to its message, in seconds; 0 for the default. It
	// has to start, and may wait for a message.
	ClaimGrace int32 `json:"claimGrace,omitempty"`
	// Grace is how long a worker may take to finish its message after SIGTERM, in seconds; 0 if SIGTERM ends its work.
	Grace int `json:"grace,omitempty"`
}

// Evidence is how the keys of a framework are known.
type Evidence string

const (
	// Tested means that workers of the framework ran, and their keys were looked at before, during and after a message.
	Tested Evidence = "tested"
	// Read means that the source was read.
	Read Evidence = "read"
)

// Key is a Redis key.
type Key struct {
	Name string `json:"name"`
	// Type and Role are empty for their defaults. With a window, the type is SortedSet.
	Type          scaledjobv1.QueueType       `json:"type,omitempty"`
	Role          scaledjobv1.QueueRole       `json:"role,omitempty"`
	ConsumerGroup string                      `json:"consumerGroup,omitempty"`
	Window        scaledjobv1.SortedSetWindow `json:"window,omitempty"`
	ScoreUnit     scaledjobv1.ScoreUnit       `json:"scoreUnit,omitempty"`
	// Condition says when the key is needed; empty if it always is.
	Condition string `json:"condition,omitempty"`
}

// placeholder stands for the name of the queue.
const placeholder = "$Q"

// All returns the frameworks in the order of the table.
func All() ([]Framework, error) {
	var all []Framework
	if err := yaml.UnmarshalStrict(data, &all); err != nil {
		return nil, fmt.Errorf("reading the frameworks: %w", err)
	}
	for i := range all {
		for j := range all[i].Keys {
			if key := &all[i].Keys[j]; key.Window != "" {
				key.Type = scaledjobv1.QueueSortedSet
			}
		}
	}
	return all, nil
}
