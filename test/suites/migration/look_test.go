// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"sync"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
	"miracle.dev/scaledjob-operator/test/kit/keda"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

const (
	// paused is the annotation that stops KEDA from looking.
	paused = "autoscaling.keda.sh/paused"
	// marker is the ScaledJob of KEDA that shows what KEDA's cache has.
	marker = "marker"
)

// stopping is what KEDA logs when it stops to look at the keys of a ScaledJob.
const stopping = "Stopping a ScaleLoop"

// lookEnds are what KEDA logs at the end of a look, when all Jobs are created.
var lookEnds = map[string]bool{
	"Created jobs": true, "No need to create jobs - all requested jobs already exist": true, "No change in activity": true,
}

// journal counts what KEDA logs. It is safe for concurrent use.
type journal struct {
	path string

	mu   sync.Mutex
	read int64 // bytes of the log
	// logged is by ScaledJob.
	logged map[types.NamespacedName]logged
}

// logged are the looks that have ended, how often KEDA has stopped to look, and what it has counted last.
type logged struct {
	looks, stops int
	jobs         jobCounts
}

type jobCounts struct{ running, pending int }

// line is one of the log.
type line struct {
	Message   string               `json:"msg"`
	Name      string               `json:"scaledJob.Name"`
	Namespace string               `json:"scaledJob.Namespace"`
	ScaledJob types.NamespacedName `json:"ScaledJob"`
	Running   *int                 `json:"Number of running Jobs"`
	Pending   *int                 `json:"Number of pending Jobs"`
}

// of returns what the log has of a ScaledJob until now.
func (j *journal) of(namespace, name string) (logged, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	file, err := os.Open(j.path)
	if err != nil {
		return logged{}, err
	}
	defer func() { _ = file.Close() }() // It was only read.
	fresh, err := io.ReadAll(io.NewSectionReader(file, j.read, 1<<40))
	if err != nil {
		return logged{}, err
	}
	fresh = fresh[:bytes.LastIndexByte(fresh, '\n')+1]
	j.read += int64(len(fresh))
	for text := range bytes.Lines(fresh) {
		var is line
		if json.Unmarshal(text, &is) == nil {
			j.note(is)
		}
	}
	return j.logged[types.NamespacedName{Namespace: namespace, Name: name}], nil
}

func (j *journal) note(is line) {
	key := types.NamespacedName{Namespace: is.Namespace, Name: is.Name}
	if is.Message == stopping {
		key = is.ScaledJob
	}
	of := j.logged[key]
	switch {
	case is.Message == stopping:
		of.stops++
	case lookEnds[is.Message]:
		of.looks++
	case is.Running != nil:
		// What is pending follows, and is then of the same look.
		of.jobs = jobCounts{running: *is.Running, pending: -1}
	case is.Pending != nil:
		of.jobs.pending = *is.Pending
	}
	j.logged[key] = of
}

// look has KEDA look at the keys once, after its cache has all that has happened, and returns when KEDA has created
// what it wants to.
func (s *stage) look() {
	s.t.Helper()
	s.catchUp()
	before := s.logged(s.name)
	s.pause(nil)
	s.Eventually(func() int { return s.logged(s.name).looks }).Should(BeNumerically(">", before.looks), "KEDA looks")
	s.pause("true")
	s.Eventually(func() int { return s.logged(s.name).stops }).Should(BeNumerically(">", before.stops), "KEDA is paused")
	s.Expect(s.logged(s.name).looks).To(Equal(before.looks+1), "KEDA has looked more than once, so its number says nothing")
}

// logged is what KEDA's log has of a ScaledJob of this name.
func (s *stage) logged(name string) logged {
	s.t.Helper()
	return must.Get(kedaLog.of(s.namespace, name))(s)
}

// pause sets the annotation of KEDA's ScaledJob. Nil removes it.
func (s *stage) pause(value any) {
	s.t.Helper()
	s.patch(s.theirs, map[string]any{"metadata": map[string]any{"annotations": map[string]any{paused: value}}})
}

// catchUp returns when KEDA's cache has all that has happened to Jobs and Pods: KEDA counts a Job that was created
// after that, and its Pod as running.
func (s *stage) catchUp() {
	s.t.Helper()
	s.markers++
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, GenerateName: "seen-", Labels: map[string]string{keda.JobLabel: marker}},
		Spec:       jobwatch.IdleJob().Spec,
	}
	job.Spec.ManagedBy = nil // Kubernetes creates its Pod.
	s.Expect(control.API.Create(s.t.Context(), job)).To(Succeed())
	s.Eventually(func() jobCounts { return s.logged(marker).jobs }).Should(Equal(jobCounts{running: s.markers}), "KEDA's cache is current")
}

// patch merges fields into an object.
func (s *stage) patch(object client.Object, fields map[string]any) {
	s.t.Helper()
	content := must.Get(json.Marshal(fields))(s)
	copied := object.DeepCopyObject().(client.Object)
	s.Expect(control.API.Patch(s.t.Context(), copied, client.RawPatch(types.MergePatchType, content))).To(Succeed())
}
