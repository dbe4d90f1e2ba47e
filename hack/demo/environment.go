// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"miracle.dev/scaledjob-operator/test/cluster"
	"miracle.dev/scaledjob-operator/test/operator"
	"miracle.dev/scaledjob-operator/test/redistest"
)

const (
	crds        = "config/crd/bases"
	stopTimeout = 30 * time.Second
)

// environment is all that runs besides this program. What was not started is
// nil.
type environment struct {
	binary   string // the operator, in a folder of its own
	redis    *redistest.Server
	cluster  *cluster.Cluster
	operator *operator.Operator
}

// start does one step after the other and shows how long each takes.
func (e *environment) start(ctx context.Context, screen *screen) error {
	for _, step := range []struct {
		name string
		do   func(context.Context, io.Writer) error
	}{
		{"build the operator from this source", e.buildOperator},
		{"start Redis", e.startRedis},
		{"start etcd, kube-apiserver, kube-controller-manager, KWOK", e.startCluster},
		{"install and start the operator", e.startOperator},
	} {
		screen.piece("  %-59s", step.name)
		begin := time.Now()
		if err := step.do(ctx, screen); err != nil {
			return err
		}
		screen.piece("%5.1f s", time.Since(begin).Seconds())
		screen.end()
	}
	return nil
}

// buildOperator leaves progress alone: its name on the screen says it all.
func (e *environment) buildOperator(ctx context.Context, _ io.Writer) (err error) {
	e.binary, err = operator.Binary(ctx, nil)
	return err
}

func (e *environment) startRedis(ctx context.Context, progress io.Writer) (err error) {
	e.redis, err = redistest.Start(ctx, redistest.Options{Log: progress})
	return err
}

func (e *environment) startCluster(ctx context.Context, progress io.Writer) (err error) {
	e.cluster, err = cluster.Start(ctx, cluster.Options{
		ControllerManager: true, KWOK: true, CRDs: []string{crds}, Log: progress,
	})
	return err
}

func (e *environment) startOperator(ctx context.Context, _ io.Writer) (err error) {
	if err := operator.Install(ctx, e.cluster); err != nil {
		return err
	}
	e.operator, err = operator.Start(ctx, operator.Options{Cluster: e.cluster})
	return err
}

// stop stops what was started and removes its files, even if ctx has ended.
func (e *environment) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	var errs []error
	if e.operator != nil {
		errs = append(errs, stopOperator(ctx, e.operator))
	}
	if e.binary != "" {
		errs = append(errs, os.RemoveAll(filepath.Dir(e.binary)))
	}
	if e.cluster != nil {
		errs = append(errs, e.cluster.Stop())
	}
	if e.redis != nil {
		errs = append(errs, e.redis.Stop())
	}
	return errors.Join(errs...)
}

func stopOperator(ctx context.Context, o *operator.Operator) error {
	select {
	case <-o.Exited():
		return o.Kill() // clears up; that it ended has been told
	default:
		return o.Stop(ctx)
	}
}

// saveLog writes what the operator has logged to a file that is left behind,
// and returns its path, or "" if there is nothing to save or no place for it.
func (e *environment) saveLog() (path string) {
	if e.operator == nil {
		return ""
	}
	file, err := os.CreateTemp("", "scaledjob-demo-*.log")
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	if _, err := fmt.Fprint(file, e.operator.Logs()); err != nil {
		return ""
	}
	return file.Name()
}
