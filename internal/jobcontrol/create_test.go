// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// apiServer answers creates as set, and records the requests.
type apiServer struct {
	client.Writer
	client.Reader

	// answer changes the created Job, or refuses it. read changes the existing Job, or the answer to its read.
	answer, read func(job *batchv1.Job) error

	mu      sync.Mutex
	created []string
	deleted []types.UID
}

func (s *apiServer) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	job := object.(*batchv1.Job)
	s.created = append(s.created, job.Name)
	job.UID, job.ResourceVersion = types.UID("uid of "+job.Name), "7"
	return s.answer(job)
}

func (s *apiServer) Delete(_ context.Context, _ client.Object, opts ...client.DeleteOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deleted = append(s.deleted, *(&client.DeleteOptions{}).ApplyOptions(opts).Preconditions.UID)
	return nil
}

// Get returns a Job of another owner for every name, unless read says otherwise.
func (s *apiServer) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	job := object.(*batchv1.Job)
	*job = batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "another", ResourceVersion: "8"}}
	if s.read == nil {
		return nil
	}
	return s.read(job)
}

var scaledJobOwner = &scaledjobv1.ScaledJob{
	ObjectMeta: metav1.ObjectMeta{Namespace: "mail", Name: "emails", UID: "uid-1"},
	Spec:       scaledjobv1.ScaledJobSpec{JobTemplate: &batchv1.JobTemplateSpec{}},
}

// create creates a Job with each of these ordinals.
func create(ctx context.Context, server *apiServer, change func(*Creator, *Batch)) ([]Created, *Gate, error) {
	gate := NewGate(nil, server, nil, nil)
	creator := Creator{Client: server, Gate: gate, Limit: &Limiter{}, Leads: func() bool { return true }}
	batch := Batch{Owner: scaledJobOwner, Ordinals: []int64{1}, Timeout: time.Minute, Until: time.Now().Add(time.Minute)}
	change(&creator, &batch)
	made, err := creator.Create(ctx, batch)
	return made, gate, err
}

func accept(*batchv1.Job) error { return nil }

func asItIs(*Creator, *Batch) {}

func TestCreate(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := &apiServer{answer: accept}
	made, gate, err := create(t.Context(), server, func(_ *Creator, b *Batch) { b.Ordinals, b.Floor = []int64{3, 5, 4}, 2 })

	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(made).To(HaveLen(3))
	var names []string
	for _, ordinal := range []int64{3, 4, 5} {
		names = append(names, jobs.Name(scaledJobOwner.Name, scaledJobOwner.UID, ordinal))
	}
	g.Expect(server.created).To(ConsistOf(names))
	g.Expect(gate.Newest(scaledJobOwner.UID)).To(Equal(int64(5)))
}

func TestCreateSendsNothing(t *testing.T) {
	bubble.Each(t, map[string]func(*Creator, *Batch){
		"while another may lead": func(c *Creator, _ *Batch) { c.Leads = func() bool { return false } },
		"once it is too late":    func(_ *Creator, b *Batch) { b.Until = time.Now().Add(-time.Second) },
	}, func(t *testing.T, g Gomega, change func(*Creator, *Batch)) {
		server := &apiServer{answer: accept}
		made, _, err := create(t.Context(), server, change)
		g.Expect(err).NotTo(HaveOccurred(), "the next reconcile continues")
		g.Expect(made).To(BeEmpty())
		g.Expect(server.created).To(BeEmpty())
	})
}

// The result of a create decides whether its ordinal is without an answer, free, or used.
func TestWhatBecomesOfACreate(t *testing.T) {
	alreadyExists := apierrors.NewAlreadyExists(jobResource, "j")
	taken := func(*batchv1.Job) error { return alreadyExists }
	owned := func(job *batchv1.Job) error {
		job.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(scaledJobOwner, scaledjobv1.GroupVersion.WithKind("ScaledJob"))}
		return nil
	}
	type row struct {
		answer, read   func(job *batchv1.Job) error
		want           error
		inDoubt, freed bool
	}
	bubble.Each(t, map[string]row{
		"refused by a quota":         {answer: func(*batchv1.Job) error { return errForbidden }, want: ErrRejected, freed: true},
		"overloaded":                 {answer: func(*batchv1.Job) error { return apierrors.NewTooManyRequests("later", 1) }, freed: true},
		"taken by another owner":     {answer: taken, want: ErrAlreadyExists},
		"taken by the same owner":    {answer: taken, read: owned, want: ErrAlreadyExists},
		"taken, and free again":      {answer: taken, read: func(*batchv1.Job) error { return apierrors.NewNotFound(jobResource, "j") }, want: alreadyExists, freed: true},
		"taken, and the read fails":  {answer: taken, read: func(*batchv1.Job) error { return errAway }, want: errAway, freed: true},
		"no answer":                  {answer: func(*batchv1.Job) error { return errAway }, want: errAway, inDoubt: true},
		"no UID":                     {answer: func(job *batchv1.Job) error { job.UID = ""; return nil }, want: errNoJob, inDoubt: true},
		"no version":                 {answer: func(job *batchv1.Job) error { job.ResourceVersion = ""; return nil }, want: errNoJob, inDoubt: true},
		"without its scaledJobOwner": {answer: func(job *batchv1.Job) error { job.OwnerReferences = nil; return nil }, want: ErrRejected, freed: true},
		"under another name":         {answer: func(job *batchv1.Job) error { job.Name = "renamed"; return nil }, want: ErrRejected, freed: true},
		"of another controller":      {answer: func(job *batchv1.Job) error { job.OwnerReferences[0].UID = "x"; return nil }, want: ErrNotOwned, freed: true},
	}, func(t *testing.T, g Gomega, c row) {
		server := &apiServer{answer: c.answer, read: c.read}
		made, gate, err := create(t.Context(), server, asItIs)
		g.Expect(err).To(HaveOccurred())
		if c.want != nil {
			g.Expect(err).To(MatchError(c.want))
		}
		g.Expect(made).To(BeEmpty())
		g.Expect(gate.Observe(scaledJobOwner.UID, &jobs.Owned{})).To(HaveLen(map[bool]int{true: 1}[c.inDoubt]))
		free, _ := gate.Free(scaledJobOwner.UID, 1)
		g.Expect(slices.Contains(free, 1)).To(Equal(c.freed))
	})
}

// A Job that would not count must be deleted, and no other Job of its name.
func TestJobThatIsNotOursIsDeletedAgain(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := &apiServer{answer: func(job *batchv1.Job) error {
		job.OwnerReferences = nil
		return nil
	}}
	_, _, err := create(t.Context(), server, asItIs)
	g.Expect(err).To(MatchError(ContainSubstring("admission policy")))
	g.Expect(server.deleted).To(Equal([]types.UID{types.UID("uid of " + server.created[0])}))
}
