// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package security tests what is promised of Redis servers that ask who is
// there, of those who may not be believed, and of tenants who share an operator:
// the real binary, as the ServiceAccount that is shipped, a real API server and
// real Redis servers. At the end, everything that the operator has said to
// anybody is searched for the secrets that the tests have given it.
package security

import (
	"context"
	"errors"
	"flag"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

const (
	// patience is how long a fact is waited for. Credentials that were refused are
	// tried every half minute, forbidden channels every minute.
	patience = 75 * time.Second
	// glance is how often it is looked for.
	glance = 50 * time.Millisecond
	// atOnce is how many tests run at the same time. They wait more than they work.
	atOnce = 32

	// deniedHost is an address of this machine that the operator was told not to
	// connect to.
	deniedHost = "127.0.0.2"
	// mostServers is how many servers the operator connects to for a namespace.
	mostServers = 3

	startTimeout = 15 * time.Minute // programs may have to be built first
	stopTimeout  = time.Minute
)

var tablePath = flag.String("table", "", "the file to write the table of errors to")

var (
	// common is the control plane of the operator that most tests share.
	common *plane
	// neighbours is a server that nobody breaks.
	neighbours *redistest.Server
	table      errorTable
)

func TestMain(m *testing.M) {
	gomega.SetDefaultEventuallyTimeout(patience)
	gomega.SetDefaultEventuallyPollingInterval(glance)
	log.SetLogger(logr.Discard())
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
		panic(err)
	}
	os.Exit(cluster.Run(m, start, stop))
}

func start(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if neighbours, err = redistest.Start(ctx, redistest.Options{Log: os.Stderr}); err != nil {
		return err
	}
	if common, err = newPlane(ctx); err != nil {
		return err
	}
	return common.run(ctx,
		"--redis-deny-cidrs="+deniedHost+"/32", "--max-redis-servers-per-namespace="+strconv.Itoa(mostServers))
}

// stop ends what runs. That the operator ends well, and that it has kept all
// secrets to itself, are tests as well.
func stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	var errs []error
	if common != nil {
		errs = append(errs, common.stop(ctx))
	}
	if neighbours != nil {
		errs = append(errs, neighbours.Stop())
	}
	return errors.Join(append(errs, table.write(*tablePath))...)
}

// operatorOf starts an operator in a plane.
func operatorOf(ctx context.Context, p *plane, args ...string) (*operator.Operator, error) {
	return operator.Start(ctx, operator.Options{
		Cluster: p.control, Networks: loopback + "/32", Log: os.Stderr,
		Args: append([]string{"--polling-fallback-interval=0", "--zap-log-level=debug"}, args...),
	})
}
