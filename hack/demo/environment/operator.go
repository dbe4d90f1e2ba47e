// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"errors"
	"strings"
	"sync"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
)

// Operator is the operator process, which can be killed and started again. It is safe for concurrent use.
type Operator struct {
	cluster *cluster.Cluster
	crashed chan struct{} // receives a value when the operator ends by itself

	mu      sync.Mutex
	all     []*operator.Operator
	running *operator.Operator // nil if the operator does not run, or was killed
}

// Start starts the operator and waits until it is ready.
func (o *Operator) Start(ctx context.Context) error {
	started, err := operator.Start(ctx, operator.Options{Cluster: o.cluster})
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all, o.running = append(o.all, started), started
	go o.watch(started)
	return nil
}

// watch waits until the process has ended.
func (o *Operator) watch(started *operator.Operator) {
	<-started.Exited()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.running != started {
		return
	}
	select {
	case o.crashed <- struct{}{}:
	default: // an earlier crash was not received yet
	}
}

// LogPath returns the path of the log, or "" if the operator does not run.
func (o *Operator) LogPath() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.running == nil {
		return ""
	}
	return o.running.LogPath()
}

// Kill kills the operator with SIGKILL, if it runs, and removes its files.
func (o *Operator) Kill() error {
	o.mu.Lock()
	running := o.running
	o.running = nil
	o.mu.Unlock()
	if running == nil {
		return nil
	}
	return running.Kill()
}

// await returns nil when ctx ends, and an error as soon as the operator ends by itself.
func (o *Operator) await(ctx context.Context) error {
	select {
	case <-o.crashed:
		return errors.New("the operator has ended by itself")
	case <-ctx.Done():
		return nil
	}
}

// logs returns the logs of all operator processes, in order.
func (o *Operator) logs() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var logs strings.Builder
	for _, one := range o.all {
		logs.WriteString(one.Logs())
	}
	return logs.String()
}
