// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/bench/results"
	"miracle.dev/scaledjob-operator/test/kit/keda"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// kedaName is the name of the measurement in which KEDA takes part, and of the option for all its settings.
const kedaName = "keda"

// rival is KEDA with some settings.
type rival struct {
	// option selects it on the command line, and name is what it is called in tables.
	option, name string
	settings     keda.Settings
	// interval is that between two polls.
	interval time.Duration
	// samplesPart and roundsPart say that KEDA takes one in so many of the samples and rounds, because each takes it long.
	samplesPart, roundsPart int
}

// rivals are KEDA with the settings that are measured.
func rivals() []rival {
	const often, rarely = time.Second, 30 * time.Second
	return []rival{
		{"keda-1s-best", "KEDA, 1 s, best settings", keda.Best(), often, 4, 6},
		{"keda-1s", "KEDA, 1 s, defaults", keda.Defaults(), often, 4, 6},
		{"keda-30s", "KEDA, 30 s, defaults", keda.Defaults(), rarely, 50, 20},
	}
}

// chooseRivals takes options separated by commas. All begin with that for all of them.
func chooseRivals(text string) (chosen []rival, err error) {
	for option := range strings.SplitSeq(text, ",") {
		some := slices.DeleteFunc(rivals(), func(r rival) bool { return option != kedaName && option != r.option })
		if len(some) == 0 {
			return nil, fmt.Errorf("%q is neither %s nor one of its settings", option, kedaName)
		}
		chosen = append(chosen, some...)
	}
	return chosen, nil
}

// tally has the values of each program and work.
type tally []*tallied

// tallied is a result: the quantile of samples, or if part is 0, the median of rounds.
type tallied struct {
	work, unit string
	part       float64
	values     []float64
}

// add adds values of both. Those of the loop come from its turns with all rivals.
func (t *tally) add(p *pair, work, unit string, part float64, more values) {
	for _, of := range p.inTurn(0) {
		if len(more[of]) == 0 {
			continue
		}
		named := of.name + ": " + work
		at := slices.IndexFunc(*t, func(known *tallied) bool { return known.work == named })
		if at < 0 {
			at, *t = len(*t), append(*t, &tallied{work: named, unit: unit, part: part})
		}
		(*t)[at].values = append((*t)[at].values, more[of]...)
	}
}

func (t *tally) figures() (all []results.Figure) {
	for _, each := range *t {
		if each.part > 0 {
			all = append(all, results.Alone(each.work, each.unit, quantile(each.values, each.part)))
		} else {
			all = append(all, results.Median(each.work, each.unit, each.values))
		}
	}
	return all
}

// measureKEDA has the operator, and then KEDA with each of its settings, do the same work in turns with the minimal
// loop. No two of them run at the same time.
func measureKEDA(ctx context.Context, p *pair, only choices) ([]results.Figure, error) {
	const roundsPart = 6
	program, err := keda.Build(ctx, os.Stderr)
	if err != nil {
		return nil, err
	}
	if err := program.Install(ctx, p.control); err != nil {
		return nil, err
	}
	found := &tally{}
	if err := p.compete(ctx, found, samples, rounds/roundsPart); err != nil {
		return nil, err
	}
	if err := p.stopOperator(ctx); err != nil {
		return nil, err
	}
	interval := new(time.Duration)
	of := kind{label: keda.JobLabel, object: func(sj *scaledjobv1.ScaledJob) (client.Object, error) {
		return keda.ScaledJob(sj, *interval)
	}}
	served, err := newSubject(ctx, of, kedaName, p.redis.Client(), p.operator.kube)
	if err != nil {
		return nil, err
	}
	for _, r := range only.rivals {
		*interval, served.name = r.interval, r.name
		now := &pair{setting: p.setting, rival: served, interval: r.interval, shown: p.shown}
		if err := now.runKEDA(ctx, program, r, found); err != nil {
			return found.figures(), fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return found.figures(), p.startOperator(ctx)
}

// runKEDA runs KEDA with some settings. It ends the work if KEDA ends.
func (p *pair) runKEDA(ctx context.Context, program keda.Program, r rival, found *tally) error {
	running, err := program.Start(ctx, keda.Options{Cluster: p.control, Namespace: p.rival.sj.Namespace, Settings: r.settings})
	if err != nil {
		return err
	}
	p.rival.pid = running.PID()
	working, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-running.Exited():
			cancel(errors.New("it has ended"))
		case <-working.Done():
		}
	}()
	err = p.rival.create(working)
	if err == nil {
		err = p.compete(working, found, samples/r.samplesPart, rounds/r.roundsPart)
	}
	if err == nil {
		err = errors.Join(p.rival.remove(working), p.awaitKEDA(working, 0))
	}
	if err != nil {
		err = fmt.Errorf("%w\nlog of KEDA:\n%s", errors.Join(err, context.Cause(working)), lastLines(running.Logs()))
	}
	return errors.Join(err, running.Stop(context.WithoutCancel(ctx)))
}

// lastLines are some lines from the end of a log.
func lastLines(log string) string {
	const kept = 20
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return strings.Join(lines[max(0, len(lines)-kept):], "\n")
}

// compete does all work there is.
func (p *pair) compete(ctx context.Context, found *tally, samples, rounds int) error {
	p.shown.Say("%s …", p.rival.name)
	if err := p.awaitRest(ctx, nil); err != nil {
		return err
	}
	const surplusJobs = ", Jobs too many"
	took, surplus, err := p.latency(ctx, subjects{p.rival}, samples)
	if err != nil {
		return err
	}
	found.add(p, "push → Job seen, p50", "ms", median, took)
	found.add(p, "push → Job seen, p99", "ms", tail, took)
	found.add(p, "single messages"+surplusJobs, "", 0, surplus)
	rates, surplus, err := p.bursts(ctx, rounds, 0)
	if err != nil {
		return err
	}
	work := fmt.Sprintf("burst of %d", burstSize)
	found.add(p, work, "Jobs/s", 0, rates)
	found.add(p, work+surplusJobs, "", 0, surplus)
	const queues = 300
	each, surplus, err := p.fanOut(ctx, queues, rounds, false)
	if err != nil {
		return err
	}
	work = fmt.Sprintf("%d queues get a message each within %s", queues, fanOutTime)
	found.add(p, work+", p50", "ms", 0, ofRounds(each, median))
	found.add(p, work+", p99", "ms", 0, ofRounds(each, tail))
	found.add(p, work+surplusJobs, "", 0, surplus)
	lasted, surplus, err := p.crews(ctx, rounds)
	if err != nil {
		return err
	}
	work = fmt.Sprintf("%d messages, %d Jobs at once", crewMessages, crewLimit)
	found.add(p, work+", until all are processed", "s", 0, lasted)
	found.add(p, work+surplusJobs, "", 0, surplus)
	cores, pushes, err := p.storms(ctx, rounds)
	work = fmt.Sprintf("%d pushes/s to a queue at its limit, %s", stormPushes, stormTime)
	found.add(p, work+", CPU", "cores", 0, values{p.rival: cores})
	found.add(p, work+", pushes", "/s", 0, values{p.rival: pushes})
	return err
}

// ofRounds is the same quantile of each round.
func ofRounds(all map[*subject][][]float64, part float64) values {
	result := values{}
	for of, rounds := range all {
		for _, round := range rounds {
			result[of] = append(result[of], quantile(round, part))
		}
	}
	return result
}

const (
	// In a storm, so many pushes per second come to a queue that is at its limit. Each is a command of its own, and
	// mostPiped are sent together.
	stormPushes  = 20_000
	stormTime    = 30 * time.Second
	stormLimit   = int32(2)
	mostPiped    = 500
	pushInterval = 10 * time.Millisecond
)

// storms returns how much CPU storms cost the rival, and how many pushes per second there were. The minimal loop has no
// limit.
func (p *pair) storms(ctx context.Context, rounds int) (cores, pushes []float64, err error) {
	for round := range rounds {
		p.shown.Status("%d messages a second, round %d of %d", stormPushes, round+1, rounds)
		// The operator does not subscribe to a key for a while after it changed too often. Each storm has a key of its own.
		full, limit := p.rival.sibling(fmt.Sprintf("storm-%d", round)), stormLimit
		full.sj.Spec.MaxReplicas = &limit
		if err := errors.Join(full.create(ctx), p.awaitRest(ctx, subjects{full})); err != nil {
			return nil, nil, err
		}
		core, push, err := p.storm(ctx, full)
		if err != nil {
			return nil, nil, err
		}
		cores, pushes = append(cores, core), append(pushes, push)
		if err := errors.Join(full.empty(ctx), p.remove(ctx, p.rival, subjects{full}), p.clear(ctx, p.rival, nil)); err != nil {
			return nil, nil, err
		}
	}
	return cores, pushes, nil
}

func (p *pair) storm(ctx context.Context, full *subject) (cores, pushes float64, err error) {
	if _, err := full.serve(ctx, int(stormLimit)); err != nil {
		return 0, 0, err
	}
	if err := sjtest.Pause(ctx, p.interval+settleTime); err != nil {
		return 0, 0, err
	}
	before, err := cpuTime(p.rival.pid)
	if err != nil {
		return 0, 0, err
	}
	pushed, begun := 0, time.Now()
	for time.Since(begun) < stormTime {
		for due := int(time.Since(begun).Seconds() * stormPushes); pushed < due; {
			some := min(due-pushed, mostPiped)
			if _, err := full.push(ctx, some); err != nil {
				return 0, 0, err
			}
			pushed += some
		}
		if err := sjtest.Pause(ctx, pushInterval); err != nil {
			return 0, 0, err
		}
	}
	lasted := time.Since(begun).Seconds()
	after, err := cpuTime(p.rival.pid)
	return (after - before) / lasted, float64(pushed) / lasted, err
}
