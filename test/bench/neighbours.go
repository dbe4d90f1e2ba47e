// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/scene"
	"miracle.dev/scaledjob-operator/test/kit/webhook"
)

const (
	// hostileNamespace has hostileScaledJobs, of which every other one has hostileMessages.
	hostileNamespace  = "bench-hostile"
	hostileScaledJobs = 100
	hostileMessages   = 50
	// floodingServers and the server of its other ScaledJobs are as many as a namespace may use.
	floodingServers = 63
	// passingInterval is the time between two ScaledJobs that come and then go, and passingPresent how many there are.
	passingInterval = 20 * time.Millisecond
	passingPresent  = 100

	// hostileTime is how long an attack is measured, and floodedTime how long one is of which something happens only once
	// a minute. hostileGap is the mean time between a sample and the next push.
	hostileTime = 20 * time.Second
	floodedTime = 62 * time.Second
	hostileGap  = 50 * time.Millisecond

	mostBesides   = 3.0
	mostBesidesMS = 250.0
)

// attack is something that the hostile namespace does.
type attack struct {
	name string
	// lasts is how long it is measured.
	lasts time.Duration
	// begin begins it, and returns when the operator is hit. It goes on until end is called.
	begin func(ctx context.Context, log io.Writer, s *setting) (end func() error, err error)
}

// attacks are those of the hostile namespace. In the last one it does all of them at once.
func attacks() []attack {
	each := []attack{
		{"a webhook that hangs", hostileTime, beginHanging},
		{fmt.Sprintf("%d servers that flood", floodingServers), floodedTime, beginFlooding},
		{fmt.Sprintf("%d ScaledJobs a second that come and go", time.Second/passingInterval), hostileTime, beginPassing},
	}
	all := func(ctx context.Context, log io.Writer, s *setting) (end func() error, err error) {
		return beginAll(ctx, log, s, each)
	}
	return append(each, attack{"all of these at once", floodedTime, all})
}

// measureNeighbours measures latency while another namespace, which the operator serves too, does its worst.
func measureNeighbours(ctx context.Context, log io.Writer, s *setting, _ sizes) (all []comparison, err error) {
	for _, each := range attacks() {
		_, _ = fmt.Fprintf(log, "pushing messages to each for %s, beside a namespace that has %s …\n", each.lasts, each.name)
		taken, err := s.measureBeside(ctx, log, each)
		if err != nil {
			return nil, fmt.Errorf("beside %s: %w", each.name, err)
		}
		all = append(all, taken...)
	}
	return all, nil
}

func (s *setting) measureBeside(ctx context.Context, log io.Writer, attack attack) ([]comparison, error) {
	end, err := attack.begin(ctx, log, s)
	if err != nil {
		return nil, err
	}
	before, err := s.apiServerSeconds(ctx)
	if err != nil {
		return nil, errors.Join(err, end())
	}
	begun := time.Now()
	times, err := s.takeTurns(ctx, hostileGap, func(int) bool { return time.Since(begun) < attack.lasts })
	took := time.Since(begun)
	if err != nil {
		return nil, errors.Join(err, end())
	}
	after, err := s.apiServerSeconds(ctx)
	if err := errors.Join(err, end()); err != nil {
		return nil, err
	}
	work := fmt.Sprintf("push → Job seen beside %s (%d pushes)", attack.name, len(times.ours))
	p99 := ofQuantiles(times.floor, times.ours, 0.99)
	cores := (after - before) / took.Seconds()
	return []comparison{
		{work: work + ", p50", unit: "ms", figures: ofQuantiles(times.floor, times.ours, 0.5), atMost: mostBesides},
		{work: work + ", p99", unit: "ms", figures: p99, atMost: mostBesides},
		within(work+", p99, of the operator alone", "ms", mostBesidesMS, p99.ours),
		alone(work+", CPU of the API server", "cores", cores),
	}, nil
}

// beginAll begins several attacks.
func beginAll(ctx context.Context, log io.Writer, s *setting, all []attack) (end func() error, err error) {
	var ends []func() error
	end = func() (err error) {
		for _, each := range slices.Backward(ends) {
			err = errors.Join(err, each())
		}
		return err
	}
	for _, each := range all {
		its, err := each.begin(ctx, log, s)
		if err != nil {
			return nil, errors.Join(err, end())
		}
		ends = append(ends, its)
	}
	return end, nil
}

// beginHanging has a webhook answer no request about a Job: neither creates nor dry runs.
func beginHanging(ctx context.Context, _ io.Writer, s *setting) (end func() error, _ error) {
	hanging, err := webhook.Start(ctx, s.ours.kube, hostileNamespace, webhook.CreateJob, webhook.Hang)
	if err != nil {
		return nil, err
	}
	hostile, err := s.hostile().crowd(ctx, "hanging", s.redis.Addr(), hostileScaledJobs, asItIs)
	if err != nil {
		return nil, errors.Join(err, hanging.Stop(ctx))
	}
	end = func() error {
		return errors.Join(hostile.remove(ctx), hanging.Stop(ctx), s.redis.Client().Del(ctx, hostile.queues()...).Err())
	}
	for i := 0; i < len(hostile); i += 2 {
		if err := s.push(ctx, hostile[i:i+1].queues(), hostileMessages); err != nil {
			return nil, errors.Join(err, end())
		}
	}
	if err := hostile.await(ctx, reachable); err != nil {
		return nil, errors.Join(err, end())
	}
	return end, nil
}

// beginFlooding has servers send notifications without end.
func beginFlooding(ctx context.Context, log io.Writer, s *setting) (end func() error, _ error) {
	var servers []*redistest.Flooding
	var hostile crowd
	end = func() error {
		err := hostile.remove(ctx)
		sent := 0
		for _, server := range servers {
			server.Close()
			sent += server.Sent()
		}
		_, _ = fmt.Fprintf(log, "the servers have sent %d notifications\n", sent)
		if len(servers) == floodingServers && sent == 0 {
			err = errors.Join(err, errors.New("no server has sent a notification"))
		}
		return err
	}
	for i := range floodingServers {
		server, err := redistest.StartFlooding()
		if err != nil {
			return nil, errors.Join(err, end())
		}
		servers = append(servers, server)
		user, err := s.hostile().beside(ctx, fmt.Sprintf("flooded-%d", i), func(spec *scaledjobv1.ScaledJobSpec) {
			spec.RedisAddress = server.Addr()
		})
		if err != nil {
			return nil, errors.Join(err, end())
		}
		hostile = append(hostile, user)
	}
	return end, nil
}

// beginPassing has ScaledJobs come and go.
func beginPassing(ctx context.Context, _ io.Writer, s *setting) (end func() error, _ error) {
	passing := &scene.Passing{
		Create: func(ctx context.Context, number int) error {
			_, err := s.hostile().beside(ctx, passingName(number), asItIs)
			return err
		},
		Delete: func(ctx context.Context, number int) error {
			member := s.hostile()
			member.sj.Name = passingName(number)
			return member.remove(ctx)
		},
		Present: passingPresent, Interval: passingInterval,
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- passing.Run(ctx) }()
	return func() error {
		stop()
		return <-ended
	}, nil
}

func passingName(number int) string { return fmt.Sprintf("passing-%d", number) }

// asItIs changes nothing.
func asItIs(*scaledjobv1.ScaledJobSpec) { /* nothing */ }

// hostile is the operator at work for the hostile namespace.
func (s *setting) hostile() *contender {
	owner := *s.ours
	owner.sj = newScaledJob(hostileNamespace, "hostile", s.redis.Addr())
	return &owner
}

// makeHostileNamespace makes the namespace, which the operator watches from its start.
func (s *setting) makeHostileNamespace(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hostileNamespace}}
	if err := s.ours.kube.Create(ctx, namespace); err != nil {
		return fmt.Errorf("creating namespace %s: %w", hostileNamespace, err)
	}
	return nil
}
