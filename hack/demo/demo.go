// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"miracle.dev/scaledjob-operator/hack/demo/board"
	"miracle.dev/scaledjob-operator/hack/demo/environment"
	"miracle.dev/scaledjob-operator/hack/demo/scene"
	"miracle.dev/scaledjob-operator/hack/demo/script"
	"miracle.dev/scaledjob-operator/hack/demo/view"
)

// interlude is how long the end of a scene stays on the screen.
const interlude = 2 * time.Second

// demo has what the parts of the demo share.
type demo struct {
	opts  script.Options
	lines *lines
	env   *environment.Environment
	board *board.Board
}

// demonstrate runs the demo and stops everything that it has started, even if ctx has ended. If the demo fails, it
// saves the log of the operator at logPath.
func demonstrate(ctx context.Context, opts script.Options, out io.Writer) (logPath string, err error) {
	d := &demo{
		opts:  opts,
		lines: &lines{out: out},
		env:   &environment.Environment{RedisAddress: opts.RedisAddress},
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
			err = nil // the error of the clean-up is more important
		}
		err = errors.Join(err, stopErr)
	}
	return logPath, err
}

func endedByUser(err error) bool {
	return errors.Is(err, view.ErrQuit) || errors.Is(err, view.ErrInterrupted)
}

// stop stops everything that was started, even if ctx has ended.
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

// prepare runs the steps one after the other and shows how long each takes.
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
	d.board = board.New(d.env.Redis.Describe(), d.env.ScaledJobs...)
	d.introduce()
	return nil
}

// perform plays the scenes while the cluster and Redis are watched.
func (d *demo) perform(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group.Go(func() error {
		defer cancel()
		if err := d.env.Watch(ctx, group, d.board); err != nil {
			return err
		}
		return d.playAndConclude(ctx)
	})
	return group.Wait()
}

func (d *demo) playAndConclude(ctx context.Context) error {
	results, err := d.play(ctx)
	if len(results) > 0 {
		d.lines.line("%s", scene.Summary(results))
	}
	failed := slices.ContainsFunc(results, func(result scene.Result) bool { return len(result.FailedChecks) > 0 })
	if failed && (err == nil || endedByUser(err)) {
		return errors.New("some checks failed")
	}
	if err != nil {
		return err
	}
	d.conclude(len(results))
	if d.opts.Keep {
		d.inviteToLookAround()
		<-ctx.Done()
	}
	return nil
}

// play plays the scenes and shows them. Both end together.
func (d *demo) play(ctx context.Context) (results []scene.Result, err error) {
	group, ctx := errgroup.WithContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stage := scene.Stage{Environment: d.env, Board: d.board}
	show := func() error { return view.Plain(ctx, d.board, d.lines.out) }
	terminal := d.terminal()
	if terminal != nil {
		stage.Interlude = interlude
		show = func() error { return view.Live(ctx, d.board, os.Stdin, terminal) }
	}
	group.Go(show)
	group.Go(func() (err error) {
		defer cancel()
		results, err = stage.Play(ctx, d.opts.Scenes)
		return err
	})
	err = group.Wait()
	if terminal != nil { // which no longer shows what has happened
		err = errors.Join(err, view.Plain(ctx, d.board, terminal))
	}
	return results, err
}

// terminal returns the terminal for the live view, or nil if the output should be plain lines.
func (d *demo) terminal() *os.File {
	file, isFile := d.lines.out.(*os.File)
	if isFile && isInteractive(file) && isInteractive(os.Stdin) && wantsColor(os.Getenv) {
		return file
	}
	return nil
}

func isInteractive(file *os.File) bool { return term.IsTerminal(int(file.Fd())) }

// wantsColor reports whether NO_COLOR is unset and the terminal is not dumb.
func wantsColor(getenv func(string) string) bool {
	kind := getenv("TERM")
	return getenv("NO_COLOR") == "" && kind != "" && kind != "dumb"
}
