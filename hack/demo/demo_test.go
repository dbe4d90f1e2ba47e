// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	"k8s.io/apimachinery/pkg/util/wait"

	"miracle.dev/scaledjob-operator/hack/demo/script"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// limited is the check of maxReplicas, without the numbers of Jobs, which depend on the machine.
const limited = "never more active than max"

// TestAllScenes plays what make demo plays. The numbers follow from what each scene pushes.
func TestAllScenes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var out, complaint strings.Builder
	g.Expect(run(nil, &out, &complaint)).To(Equal(0), "%s%s", &out, &complaint)
	g.Expect(complaint.String()).To(BeEmpty())
	g.Expect(out.String()).To(MatchRegexp(`(?s)Redis: emulated.*All checks of the 5 scenes passed\..*done\.\n$`))
	g.Expect(shown(out.String(), "ok")).To(Equal(map[string][]string{
		"burst":   {"79 Jobs due, 79 created", limited},
		"trickle": {"12 Jobs due, 12 created", limited},
		"flags": {
			"the mode has become Tracking", "the mode of report-builder has become Polling", "the mode has become Events again",
			"3 Jobs due, 3 created", limited,
		},
		"redis": {
			"4.0 s without Redis: 7 of 7 Jobs still active", "the queues are connected again",
			"8 Jobs due, 8 created", limited,
		},
		"operator": {"50 Jobs due, 50 created", limited},
	}), "%s", &out)
	g.Expect(shown(out.String(), "FAIL")).To(HaveLen(len(script.All())))
	g.Expect(shown(out.String(), "FAIL")).To(HaveEach(BeEmpty()))
}

// The control: messages that the demo has not pushed become a Job that is not due.
func TestACheckThatFailsIsAnError(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{})
	go pushUnasked(t.Context(), server.Client())
	var out, complaint strings.Builder
	g.Expect(run([]string{"-redis=" + server.Addr(), "burst"}, &out, &complaint)).To(Equal(failed), "%s", &out)
	g.Expect(shown(out.String(), "FAIL")).To(Equal(map[string][]string{"burst": {"image-processor: 40 Jobs due, 41 created"}}))
	g.Expect(shown(out.String(), "ok")).To(Equal(map[string][]string{"burst": {limited}}))
	saved := regexp.MustCompile(`^\nThe demo failed: some checks failed\nThe log of the operator: (.+)\n$`).FindStringSubmatch(complaint.String())
	g.Expect(saved).NotTo(BeNil(), "%s", &complaint)
	g.Expect(os.Remove(saved[1])).To(Succeed())
}

// pushUnasked pushes messages for one Job once the demo has pushed its own.
func pushUnasked(ctx context.Context, client *redis.Client) {
	const interval = 10 * time.Millisecond
	_ = wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
		queues := client.Keys(ctx, "*:image-resize-queue").Val()
		if len(queues) == 0 {
			return false, nil
		}
		return true, client.RPush(ctx, queues[0], slices.Repeat([]any{"unasked"}, 10)...).Err()
	})
}

// shown returns the checks of each scene with this verdict, without the numbers of active Jobs.
func shown(out, verdict string) map[string][]string {
	checks, scene := map[string][]string{}, ""
	begin, check := regexp.MustCompile(`^Scene \d of \d: (.+)$`), regexp.MustCompile(`^ {6}`+verdict+` +(.+?)(: at most .+)?$`)
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if match := begin.FindStringSubmatch(line); match != nil {
			scene = match[1]
			checks[scene] = nil
		}
		if match := check.FindStringSubmatch(line); match != nil {
			checks[scene] = append(checks[scene], match[1])
		}
	}
	return checks
}
