// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// The keys below are written by the operator on every Job and Pod it creates. A job template must not hold keys of this
// prefix.
const (
	// KeyPrefix is the prefix reserved for the operator's own labels and annotations.
	KeyPrefix = "batch.miracle.dev/"
	// LabelScaledJob names the ScaledJob that a Job or Pod belongs to. It is for selectors of users: the operator itself
	// uses only the controller reference.
	LabelScaledJob = KeyPrefix + "scaledjob"
	// LabelManagedBy is the standard label that names the tool which manages an object.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy, unless the job template sets another one.
	ManagedBy = "scaledjob-operator"
	// AnnotationOrdinal is a Job's number among all the Jobs of its ScaledJob, counted from 1. The Job's name derives
	// from it.
	AnnotationOrdinal = KeyPrefix + "ordinal"
	// AnnotationOrdinalFloor is an ordinal up to which no other Job was on its way when a Job was created: each of them
	// has, or had, its Job.
	AnnotationOrdinalFloor = KeyPrefix + "ordinal-floor"
	// AnnotationTemplateHash is the hash of the JSON of the job template that a Job was built from. Earlier versions wrote
	// another hash, under another name, so that the two are never compared.
	AnnotationTemplateHash = KeyPrefix + "template"
	// AnnotationGeneration is the generation of the ScaledJob that a Job was built from. The operator never replaces a Job
	// of the current or a later generation: a cache may show an earlier one.
	AnnotationGeneration = KeyPrefix + "generation"
)

// The variables that the operator sets in each container of a Job, unless the template sets them.
const (
	// EnvName has the name of the ScaledJob.
	EnvName = "SCALEDJOB_NAME"
	// EnvQueue has the key of the queue, or the keys of all queues with the role Waiting, one per line.
	EnvQueue = "SCALEDJOB_QUEUE"
	// EnvThreshold has spec.threshold.
	EnvThreshold = "SCALEDJOB_THRESHOLD"
)
