// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobtemplate

import (
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/stored"
)

// maxEdits is how many edits of a ScaledJob are looked back upon.
const maxEdits = 16

// Revision tells a job template from those that its ScaledJob had before.
type Revision struct {
	// Hash is that of the template as it reads now.
	Hash string
	// Generation is that of the spec since which nobody has edited the template.
	Generation int64
	// Changed says that it reads otherwise than before.
	Changed bool
}

// RevisionOf compares the template with what the status tells of it. It may read otherwise although nobody has edited it, since what the CRD
// has as a default is put into objects when they are read. So of an edit of the spec after which the template reads otherwise, it is asked
// how the spec before reads today. Without an answer it is taken for an edit, unless Jobs could be deleted for that: then it is an error.
func RevisionOf(
	ctx context.Context, live client.Reader, sj *scaledjobv1.ScaledJob, before *scaledjobv1.ScaledJobStatus,
) (Revision, error) {
	now := Revision{Hash: jobs.TemplateHash(&sj.Spec.JobTemplate), Generation: before.TemplateGeneration}
	if before.TemplateHash == "" {
		now.Generation = sj.Generation
		return now, nil
	}
	now.Changed = now.Hash != before.TemplateHash
	if !now.Changed || sj.Generation == before.ObservedGeneration {
		return now, nil
	}
	earlier, err := hashAt(ctx, live, sj, before.ObservedGeneration)
	if err != nil && sj.Spec.Rollout.Strategy == scaledjobv1.RolloutImmediate {
		return Revision{}, err
	}
	if earlier != now.Hash {
		now.Generation = sj.Generation
	}
	return now, nil
}

// hashAt is the hash that the template of an earlier generation has as it is read today. It is empty if the API server does not keep that
// generation any more, as it does for some minutes.
func hashAt(ctx context.Context, live client.Reader, sj *scaledjobv1.ScaledJob, generation int64) (string, error) {
	at := sj
	for range maxEdits {
		before, err := writtenBefore(ctx, live, at)
		if err != nil || before == nil || before.Generation < generation {
			return "", err
		}
		if before.Generation == generation {
			return jobs.TemplateHash(&before.Spec.JobTemplate), nil
		}
		at = before
	}
	return "", nil
}

// writtenBefore is the ScaledJob as it was before it was written as it is here, and nil if the API server does not keep that.
func writtenBefore(ctx context.Context, live client.Reader, sj *scaledjobv1.ScaledJob) (*scaledjobv1.ScaledJob, error) {
	version, err := strconv.ParseUint(sj.ResourceVersion, 10, 64)
	if err != nil || version < 2 {
		return nil, nil //nolint:nilerr // Of a version that is no number, it can't be told what was before.
	}
	var found stored.ScaledJobList
	err = live.List(ctx, &found, client.InNamespace(sj.Namespace), &client.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", sj.Name),
		Raw: &metav1.ListOptions{
			ResourceVersion: strconv.FormatUint(version-1, 10), ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		},
	})
	switch {
	case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("asking how the ScaledJob was before: %w", err)
	case len(found.Items) == 0 || found.Items[0].UID != sj.UID:
		return nil, nil
	}
	return &found.Items[0].ScaledJob, nil
}
