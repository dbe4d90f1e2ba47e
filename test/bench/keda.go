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
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/bench/results"
	"miracle.dev/scaledjob-operator/test/kit/keda"
	"miracle.dev/scaledjob-operator/test/kit/progress"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

const (
	// besideKEDA is the measurement that has KEDA take part.
	besideKEDA = "keda"
	// kedaPatience is for what KEDA does in its own time: with its limits, a thousand Jobs take it most of a minute. On a
	// busy machine its requests for hundreds of new ScaledJobs time out, and it repeats them.
	kedaPatience = 10 * time.Minute

	loopName, operatorName = results.Loop, "operator"
)

// rival is a program that takes turns with the minimal loop.
type rival struct {
	// option is what chooses it on the command line, and name what it is called in tables.
	option, name string
	settings     keda.Settings
	// interval is that between two polls. It is 0 for the operator, which does not poll.
	interval time.Duration
	// It takes one in so many of the samples and rounds, because it needs so long for each.
	samplesPart, roundsPart int
}

// kedas are KEDA with the settings that are measured.
func kedas() []rival {
	const often, rarely = time.Second, 30 * time.Second
	return []rival{
		{"keda-1s-best", "KEDA, 1 s, best settings", keda.Best(), often, 4, 6},
		{"keda-1s", "KEDA, 1 s, defaults", keda.Defaults(), often, 4, 6},
		{"keda-30s", "KEDA, 30 s, defaults", keda.Defaults(), rarely, 50, 20},
	}
}

// contenders is a flag: KEDA with some settings, or with all.
type contenders []rival

func (c *contenders) String() string {
	options := make([]string, len(*c))
	for i, chosen := range *c {
		options[i] = chosen.option
	}
	return strings.Join(options, ",")
}

// Set replaces all.
func (c *contenders) Set(text string) error {
	*c = nil
	for option := range strings.SplitSeq(text, ",") {
		chosen := slices.DeleteFunc(kedas(), func(r rival) bool { return option != besideKEDA && option != r.option })
		if len(chosen) == 0 {
			all := contenders(kedas())
			return fmt.Errorf("%q is neither %s nor one of %s", option, besideKEDA, all.String())
		}
		*c = append(*c, chosen...)
	}
	return nil
}

// prepareKEDA builds KEDA, which takes minutes the first time.
func prepareKEDA(ctx context.Context, log io.Writer) error {
	_, err := keda.Build(ctx, log)
	return err
}

// measureKEDA has the operator, and then KEDA with each of its settings, do the same work in turns with the minimal loop.
// No two of them run at the same time.
func measureKEDA(ctx context.Context, log io.Writer, s *setting, size sizes) ([]comparison, error) {
	program, err := keda.Build(ctx, log)
	if err != nil {
		return nil, err
	}
	if err := program.Install(ctx, s.control); err != nil {
		return nil, err
	}
	found := newTally(size)
	ours := rival{name: operatorName, samplesPart: 1, roundsPart: 6}
	err = (&stage{setting: s, rival: ours, of: s.ours, pid: s.running.PID(), size: size, found: found}).run(ctx, log)
	if err != nil {
		return nil, err
	}
	if err := s.running.Stop(ctx); err != nil {
		return nil, err
	}
	s.running = nil
	if err := s.runKEDAs(ctx, log, program, size, found); err != nil {
		return found.comparisons(), err
	}
	if err := found.print(os.Stdout); err != nil {
		return nil, err
	}
	return found.comparisons(), s.startOurs(ctx, log)
}

// runKEDAs runs KEDA with each of the settings, one after the other.
func (s *setting) runKEDAs(ctx context.Context, log io.Writer, program keda.Program, size sizes, found *tally) error {
	interval := new(time.Duration)
	of := kind{label: keda.JobLabel, object: func(sj *scaledjobv1.ScaledJob) (client.Object, error) {
		return keda.ScaledJob(sj, *interval)
	}}
	served, err := newContenderOf(ctx, of, besideKEDA, s.redis.Client(), s.ours.kube)
	if err != nil {
		return err
	}
	served.patience = kedaPatience
	for _, r := range size.contenders {
		*interval = r.interval
		running, err := program.Start(ctx, keda.Options{Cluster: s.control, Namespace: served.sj.Namespace, Settings: r.settings})
		if err != nil {
			return err
		}
		p := &stage{setting: s, rival: r, of: served, pid: running.PID(), size: size, found: found}
		err = errors.Join(served.create(ctx), whileRunning(ctx, running, func(ctx context.Context) error {
			return p.runAndRemove(ctx, log)
		}))
		if err != nil {
			logs, _ := running.Logs()
			err = fmt.Errorf("%s: %w\nlog of KEDA:\n%s", r.name, err, lastLines(logs))
		}
		if err := errors.Join(err, running.Stop(context.WithoutCancel(ctx))); err != nil {
			return err
		}
	}
	return nil
}

// whileRunning does this work, and ends it if KEDA ends.
func whileRunning(ctx context.Context, running *keda.KEDA, work func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-running.Exited():
			cancel(errors.New("it has ended"))
		case <-ctx.Done():
		}
	}()
	if err := work(ctx); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return nil
}

// lastLines are some lines from the end of a log.
func lastLines(log string) string {
	const kept = 20
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return strings.Join(lines[max(0, len(lines)-kept):], "\n")
}

// stage is the time in which one program takes turns with the minimal loop.
type stage struct {
	*setting
	rival

	of    *contender // that the rival works for
	pid   int        // of the rival
	size  sizes
	found *tally
	shown *progress.Line
}

// run does all work there is.
func (p *stage) run(ctx context.Context, log io.Writer) error {
	p.shown = progress.Start(log, "measuring beside the minimal loop: "+p.name)
	defer p.shown.Stop()
	p.shown.Say("%s …", p.name)
	if err := p.awaitRest(ctx, nil); err != nil {
		return err
	}
	for _, work := range []func(context.Context) error{p.latency, p.burst, p.fanOut, p.churn, p.storm} {
		if err := work(ctx); err != nil {
			return err
		}
	}
	return nil
}

// runAndRemove has no ScaledJob left at the end.
func (p *stage) runAndRemove(ctx context.Context, log io.Writer) error {
	if err := p.run(ctx, log); err != nil {
		return err
	}
	return p.remove(ctx, crowd{p.of}, 0)
}

// both are the minimal loop and the rival. In every other turn the other one is the first.
func (p *stage) both(turn int) []*contender {
	if turn%2 == 0 {
		return []*contender{p.floor, p.of}
	}
	return []*contender{p.of, p.floor}
}

// column is what a contender is called in tables.
func (p *stage) column(c *contender) string {
	if c == p.floor {
		return loopName
	}
	return p.name
}

func (p *stage) polls() bool { return p.interval > 0 }

func (p *stage) samples() int { return max(1, p.size.samples/p.samplesPart) }

func (p *stage) rounds() int { return max(1, p.size.rounds/p.roundsPart) }

// awaitRest waits until the rival is at work for its ScaledJob and for these others, knows of no message, and the
// operator, which counts, of no Job.
func (p *stage) awaitRest(ctx context.Context, others crowd) error {
	if p.polls() {
		return p.awaitKEDA(ctx, len(others)+1)
	}
	return append(slices.Clone(others), p.of).await(ctx, func(status scaledjobv1.ScaledJobStatus) bool {
		return heard(status) && status.QueueDepth != nil && *status.QueueDepth == 0 && status.ActiveJobs == 0
	})
}

// awaitKEDA waits until there are so many ScaledJobs, and KEDA knows that none has a message.
func (p *stage) awaitKEDA(ctx context.Context, count int) error {
	ctx, cancel := context.WithTimeout(ctx, kedaPatience)
	defer cancel()
	atRest := 0
	err := wait.PollUntilContextCancel(ctx, listInterval, true, func(ctx context.Context) (bool, error) {
		list := keda.List()
		if err := p.of.kube.List(ctx, list, client.InNamespace(p.of.sj.Namespace)); err != nil {
			return false, err
		}
		atRest = 0
		for i := range list.Items {
			if keda.AtRest(&list.Items[i]) {
				atRest++
			}
		}
		p.shown.Status("%d of %d ScaledJobs are at rest", atRest, count)
		return len(list.Items) == count && atRest == count, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for KEDA, with %d of %d ScaledJobs at rest: %w", atRest, count, err)
	}
	return nil
}

// remove deletes ScaledJobs, and waits until so many are left. KEDA has to agree to that.
func (p *stage) remove(ctx context.Context, members crowd, left int) error {
	if err := members.remove(ctx); err != nil {
		return err
	}
	if members[0].of.label != keda.JobLabel {
		return nil
	}
	return p.awaitKEDA(ctx, left)
}

// settle gives a rival the time to create Jobs that nobody asked for: until it has polled once more.
func (p *stage) settle(ctx context.Context) error { return scene.Pause(ctx, p.interval+settleTime) }

// surplus is the surplus of a contender, of which only KEDA may have any.
func (p *stage) surplus(c *contender, others crowd) (float64, error) {
	extra := surplus(c, others)
	if extra != 0 && (c != p.of || !p.polls()) {
		return 0, fmt.Errorf("%s is not exact: it has created %+.0f Jobs more than there were messages", p.column(c), extra)
	}
	return extra, nil
}

// surplus is how many more Jobs a contender has created, for its ScaledJob and these others, than there are messages.
func surplus(c *contender, others crowd) float64 {
	all := 0
	for _, member := range append(slices.Clone(others), c) {
		all += member.arrivals.count(member.sj.Name) - member.pushed
	}
	return float64(all)
}

// clear takes all messages and Jobs of a contender away, and returns when it knows.
func (p *stage) clear(ctx context.Context, c *contender, others crowd) error {
	if err := errors.Join(c.empty(ctx), others.empty(ctx)); err != nil {
		return err
	}
	mine := c == p.of
	if mine && p.polls() {
		// Else it could create Jobs for messages that are gone.
		if err := p.awaitRest(ctx, others); err != nil {
			return err
		}
	}
	if err := c.deleteJobs(ctx); err != nil || !mine {
		return err
	}
	if p.polls() {
		return scene.Pause(ctx, settleTime) // until its cache has no Jobs either
	}
	return p.awaitRest(ctx, others)
}
