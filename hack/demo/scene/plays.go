// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/hack/demo/board"
	"miracle.dev/scaledjob-operator/hack/demo/sample"
	"miracle.dev/scaledjob-operator/hack/demo/words"
)

func burst(ctx context.Context, p *performance) error {
	if err := p.push(ctx, load{sample.Images, 400}, load{sample.Emails, 120}, load{sample.Reports, 15}); err != nil {
		return err
	}
	for _, name := range []string{sample.Images, sample.Emails, sample.Reports} {
		reaction, err := p.reaction(ctx, name)
		if err != nil {
			return err
		}
		p.say("%s: first Job after %s", name, words.Duration(reaction))
	}
	return nil
}

func trickle(ctx context.Context, p *performance) error {
	const rounds, apart = 4, 300 * time.Millisecond
	for range rounds {
		for _, name := range []string{sample.Images, sample.Emails, sample.Reports} {
			if err := p.pushOne(ctx, name); err != nil {
				return err
			}
			if err := pause(ctx, apart); err != nil {
				return err
			}
		}
	}
	return nil
}

func flags(ctx context.Context, p *performance) error {
	if err := p.awaitMode(ctx, scaledjobv1.ModeEvents); err != nil {
		return err
	}
	p.say(`CONFIG SET notify-keyspace-events "": Redis announces nothing`)
	if err := p.stage.Events.Switch(ctx, false); err != nil {
		return err
	}
	if err := p.awaitMode(ctx, scaledjobv1.ModePolling); err != nil {
		return err
	}
	p.check(true, "the mode has become Polling")
	if err := p.push(ctx, load{sample.Images, 20}); err != nil {
		return err
	}
	reaction, err := p.reaction(ctx, sample.Images)
	if err != nil {
		return err
	}
	p.say("%s: first Job after %s, by polling", sample.Images, words.Duration(reaction))
	p.say("CONFIG SET notify-keyspace-events: Redis announces changes again")
	if err := p.stage.Events.Switch(ctx, true); err != nil {
		return err
	}
	if err := p.awaitMode(ctx, scaledjobv1.ModeEvents); err != nil {
		return err
	}
	p.check(true, "the mode has become Events again")
	return p.pushOne(ctx, sample.Emails)
}

func outage(ctx context.Context, p *performance) error {
	const down = 4 * time.Second
	if err := p.push(ctx, load{sample.Images, 40}, load{sample.Reports, 3}); err != nil {
		return err
	}
	if err := p.awaitDue(ctx); err != nil {
		return err
	}
	if err := p.stage.Redis.Kill(); err != nil {
		return err
	}
	p.say("Redis is killed; the workers wait, and their Jobs stay active")
	if err := p.awaitQueueConnected(ctx, metav1.ConditionFalse); err != nil {
		return err
	}
	if err := pause(ctx, down); err != nil {
		return err
	}
	unfinished := 0
	for _, row := range p.rows() {
		unfinished += row.Unfinished
	}
	p.check(unfinished == p.totalDue(), "%s without Redis: %d of %s still active",
		words.Duration(down), unfinished, words.Count(p.totalDue(), "Job"))
	if err := p.stage.Redis.Start(ctx); err != nil {
		return err
	}
	p.say("Redis is started again, empty: it keeps nothing on disk")
	if err := p.awaitQueueConnected(ctx, metav1.ConditionTrue); err != nil {
		return err
	}
	p.check(true, "the queues are connected again")
	return p.pushOne(ctx, sample.Emails)
}

func crash(ctx context.Context, p *performance) error {
	const early = 5 // Jobs
	const down = 2 * time.Second
	if err := p.push(ctx, load{sample.Images, 300}, load{sample.Emails, 100}); err != nil {
		return err
	}
	if err := p.await(ctx, "the first Jobs have appeared", func(rows []board.Row) bool {
		return p.created(find(rows, sample.Images)) >= early
	}); err != nil {
		return err
	}
	if err := p.stage.Operator.Kill(); err != nil {
		return err
	}
	p.say("the operator is killed (SIGKILL) after %d of %s", p.totalCreated(p.rows()), words.Count(p.totalDue(), "Job"))
	if err := pause(ctx, down); err != nil {
		return err
	}
	if err := p.stage.Operator.Start(ctx); err != nil {
		return err
	}
	p.say("the operator is started again: it counts Jobs and reads queues")
	return nil
}
