// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package environment starts and stops everything that the demo needs: Redis, the control plane, the operator, and
// workers in place of containers.
package environment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/programs"
)

const (
	crds = "config/crd/bases"
	// patience is how long a ScaledJob may take to become ready.
	patience    = time.Minute
	stopTimeout = 30 * time.Second
)

// Environment has what was started. The other fields are nil.
type Environment struct {
	// RedisAddress is the address of the user's Redis. If it is empty, the demo starts an emulated one.
	RedisAddress string
	Redis        *Redis
	Operator     *Operator
	// ScaledJobs are the ScaledJobs as they were when they became ready.
	ScaledJobs []*scaledjobv1.ScaledJob

	cluster *cluster.Cluster
	kube    client.Client
}

// Step is one step of the start.
type Step struct {
	Name string
	// Do runs the step. It writes to progress if it takes long.
	Do func(ctx context.Context, progress io.Writer) error
}

// Steps returns the steps, to be run in this order. Call Stop afterwards, even if a step has failed.
func (e *Environment) Steps() []Step {
	redis := "start an emulated Redis"
	if e.RedisAddress != "" {
		redis = "connect to Redis at " + e.RedisAddress
	}
	return []Step{
		{redis, e.startRedis},
		{"build the operator from this source", e.buildOperator},
		{"start etcd, kube-apiserver, kube-controller-manager", e.startCluster},
		{"install and start the operator", e.startOperator},
		{"create the ScaledJobs and wait until they are ready", e.createScaledJobs},
	}
}

// buildOperator writes no progress, because the name of the step is enough.
func (e *Environment) buildOperator(ctx context.Context, _ io.Writer) error {
	_, err := programs.Operator(ctx, nil)
	return err
}

func (e *Environment) startRedis(ctx context.Context, _ io.Writer) (err error) {
	if e.RedisAddress == "" {
		e.Redis, err = startRedis()
	} else {
		e.Redis, err = useRedis(ctx, e.RedisAddress)
	}
	return err
}

func (e *Environment) startCluster(ctx context.Context, progress io.Writer) (err error) {
	e.cluster, err = cluster.Start(ctx, cluster.Options{
		ControllerManager: true, FakeNode: true, CRDs: []string{crds}, Log: progress,
	})
	if err != nil {
		return err
	}
	e.kube, err = operator.NewClient(e.cluster.Config())
	return err
}

func (e *Environment) startOperator(ctx context.Context, _ io.Writer) error {
	if err := operator.Install(ctx, e.cluster); err != nil {
		return err
	}
	e.Operator = &Operator{cluster: e.cluster, crashed: make(chan struct{}, 1)}
	return e.Operator.Start(ctx)
}

func (e *Environment) createScaledJobs(ctx context.Context, _ io.Writer) (err error) {
	if e.ScaledJobs, err = scaledJobs(e.Redis.Address, e.Redis.Prefix); err != nil {
		return err
	}
	for _, scaledJob := range e.ScaledJobs {
		if err := e.kube.Create(ctx, scaledJob); err != nil {
			return fmt.Errorf("creating the ScaledJob %s: %w", scaledJob.Name, err)
		}
	}
	for _, scaledJob := range e.ScaledJobs {
		if err := e.awaitReady(ctx, scaledJob); err != nil {
			return fmt.Errorf("waiting until the ScaledJob %s is ready: %w", scaledJob.Name, err)
		}
	}
	return nil
}

// awaitReady waits until the ScaledJob is ready.
func (e *Environment) awaitReady(ctx context.Context, scaledJob *scaledjobv1.ScaledJob) error {
	const interval = 20 * time.Millisecond
	return wait.PollUntilContextTimeout(ctx, interval, patience, true, func(ctx context.Context) (bool, error) {
		err := e.kube.Get(ctx, client.ObjectKeyFromObject(scaledJob), scaledJob)
		return apimeta.IsStatusConditionTrue(scaledJob.Status.Conditions, scaledjobv1.ConditionReady), err
	})
}

// SetNotifications sets spec.notifications of a ScaledJob.
func (e *Environment) SetNotifications(ctx context.Context, name string, mode scaledjobv1.NotificationMode) error {
	known := e.ScaledJobs[slices.IndexFunc(e.ScaledJobs, func(each *scaledjobv1.ScaledJob) bool { return each.Name == name })]
	var object scaledjobv1.ScaledJob
	if err := e.kube.Get(ctx, client.ObjectKeyFromObject(known), &object); err != nil {
		return err
	}
	before := object.DeepCopy()
	object.Spec.Notifications = mode
	return e.kube.Patch(ctx, &object, client.MergeFrom(before))
}

// Kubeconfig returns the path of a kubeconfig for the administrator of the cluster.
func (e *Environment) Kubeconfig() string { return e.cluster.Kubeconfig() }

// Stop stops what was started and removes its files, even if ctx has ended. It leaves the program of the operator,
// which others may be running. It cleans up the user's Redis early, in case the rest is interrupted.
func (e *Environment) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	var errs []error
	if e.Operator != nil {
		errs = append(errs, e.Operator.Kill())
	}
	if e.Redis != nil {
		errs = append(errs, e.Redis.stop(ctx, e.ScaledJobs))
	}
	return errors.Join(append(errs, e.cluster.Stop())...)
}

// SaveLog writes the log of the operator to a temporary file, and returns its path. It returns "" if there is no log or
// the file cannot be written.
func (e *Environment) SaveLog() (path string) {
	if e.Operator == nil {
		return ""
	}
	file, err := os.CreateTemp("", "scaledjob-demo-*.log")
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	if _, err := io.WriteString(file, e.Operator.logs()); err != nil {
		return ""
	}
	return file.Name()
}
