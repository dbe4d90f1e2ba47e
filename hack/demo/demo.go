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

	"golang.org/x/sync/errgroup"

	"miracle.dev/scaledjob-operator/hack/demo/board"
	"miracle.dev/scaledjob-operator/hack/demo/environment"
	"miracle.dev/scaledjob-operator/hack/demo/scene"
	"miracle.dev/scaledjob-operator/hack/demo/view"
)

// demo is what the parts of the demo share.
type demo struct {
	opts         options
	lines        *lines
	presentation presentation
	env          *environment.Environment
	board        *board.Board
}

// demonstrate shows the demo from the first word to the last and stops all that
// it has started, ctx having ended or not. After a failure the log of the
// operator is left at logPath.
func demonstrate(ctx context.Context, opts options, out io.Writer) (logPath string, err error) {
	d := &demo{
		opts:         opts,
		lines:        &lines{out: out},
		presentation: choosePresentation(out),
		env:          &environment.Environment{RedisAddress: opts.redisAddress},
	}
	d.announce()
	err = d.prepare(ctx)
	if err == nil {
		err = d.perform(ctx)
	}
	switch {
	case err == nil, endedByUser(err):
	case ctx.Err() != nil:
		err = view.ErrInterrupted
	default:
		logPath = d.env.SaveLog()
	}
	if stopErr := d.stop(ctx); stopErr != nil {
		if endedByUser(err) {
			err = nil // what was left behind matters more
		}
		err = errors.Join(err, stopErr)
	}
	return logPath, err
}

func endedByUser(err error) bool {
	return errors.Is(err, view.ErrQuit) || errors.Is(err, view.ErrInterrupted)
}

// stop stops all that was started, even if ctx has ended.
func (d *demo) stop(ctx context.Context) error {
	d.lines.line("")
	d.lines.piece("Stopping everything …")
	if err := d.env.Stop(ctx); err != nil {
		return fmt.Errorf("stopping: %w", err)
	}
	d.lines.piece(" done.")
	d.lines.end()
	return nil
}

// prepare does one step after the other and shows how long each takes.
func (d *demo) prepare(ctx context.Context) error {
	for _, step := range d.env.Steps() {
		d.lines.piece("  %-59s", step.Name)
		begin := time.Now()
		if err := step.Do(ctx, d.lines); err != nil {
			return err
		}
		d.lines.piece("%5.1f s", time.Since(begin).Seconds())
		d.lines.end()
	}
	d.board = board.New(d.env.Redis.Describe(), d.env.Redis.Prefix(), d.env.ScaledJobs...)
	d.introduce()
	return nil
}

// perform plays the scenes while all that happens is watched.
func (d *demo) perform(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := make(chan struct{})
	group.Go(func() error { return d.env.Watch(ctx, d.board, func() { close(ready) }) })
	group.Go(func() error {
		defer cancel()
		select {
		case <-ready:
			return d.playAndConclude(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	return group.Wait()
}

func (d *demo) playAndConclude(ctx context.Context) error {
	results, err := d.play(ctx)
	if len(results) > 0 {
		d.lines.line("%s", view.Summary(results))
	}
	if failedChecks(results) && (err == nil || endedByUser(err)) {
		return errors.New("not every check held")
	}
	if err != nil {
		return err
	}
	d.lines.line("Every check of every scene held.")
	if d.opts.keep {
		d.inviteToLookAround()
		<-ctx.Done()
	}
	return nil
}

func failedChecks(results []scene.Result) bool {
	return slices.ContainsFunc(results, func(result scene.Result) bool { return len(result.FailedChecks) > 0 })
}

// play plays the scenes before the user's eyes. Both end together.
func (d *demo) play(ctx context.Context) (results []scene.Result, err error) {
	group, ctx := errgroup.WithContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group.Go(func() error { return d.presentation.show(ctx, d.board) })
	group.Go(func() (err error) {
		defer cancel()
		results, err = scene.Play(ctx, d.stage(), d.opts.scenes, d.presentation.interlude)
		return err
	})
	return results, group.Wait()
}

// stage leaves out what the Redis does not allow. A nil pointer in an interface
// would not be nil.
func (d *demo) stage() scene.Stage {
	stage := scene.Stage{Board: d.board, Queues: d.env, Operator: d.env.Operator}
	if d.env.Redis.Owned() {
		stage.Redis = d.env.Redis
	}
	if events := d.env.Redis.Events(); events != nil {
		stage.Events = events
	}
	return stage
}
