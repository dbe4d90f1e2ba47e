// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobtemplate

import (
	"context"
	"errors"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/stored"
)

var errAway = errors.New("the API server is away")

// history is an API server that knows how a ScaledJob was at these versions.
type history struct {
	client.Reader
	at  map[uint64]*scaledjobv1.ScaledJob
	err error
}

func (h history) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	asked := (&client.ListOptions{}).ApplyOptions(opts)
	version, err := strconv.ParseUint(asked.Raw.ResourceVersion, 10, 64)
	if err != nil || asked.Raw.ResourceVersionMatch != metav1.ResourceVersionMatchExact {
		return errors.New("asked for no exact version")
	}
	if was := h.at[version]; was != nil {
		list.(*stored.ScaledJobList).Items = []stored.ScaledJob{{ScaledJob: *was}}
	}
	return h.err
}

// written is the ScaledJob as it was written then, with so many Pods at once.
func written(version string, generation int64, parallelism int32) *scaledjobv1.ScaledJob {
	sj := scaledJob()
	sj.ResourceVersion, sj.Generation = version, generation
	sj.Spec.JobTemplate.Spec.Parallelism = &parallelism
	return sj
}

func TestRevisionOf(t *testing.T) {
	t.Parallel()
	now := written("30", 3, 2)
	hashOf := func(sj *scaledjobv1.ScaledJob) string { return jobs.TemplateHash(&sj.Spec.JobTemplate) }
	same, other := hashOf(now), hashOf(written("", 0, 1))
	another := written("29", 2, 2)
	another.UID = "uid-2"
	for name, c := range map[string]struct {
		before     scaledjobv1.ScaledJobStatus
		server     history
		immediate  bool
		generation int64
		changed    bool
		err        error
	}{
		"seen for the first time":        {generation: 3},
		"as it was":                      {before: seenAt(same, 2), generation: 1},
		"reads otherwise, not edited":    {before: seenAt(other, 3), generation: 1, changed: true},
		"edited":                         {before: seenAt(other, 2), server: history{at: map[uint64]*scaledjobv1.ScaledJob{29: written("20", 2, 1)}}, generation: 3, changed: true},
		"edited elsewhere":               {before: seenAt(other, 2), server: history{at: map[uint64]*scaledjobv1.ScaledJob{29: written("20", 2, 2)}}, generation: 1, changed: true},
		"edited over several writes":     {before: seenAt(other, 1), server: history{at: map[uint64]*scaledjobv1.ScaledJob{29: written("20", 2, 1), 19: written("10", 1, 2)}}, generation: 1, changed: true},
		"too long ago":                   {before: seenAt(other, 2), server: history{err: apierrors.NewResourceExpired("compacted")}, generation: 3, changed: true},
		"another of its name was there":  {before: seenAt(other, 2), server: history{at: map[uint64]*scaledjobv1.ScaledJob{29: another}}, generation: 3, changed: true},
		"no answer":                      {before: seenAt(other, 2), server: history{err: errAway}, generation: 3, changed: true},
		"no answer, Jobs may be deleted": {before: seenAt(other, 2), server: history{err: errAway}, immediate: true, err: errAway},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			sj := now.DeepCopy()
			if c.immediate {
				sj.Spec.Rollout.Strategy = scaledjobv1.RolloutImmediate
			}
			got, err := RevisionOf(t.Context(), c.server, sj, &c.before)
			if c.err != nil {
				g.Expect(err).To(MatchError(c.err))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(Revision{Hash: same, Generation: c.generation, Changed: c.changed}))
		})
	}
}

// seenAt is the status of a pass over this generation, with a template that nobody had edited since the first.
func seenAt(hash string, generation int64) scaledjobv1.ScaledJobStatus {
	return scaledjobv1.ScaledJobStatus{TemplateHash: hash, TemplateGeneration: 1, ObservedGeneration: generation}
}
