// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

var (
	jobResource = batchv1.Resource("jobs")

	errForbidden = apierrors.NewForbidden(jobResource, "", errors.New("exceeded quota"))
	errTimeout   = apierrors.NewTimeoutError("the request did not complete in time", 1)
)

func TestOutliving(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		parent, stop := context.WithCancel(t.Context())
		ctx, cancel := outliving(parent, time.Second)
		defer cancel()

		time.Sleep(time.Hour)
		g.Expect(ctx.Err()).NotTo(HaveOccurred())
		stop()
		time.Sleep(time.Second - time.Nanosecond)
		g.Expect(ctx.Err()).NotTo(HaveOccurred())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		g.Expect(ctx.Err()).To(HaveOccurred())
	})
}

func TestRefused(t *testing.T) {
	t.Parallel()
	status := func(code int32) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code}}
	}
	refusals := []error{
		errForbidden,
		apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), "j", nil),
		apierrors.NewBadRequest("bad"),
		apierrors.NewTooManyRequests("later", 1),
		apierrors.NewConflict(jobResource, "j", errAway),
		apierrors.NewNotFound(jobResource, "j"),
		apierrors.NewUnauthorized("who?"),
		fmt.Errorf("wrapped: %w", errForbidden),
	}
	doubts := []error{
		errTimeout, errAway, context.DeadlineExceeded, context.Canceled,
		apierrors.NewInternalError(errAway),
		apierrors.NewServiceUnavailable("later"),
		apierrors.NewServerTimeout(jobResource, "create", 1),
		status(http.StatusRequestTimeout), status(http.StatusBadGateway), status(0), status(http.StatusFound),
		fmt.Errorf("wrapped: %w", errTimeout),
	}
	for _, err := range refusals {
		NewWithT(t).Expect(notCarriedOut(err)).To(BeTrue(), "%v", err)
	}
	for _, err := range doubts {
		NewWithT(t).Expect(notCarriedOut(err)).To(BeFalse(), "%v", err)
	}
}

// The result depends on whether a create failed, not on which create of a batch ended first.
func TestWorst(t *testing.T) {
	type row struct {
		errs []error
		want error
	}
	bubble.Each(t, map[string]row{
		"none":                   {[]error{nil, nil}, nil},
		"taken":                  {[]error{nil, ErrAlreadyExists, nil}, ErrAlreadyExists},
		"failed":                 {[]error{nil, errAway}, errAway},
		"taken and then failed":  {[]error{ErrAlreadyExists, errAway}, errAway},
		"failed and then taken":  {[]error{errAway, ErrAlreadyExists}, errAway},
		"the first of failures":  {[]error{errForbidden, errAway}, errForbidden},
		"taken, though wrapped":  {[]error{fmt.Errorf("creating: %w", ErrAlreadyExists)}, ErrAlreadyExists},
		"failed, though wrapped": {[]error{ErrAlreadyExists, fmt.Errorf("creating: %w", errAway)}, errAway},
	}, func(_ *testing.T, g Gomega, c row) {
		err := worst(c.errs)
		g.Expect(errors.Is(err, c.want)).To(BeTrue(), "%v", err)
	})
}
