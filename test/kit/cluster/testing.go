// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// programsTimeout bounds the start of a package's tests, for which programs may have to be built, and stopTimeout
	// its end.
	programsTimeout = 25 * time.Minute
	stopTimeout     = time.Minute
)

// Run runs the tests of a package between start and stop and returns the exit code for TestMain. Up to parallel tests
// run at the same time, or as many as usual if it is 0; the flag -parallel overrides both. Stop is called even if start
// has failed half-way. Controllers in the tests log nothing.
func Run(m *testing.M, parallel int, start, stop func(context.Context) error) int {
	log.SetLogger(logr.Discard())
	if parallel > 0 {
		if err := flag.Set("test.parallel", strconv.Itoa(parallel)); err != nil {
			panic(err)
		}
	}
	flag.Parse()
	code := 1
	err := within(programsTimeout, start)
	if err == nil {
		code = m.Run()
	}
	if err := errors.Join(err, within(stopTimeout, stop)); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

func within(timeout time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return do(ctx)
}

// NewNamespace is CreateNamespace for a test, after which the namespace is deleted.
func (c *Cluster) NewNamespace(tb testing.TB, prefix string) string {
	tb.Helper()
	name, err := c.CreateNamespace(tb.Context(), prefix)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := c.client.Delete(context.WithoutCancel(tb.Context()), namespace); err != nil {
			tb.Errorf("deleting namespace %s: %v", name, err)
		}
	})
	return name
}

// New is Start for a single test, at whose end the cluster is stopped.
func New(tb testing.TB, opts Options) *Cluster {
	tb.Helper()
	cluster, err := Start(tb.Context(), opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			tb.Errorf("stopping the control plane: %v", err)
		}
	})
	return cluster
}
