// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/admission"
	"miracle.dev/scaledjob-operator/internal/jobs"
)

const (
	// AtOnce is the maximum number of creates of one batch in flight at the same time.
	AtOnce = 16
	// grace is how long creates in flight may continue after the operator receives a signal to stop, so that they still
	// get an answer.
	grace = 5 * time.Second
)

var (
	// ErrAlreadyExists means that a Job with the next name already exists. It ends the batch, but is not a failure: the
	// gate records which Job has the name.
	ErrAlreadyExists = errors.New("a Job of this name exists already")
	// ErrRejected means that the API server would refuse the same Job again, or that an admission policy changed it so
	// that it is not an owned Job.
	ErrRejected = errors.New("the API server refuses the Job")

	// ErrNotOwned means that the created Job would not count as an owned Job.
	ErrNotOwned = errors.New("an admission policy removed the owner reference or changed the name; " +
		"without them the operator can't count the Job, and has deleted it")

	// errNoJob means that the answer does not identify a Job, so that a Job may or may not exist.
	errNoJob = errors.New("the answer of the API server does not identify the created Job")
)

// Creator creates Jobs.
type Creator struct {
	// Client writes to the API server.
	Client client.Writer
	// Gate receives the result of each create.
	Gate *Gate
	// Limit bounds the requests about a namespace.
	Limit *Limiter
	// Leads reports whether this process is certainly the leader.
	Leads func() bool
}

// Batch is a set of Jobs to create.
type Batch struct {
	Owner *scaledjobv1.ScaledJob
	// TemplateHash is the hash of the owner's template.
	TemplateHash string
	// Ordinals are the ordinals of the Jobs. Floor is stored in each Job: all ordinals up to it have had their Jobs.
	Ordinals []int64
	Floor    int64
	// Timeout is the timeout of each create. Until is when the last create may start.
	Timeout time.Duration
	Until   time.Time
}

// Created is a created Job, and when the API server answered.
type Created struct {
	UID     types.UID
	Ordinal int64
	At      time.Time
}

// Create creates the Jobs of a batch, up to AtOnce in parallel. It starts no further create after an error, after
// batch.Until, after ctx has ended, or while this process is not certainly the leader. It waits for the creates in
// flight. If ctx ends, it cancels them only after a grace period, because a canceled create has no answer. Create
// returns the created Jobs and the most severe error: ErrAlreadyExists is the least severe, then ErrRejected, then all
// others.
func (c Creator) Create(ctx context.Context, batch Batch) ([]Created, error) {
	createCtx, cancel := outliving(ctx, grace)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(AtOnce)
	var failed atomic.Bool
	made, errs := make([]Created, len(batch.Ordinals)), make([]error, len(batch.Ordinals))
	for i, ordinal := range batch.Ordinals {
		group.Go(func() error {
			end := c.Limit.begin(ctx, batch.Owner.Namespace, batch.Until)
			if end == nil {
				return nil
			}
			defer end()
			// Check here, because both Go and the limit wait until a create in flight has ended.
			if failed.Load() || ended(ctx) || time.Now().After(batch.Until) || !c.Leads() {
				return nil
			}
			uid, err := c.create(createCtx, batch, ordinal)
			made[i], errs[i] = Created{uid, ordinal, time.Now()}, err
			if err != nil {
				failed.Store(true)
			}
			return nil
		})
	}
	_ = group.Wait()
	return slices.DeleteFunc(made, func(c Created) bool { return c.UID == "" }), worst(errs)
}

func ended(ctx context.Context) bool { return ctx.Err() != nil }

// outliving returns a context that ends some time after its parent.
func outliving(parent context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() { time.AfterFunc(grace, cancel) })
	return ctx, func() { stop(); cancel() }
}

// worst returns the most severe of the errors: the first other error, or else the first refusal, or else
// ErrAlreadyExists.
func worst(errs []error) error {
	var found error
	for _, err := range errs {
		if severity(err) > severity(found) {
			found = err
		}
	}
	return found
}

func severity(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrAlreadyExists):
		return 1
	case errors.Is(err, ErrRejected):
		return 2
	default:
		return 3
	}
}

// create creates the Job with this ordinal and returns its UID.
func (c Creator) create(ctx context.Context, batch Batch, ordinal int64) (types.UID, error) {
	ctx, cancel := context.WithTimeout(ctx, batch.Timeout)
	defer cancel()
	owner := batch.Owner
	job := jobs.Build(owner, batch.TemplateHash, ordinal, batch.Floor)
	attempt := Unanswered{Ordinal: ordinal, Job: client.ObjectKeyFromObject(job)}
	err := c.Client.Create(ctx, job)
	if err == nil {
		err = c.check(ctx, owner.UID, attempt.Job, job)
	}
	refused := errors.Is(err, ErrNotOwned) || admission.Judge(err).Refused
	switch {
	case err == nil:
		c.Gate.recordCreate(owner.UID, ordinal, &job.ObjectMeta)
		return job.UID, nil
	case apierrors.IsAlreadyExists(err) && !refused:
		return "", c.resolve(ctx, owner.UID, attempt, err)
	case refused:
		return "", fmt.Errorf("creating Job %s: %w: %w", attempt.Job.Name, ErrRejected, err)
	case !notCarriedOut(err):
		attempt.Since = time.Now()
		c.Gate.Lost(owner.UID, attempt)
	}
	return "", fmt.Errorf("creating Job %s: %w", attempt.Job.Name, err)
}

// check returns an error if the created Job is not the requested Job, and deletes it. Such a Job would not count as an
// owned Job, and the operator would create another one in each reconcile.
func (c Creator) check(ctx context.Context, owner types.UID, name client.ObjectKey, made *batchv1.Job) error {
	switch {
	case made.UID == "" || made.ResourceVersion == "":
		return errNoJob
	case jobs.ControllerUID(made) == owner && made.Name == name.Name:
		return nil
	}
	err := c.Client.Delete(ctx, made,
		client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &made.UID})
	return errors.Join(ErrNotOwned, client.IgnoreNotFound(err))
}

// resolve handles the answer that the Job's name already exists. It returns ErrAlreadyExists if a Job has that name.
// Otherwise the Job was deleted since, or the answer was wrong, and the create has failed.
func (c Creator) resolve(ctx context.Context, owner types.UID, attempt Unanswered, answer error) error {
	taken, err := c.Gate.resolve(ctx, owner, attempt)
	switch {
	case err != nil:
		return err
	case taken:
		return ErrAlreadyExists
	}
	return fmt.Errorf("creating Job %s: %w", attempt.Job.Name, answer)
}

// notCarriedOut reports whether the error proves that the API server did not create the Job. After any other error the
// Job may exist.
func notCarriedOut(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout
}
