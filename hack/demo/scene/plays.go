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
)

func burst(p *performance) {
	p.push(load{environment.Images, 400}, load{environment.Emails, 120}, load{environment.Reports, 15})
	for _, name := range []string{environment.Images, environment.Emails, environment.Reports} {
		p.say("%s: first Job after %s", name, view.Duration(p.reaction(name)))
	}
}

func trickle(p *performance) {
	const rounds, apart = 4, 300 * time.Millisecond
	for range rounds {
		for _, name := range []string{environment.Images, environment.Emails, environment.Reports} {
			p.pushOne(name)
			p.pause(apart)
		}
	}
}

func flags(p *performance) {
	p.awaitMode(scaledjobv1.ModeEvents)
	p.setEvents("", "nothing")
	p.await("the mode is no longer Events", func(rows []board.Row) bool {
		return all(rows, func(row board.Row) bool { return row.ScaledJob.Status.Mode != scaledjobv1.ModeEvents })
	})
	p.say("the operator has Redis track the keys instead; " + tracked)
	p.push(load{environment.Images, 20})
	reaction := p.reaction(environment.Images)
	p.say("%s: first Job after %s, without notifications", environment.Images, view.Duration(reaction))
	p.awaitMode(scaledjobv1.ModeTracking)
	p.check(true, "the mode has become Tracking")
	polling(p)
	p.setEvents(redistest.DefaultEvents, "changes")
	p.awaitMode(scaledjobv1.ModeEvents)
	p.check(true, "the mode has become Events again")
	p.pushOne(environment.Emails)
}

// polling shows the third mode on one ScaledJob.
func polling(p *performance) {
	const name = environment.Reports
	p.setNotifications(name, scaledjobv1.NotificationsDisabled, "set to Disabled")
	p.await("the mode is Polling", func(rows []board.Row) bool {
		return find(rows, name).ScaledJob.Status.Mode == scaledjobv1.ModePolling
	})
	p.check(true, "the mode of %s has become Polling", name)
	p.setNotifications(name, scaledjobv1.NotificationsEnabled, "set back to Enabled")
}

func (p *performance) setNotifications(name string, mode scaledjobv1.NotificationMode, how string) {
	p.say("%s: spec.notifications is %s", name, how)
	p.do(func(ctx context.Context) error { return p.Environment.SetNotifications(ctx, name, mode) })
}

// setEvents sets notify-keyspace-events and shows what Redis announces then.
func (p *performance) setEvents(flags, announced string) {
	const setting = "notify-keyspace-events"
	p.say("CONFIG SET %s %q: Redis announces %s", setting, flags, announced)
	p.do(func(ctx context.Context) error {
		if err := p.Environment.Redis.Emulated.Client().ConfigSet(ctx, setting, flags).Err(); err != nil {
			return fmt.Errorf("setting %s to %q: %w", setting, flags, err)
		}
		return nil
	})
}

func outage(p *performance) {
	const down = 4 * time.Second
	p.push(load{environment.Images, 40}, load{environment.Reports, 3})
	p.awaitDue()
	p.do(func(context.Context) error { return p.Environment.Redis.Emulated.Kill() })
	p.say("Redis is killed; the workers wait, and their Jobs stay active")
	p.awaitQueueConnected(metav1.ConditionFalse)
	p.pause(down)
	unfinished, due := 0, sumUp(p.rows()).Due
	for _, row := range p.rows() {
		unfinished += row.Unfinished
	}
	p.check(unfinished == due, "%s without Redis: %d of %s still active",
		view.Duration(down), unfinished, view.Count(due, "Job"))
	p.do(func(context.Context) error { return p.Environment.Redis.Emulated.Restart() })
	p.say("Redis is started again, empty: it keeps nothing on disk")
	p.awaitQueueConnected(metav1.ConditionTrue)
	p.check(true, "the queues are connected again")
	p.pushOne(environment.Emails)
}

func crash(p *performance) {
	const early = 5 // Jobs
	const down = 2 * time.Second
	p.push(load{environment.Images, 300}, load{environment.Emails, 100})
	p.await("the first Jobs have appeared", func(rows []board.Row) bool {
		return find(rows, environment.Images).InScene.Created >= early
	})
	p.do(func(context.Context) error { return p.Environment.Operator.Kill() })
	sum := sumUp(p.rows())
	p.say("the operator is killed (SIGKILL) after %d of %s", sum.Created, view.Count(sum.Due, "Job"))
	p.pause(down)
	p.do(func(ctx context.Context) error { return p.Environment.Operator.Start(ctx) })
	p.say("the operator is started again: it counts Jobs and reads queues")
}
