// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"miracle.dev/scaledjob-operator/test/bench/results"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/cluster/sandbox"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/programs"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// setting is a control plane, a Redis server, and the minimal loop and the operator at work. Both run as processes of
// their own, as the same ServiceAccount. The operator watches only the namespace of its ScaledJobs: the Jobs of the
// loop cost it nothing.
type setting struct {
	control *cluster.Cluster
	redis   *redistest.Server
	sandbox *sandbox.Sandbox
	running *operator.Operator

	loop, operator *subject
}

// newSetting starts everything. Progress of builds goes to log.
func newSetting(ctx context.Context, log io.Writer) (*setting, error) {
	s := &setting{}
	if err := s.start(ctx, log); err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	return s, nil
}

func (s *setting) start(ctx context.Context, log io.Writer) (err error) {
	if s.sandbox, err = sandbox.New(); err != nil {
		return err
	}
	if s.redis, err = redistest.Start(ctx, redistest.Options{Log: log}); err != nil {
		return err
	}
	control, kube, err := operator.StartCluster(ctx, cluster.Options{Log: log})
	if err != nil {
		return err
	}
	s.control = control
	if s.loop, err = newSubject(ctx, ourKind(), "loop", s.redis.Client(), kube); err != nil {
		return err
	}
	if s.operator, err = newSubject(ctx, ourKind(), "operator", s.redis.Client(), kube); err != nil {
		return err
	}
	s.loop.name = results.Loop
	if err := errors.Join(s.loop.create(ctx), s.operator.create(ctx), s.buildLoop(ctx)); err != nil {
		return err
	}
	if _, err := s.runLoop("grow", s.loop.sj.Name); err != nil {
		return err
	}
	return errors.Join(s.loop.subscribed(ctx), s.startOperator(ctx))
}

// buildLoop also lets the loop be who the operator is, with the same rights and the same priority at the API server.
func (s *setting) buildLoop(ctx context.Context) error {
	if _, err := programs.Go(ctx, "", "build", "-o="+s.file("loop"), "miracle.dev/scaledjob-operator/test/bench/loop"); err != nil {
		return fmt.Errorf("building the minimal loop: %w", err)
	}
	return s.control.WriteServiceAccountKubeconfig(ctx, operator.Namespace, operator.ServiceAccount, s.file("kubeconfig"))
}

func (s *setting) file(name string) string { return filepath.Join(s.sandbox.Dir(), name) }

// runLoop has the loop do this work for the ScaledJob of this name in its namespace, or for those with this prefix.
func (s *setting) runLoop(work, name string) (*sandbox.Process, error) {
	return s.sandbox.Start("loop", s.file("loop"), work, s.file("kubeconfig"), s.loop.sj.Namespace, name)
}

// errorOf returns why the process has ended, and nil if it has not. The loop ends at its first error, such as a watch
// that could not keep up.
func errorOf(ctx context.Context, process *sandbox.Process) error {
	select {
	case <-process.Exited():
		return process.Wait(ctx)
	default:
		return nil
	}
}

// startOperator starts the operator with the memory limit of the Deployment.
func (s *setting) startOperator(ctx context.Context) (err error) {
	s.running, err = operator.Start(ctx, operator.Options{
		Cluster: s.control, Args: []string{"--watch-namespaces=" + s.operator.sj.Namespace}, MemoryLimit: "512MiB",
	})
	if err != nil {
		return err
	}
	s.operator.pid = s.running.PID()
	return s.operator.subscribed(ctx)
}

func (s *setting) stopOperator(ctx context.Context) error {
	err := s.running.Stop(ctx)
	s.running = nil
	return err
}

// stop ends all that was started.
func (s *setting) stop(ctx context.Context) error {
	err := errors.Join(s.stopOperator(context.WithoutCancel(ctx)), s.control.Stop(), s.redis.Stop())
	if s.sandbox != nil {
		err = errors.Join(err, s.sandbox.Close())
	}
	return err
}
