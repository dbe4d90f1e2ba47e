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
	"miracle.dev/scaledjob-operator/internal/jobs"
)

const (
	// AtOnce is how many creates of one batch are under way at the same time.
	AtOnce = 16
	// grace is how long creates go on after the operator was told to stop, so that they end with an answer.
	grace = 5 * time.Second
)

var (
	// ErrTaken stops a batch whose next name exists already. It is no failure: the gate knows what the name holds.
	ErrTaken = errors.New("a Job of this name exists already")
	// ErrRefused says that the API server takes no such Job for now, by 403 or 422, or that it made another Job of it.
	ErrRefused = errors.New("the API server refuses the Job")

	// errNoJob is of an answer that may or may not stand for a Job.
	errNoJob = errors.New("the API server answered without telling which Job it created")
	// errNotOwned is of a Job that would not be counted.
	errNotOwned = errors.New("an admission policy took away the owner reference or the name, without which the Job can't be counted; " +
		"it was deleted again")
)

// Creator creates Jobs.
type Creator struct {
	// Client writes to the API server.
	Client client.Writer
	// Gate is told what became of each create.
	Gate *Gate
	// Leads says whether this process leads for certain.
	Leads func() bool
}

// Batch is what to create.
type Batch struct {
	Owner *scaledjobv1.ScaledJob
	// Ordinals are those of the Jobs, and Floor is what each of them tells of those before it.
	Ordinals []int64
	Floor    int64
	// Timeout is how long each create may take, and Until when the last one may begin.
	Timeout time.Duration
	Until   time.Time
}

// Created is a Job that was created, and when the API server had answered.
type Created struct {
	UID types.UID
	At  time.Time
}

// Create creates the Jobs of a batch, many at once. After an error, or once it is too late, ctx has ended or another may lead, it starts no other. It waits for
// those under way, and cancels them only some seconds later, since a cancelled create is one without an answer. It returns the Jobs that it
// created, and the gravest of the errors: a failure is graver than ErrRefused, and that graver than ErrTaken.
func (c Creator) Create(ctx context.Context, batch Batch) ([]Created, error) {
	going, cancel := outliving(ctx, grace)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(AtOnce)
	var failed atomic.Bool
	made, errs := make([]Created, len(batch.Ordinals)), make([]error, len(batch.Ordinals))
	for i, ordinal := range batch.Ordinals {
		group.Go(func() error {
			// Asked here and not before Go, which waits until one of those under way has ended.
			if failed.Load() || ended(ctx) || time.Now().After(batch.Until) || !c.Leads() {
				return nil
			}
			uid, err := c.create(going, batch, ordinal)
			made[i], errs[i] = Created{uid, time.Now()}, err
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

// outliving is a context that ends some time after its parent.
func outliving(parent context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() { time.AfterFunc(grace, cancel) })
	return ctx, func() { stop(); cancel() }
}

// worst is the first failure among the errors that is no refusal, or else the first refusal, or ErrTaken if that is all there is.
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
	case errors.Is(err, ErrTaken):
		return 1
	case errors.Is(err, ErrRefused):
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
	job := jobs.Build(owner, ordinal, batch.Floor)
	attempt := Unanswered{Ordinal: ordinal, Job: client.ObjectKeyFromObject(job)}
	err := c.Client.Create(ctx, job)
	if err == nil {
		err = c.check(ctx, owner.UID, attempt.Job, job)
	}
	switch {
	case err == nil:
		c.Gate.Wrote(owner.UID, ordinal, &job.ObjectMeta)
		return job.UID, nil
	case apierrors.IsAlreadyExists(err):
		return "", c.resolve(ctx, owner.UID, attempt, err)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), errors.Is(err, errNotOwned):
		c.Gate.Answered(owner.UID, ordinal)
		return "", fmt.Errorf("creating Job %s: %w: %w", attempt.Job.Name, ErrRefused, err)
	case notCarriedOut(err):
		c.Gate.Answered(owner.UID, ordinal)
	default:
		attempt.Since = time.Now()
		c.Gate.Lost(owner.UID, attempt)
	}
	return "", fmt.Errorf("creating Job %s: %w", attempt.Job.Name, err)
}

// check returns an error if what was created is not the Job that was asked for, and deletes it: it would not be counted, and so be created
// again and again.
func (c Creator) check(ctx context.Context, owner types.UID, name client.ObjectKey, made *batchv1.Job) error {
	switch {
	case made.UID == "" || made.ResourceVersion == "":
		return errNoJob
	case jobs.ControllerUID(made) == owner && made.Name == name.Name:
		return nil
	}
	err := c.Client.Delete(ctx, made, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &made.UID})
	return errors.Join(errNotOwned, client.IgnoreNotFound(err))
}

// resolve finds out which Job has the name that the API server called taken. If there is none, that answer was wrong or the Job is gone by
// now, and the create has failed.
func (c Creator) resolve(ctx context.Context, owner types.UID, attempt Unanswered, answer error) error {
	taken, err := c.Gate.Resolve(ctx, owner, attempt)
	switch {
	case err != nil:
		return err
	case taken:
		return ErrTaken
	}
	return fmt.Errorf("creating Job %s: %w", attempt.Job.Name, answer)
}

// notCarriedOut says whether the API server answered that it did not create the Job. After any other error it may have created it.
func notCarriedOut(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout
}
