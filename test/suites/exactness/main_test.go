// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package exactness proves that the operator never creates a Job too many.
//
// The operator runs as a process of its own against a real API server and a
// real Redis. Between it and the API server stands a proxy that holds back
// watch events, so that the operator's cache is stale while a storm of messages
// makes it decide again and again. A witness with a watch of its own, which
// nothing delays, counts every Job that was ever created. That proxy and witness
// can tell right from wrong is shown by a reconciler written the usual way,
// which has to fail before them.
package exactness

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

const (
	// timeout bounds every wait. It only matters to a test that fails.
	timeout      = 3 * time.Minute
	pollInterval = 20 * time.Millisecond

	// events are the notifications of lists and streams.
	events = redistest.DefaultEvents + "t"
)

var (
	control *cluster.Cluster
	api     client.Client // the administrator's, past every proxy
	redis   *redistest.Server

	table     witness.Table
	tablePath = flag.String("table", "", "the file to write what came of the faults to")
)

func TestMain(m *testing.M) {
	code, err := run(context.Background(), m)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// run runs the tests in a cluster with a garbage collector, but without nodes:
// the Jobs are the tests' own to finish.
func run(ctx context.Context, m *testing.M) (code int, err error) {
	ctrl.SetLogger(logr.Discard())
	control, err = cluster.Start(ctx, cluster.Options{
		ControllerManager: true, CRDs: []string{"../../../config/crd/bases"}, Log: os.Stderr,
	})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, control.Stop()) }()
	if err := operator.Install(ctx, control); err != nil {
		return 0, err
	}
	if api, err = operator.NewClient(control.Config()); err != nil {
		return 0, err
	}
	if redis, err = redistest.Start(ctx, redistest.Options{Events: events, Log: os.Stderr}); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, redis.Stop()) }()
	code = m.Run()
	return code, table.Write(*tablePath)
}

// newNamespace returns a namespace that is deleted after the test.
func newNamespace(t *testing.T) string {
	t.Helper()
	g := NewWithT(t)
	name, err := control.CreateNamespace(t.Context(), "exactness")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		g.Expect(api.Delete(context.WithoutCancel(t.Context()), namespace)).To(Succeed())
	})
	return name
}

// startOperator starts an operator that reaches the API server through the
// proxy, and watches these namespaces, or all if none is given.
func startOperator(t *testing.T, through *proxy, namespaces []string, args ...string) *operator.Operator {
	t.Helper()
	access, err := control.ServiceAccountConfig(t.Context(), operator.Namespace, operator.ServiceAccount)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return operator.New(t, operator.Options{
		Cluster: control,
		Config:  through.config(access),
		Args:    append(args, "--watch-namespaces="+strings.Join(namespaces, ","), "--polling-fallback-interval=0"),
		Log:     os.Stderr,
	})
}
