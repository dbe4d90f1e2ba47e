// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/hack/demo/board"
	"miracle.dev/scaledjob-operator/hack/demo/environment"
	"miracle.dev/scaledjob-operator/hack/demo/view"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	testscene "miracle.dev/scaledjob-operator/test/kit/scene"
)

func burst(ctx context.Context, p *performance) error {
	if err := p.push(ctx, load{environment.Images, 400}, load{environment.Emails, 120}, load{environment.Reports, 15}); err != nil {
		return err
	}
	for _, name := range []string{environment.Images, environment.Emails, environment.Reports} {
		reaction, err := p.reaction(ctx, name)
		if err != nil {
			return err
		}
		p.say("%s: first Job after %s", name, view.Duration(reaction))
	}
	return nil
}

func trickle(ctx context.Context, p *performance) error {
	const rounds, apart = 4, 300 * time.Millisecond
	for range rounds {
		for _, name := range []string{environment.Images, environment.Emails, environment.Reports} {
			if err := p.pushOne(ctx, name); err != nil {
				return err
			}
			if err := testscene.Pause(ctx, apart); err != nil {
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
	if err := p.setEvents(ctx, "", "nothing"); err != nil {
		return err
	}
	if err := p.await(ctx, "the mode is no longer Events", func(rows []board.Row) bool {
		return all(rows, func(row board.Row) bool { return row.ScaledJob.Status.Mode != scaledjobv1.ModeEvents })
	}); err != nil {
		return err
	}
	p.say("the operator has Redis track the keys instead; " + tracked)
	if err := p.push(ctx, load{environment.Images, 20}); err != nil {
		return err
	}
	reaction, err := p.reaction(ctx, environment.Images)
	if err != nil {
		return err
	}
	p.say("%s: first Job after %s, without notifications", environment.Images, view.Duration(reaction))
	if err := p.awaitMode(ctx, scaledjobv1.ModeTracking); err != nil {
		return err
	}
	p.check(true, "the mode has become Tracking")
	if err := polling(ctx, p); err != nil {
		return err
	}
	if err := p.setEvents(ctx, redistest.DefaultEvents, "changes"); err != nil {
		return err
	}
	if err := p.awaitMode(ctx, scaledjobv1.ModeEvents); err != nil {
		return err
	}
	p.check(true, "the mode has become Events again")
	return p.pushOne(ctx, environment.Emails)
}

// polling shows the third mode on one ScaledJob.
func polling(ctx context.Context, p *performance) error {
	const name = environment.Reports
	p.say("%s: spec.notifications is set to Disabled", name)
	if err := p.Environment.SetNotifications(ctx, name, scaledjobv1.NotificationsDisabled); err != nil {
		return err
	}
	if err := p.await(ctx, "the mode is Polling", func(rows []board.Row) bool {
		return find(rows, name).ScaledJob.Status.Mode == scaledjobv1.ModePolling
	}); err != nil {
		return err
	}
	p.check(true, "the mode of %s has become Polling", name)
	p.say("%s: spec.notifications is set back to Enabled", name)
	return p.Environment.SetNotifications(ctx, name, scaledjobv1.NotificationsEnabled)
}

// setEvents sets notify-keyspace-events and shows what Redis announces then.
func (p *performance) setEvents(ctx context.Context, flags, announced string) error {
	const setting = "notify-keyspace-events"
	p.say("CONFIG SET %s %q: Redis announces %s", setting, flags, announced)
	if err := p.Environment.Redis.Emulated.Client().ConfigSet(ctx, setting, flags).Err(); err != nil {
		return fmt.Errorf("setting %s to %q: %w", setting, flags, err)
	}
	return nil
}

func outage(ctx context.Context, p *performance) error {
	const down = 4 * time.Second
	if err := p.push(ctx, load{environment.Images, 40}, load{environment.Reports, 3}); err != nil {
		return err
	}
	if err := p.awaitDue(ctx); err != nil {
		return err
	}
	if err := p.Environment.Redis.Emulated.Kill(); err != nil {
		return err
	}
	p.say("Redis is killed; the workers wait, and their Jobs stay active")
	if err := p.awaitQueueConnected(ctx, metav1.ConditionFalse); err != nil {
		return err
	}
	if err := testscene.Pause(ctx, down); err != nil {
		return err
	}
	unfinished, due := 0, sumUp(p.rows()).Due
	for _, row := range p.rows() {
		unfinished += row.Unfinished
	}
	p.check(unfinished == due, "%s without Redis: %d of %s still active",
		view.Duration(down), unfinished, view.Count(due, "Job"))
	if err := p.Environment.Redis.Emulated.Restart(); err != nil {
		return err
	}
	p.say("Redis is started again, empty: it keeps nothing on disk")
	if err := p.awaitQueueConnected(ctx, metav1.ConditionTrue); err != nil {
		return err
	}
	p.check(true, "the queues are connected again")
	return p.pushOne(ctx, environment.Emails)
}

func crash(ctx context.Context, p *performance) error {
	const early = 5 // Jobs
	const down = 2 * time.Second
	if err := p.push(ctx, load{environment.Images, 300}, load{environment.Emails, 100}); err != nil {
		return err
	}
	if err := p.await(ctx, "the first Jobs have appeared", func(rows []board.Row) bool {
		return find(rows, environment.Images).InScene.Created >= early
	}); err != nil {
		return err
	}
	if err := p.Environment.Operator.Kill(); err != nil {
		return err
	}
	sum := sumUp(p.rows())
	p.say("the operator is killed (SIGKILL) after %d of %s", sum.Created, view.Count(sum.Due, "Job"))
	if err := testscene.Pause(ctx, down); err != nil {
		return err
	}
	if err := p.Environment.Operator.Start(ctx); err != nil {
		return err
	}
	p.say("the operator is started again: it counts Jobs and reads queues")
	return nil
}
