// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	"k8s.io/apimachinery/pkg/types"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// A worker of a pipeline puts the next message in as it is done with its own, in one transaction. Every Job does its
// work, though the depth is always the same.
func TestJobsThatAreDoneWithTheirMessagesAreProgress(t *testing.T) {
	t.Parallel()
	server := allTypes(t)
	const rounds = 6
	for name, c := range scene.Rows(t, map[string]struct {
		queues func(s *scaledJob) []scaledjobv1.Queue
		begin  func(s *scaledJob)
		work   func(s *scaledJob)
	}{
		"stream": {
			func(*scaledJob) []scaledjobv1.Queue { return []scaledjobv1.Queue{stream()} },
			func(s *scaledJob) {
				s.Expect(server.Client().XGroupCreateMkStream(s.t.Context(), s.Queue, group, "0").Err()).To(Succeed())
				s.Expect(addEntry(s.t.Context(), server.Client(), s.Queue, 0)).To(Succeed())
			},
			func(s *scaledJob) {
				read, err := server.Client().XReadGroup(s.t.Context(),
					&redis.XReadGroupArgs{Group: group, Consumer: "a", Streams: []string{s.Queue, ">"}, Count: 1}).Result()
				s.Expect(err).NotTo(HaveOccurred())
				_, err = server.Client().TxPipelined(s.t.Context(), func(pipe redis.Pipeliner) error {
					pipe.XAck(s.t.Context(), s.Queue, group, read[0].Messages[0].ID)
					return addEntry(s.t.Context(), pipe, s.Queue, 0)
				})
				s.Expect(err).NotTo(HaveOccurred())
			},
		},
		"in progress": {
			func(*scaledJob) []scaledjobv1.Queue {
				return []scaledjobv1.Queue{{}, {Name: ":busy", Role: scaledjobv1.RoleInProgress}}
			},
			func(s *scaledJob) { s.Expect(server.Client().LPush(s.t.Context(), s.Queue, "0").Err()).To(Succeed()) },
			func(s *scaledJob) {
				s.Expect(server.Client().LMove(s.t.Context(), s.Queue, s.Queue+":busy", "RIGHT", "LEFT").Err()).To(Succeed())
				_, err := server.Client().TxPipelined(s.t.Context(), func(pipe redis.Pipeliner) error {
					pipe.LPop(s.t.Context(), s.Queue+":busy")
					return pipe.LPush(s.t.Context(), s.Queue, "0").Err()
				})
				s.Expect(err).NotTo(HaveOccurred())
			},
		},
	}, "stream") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScaledJobOn(t, server)
			c.begin(s)
			s.create(s.of(c.queues(s)...), running)
			s.expectCondition(scaledjobv1.ConditionNotificationsActive, "True", scaledjobv1.ReasonSubscribed)
			ended := map[types.UID]bool{}
			for round := range rounds {
				s.Eventually(s.jobsEver).Should(Equal(1 + round))
				job := s.jobBut(ended)
				c.work(s)
				s.succeed(job)
				ended[job.UID] = true
			}
			s.Expect(s.events(scaledjobv1.ReasonNoProgress)).To(BeZero())
		})
	}
}

// A broken worker does not fill the cluster, also where messages go on coming.
func TestJobsThatTakeNoMessagePauseCreationWhileMoreCome(t *testing.T) {
	t.Parallel()
	server := allTypes(t)
	for name, c := range map[string]struct {
		queues []scaledjobv1.Queue
		begin  func(s *scaledJob)
		add    func(s *scaledJob) error
	}{
		"list": {[]scaledjobv1.Queue{{}}, func(*scaledJob) {}, func(s *scaledJob) error {
			return server.Client().LPush(s.t.Context(), s.Queue, "message").Err()
		}},
		"list and in progress": {[]scaledjobv1.Queue{{}, {Name: ":busy", Role: scaledjobv1.RoleInProgress}}, func(*scaledJob) {}, func(s *scaledJob) error {
			return server.Client().LPush(s.t.Context(), s.Queue, "message").Err()
		}},
		"stream": {[]scaledjobv1.Queue{stream()}, func(s *scaledJob) {
			s.Expect(server.Client().XGroupCreateMkStream(s.t.Context(), s.Queue, group, "0").Err()).To(Succeed())
		}, func(s *scaledJob) error { return addEntry(s.t.Context(), server.Client(), s.Queue, 0) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScaledJobOn(t, server)
			c.begin(s)
			s.create(s.of(c.queues...), ending(cluster.PodSucceedAfter), scene.AtMost(5))
			s.expectCondition(scaledjobv1.ConditionNotificationsActive, "True", scaledjobv1.ReasonSubscribed)
			s.Eventually(func() int {
				_ = c.add(s)
				return s.events(scaledjobv1.ReasonNoProgress)
			}).WithPolling(200 * time.Millisecond).Should(Equal(1))
		})
	}
}

// A backlog that is longer than what is counted of it looks the same at every look while it is worked off.
func TestJobsThatWorkOffMoreThanIsCountedAreProgress(t *testing.T) {
	t.Parallel()
	s := newScaledJobOn(t, allTypes(t))
	const rounds = 15
	s.lagUnknown(100)
	s.create(s.of(stream()), running, scene.AtMost(1))
	s.expectCondition(scaledjobv1.ConditionNotificationsActive, "True", scaledjobv1.ReasonSubscribed)
	ended := map[types.UID]bool{}
	for round := range rounds {
		s.Eventually(s.jobsEver).Should(Equal(1 + round))
		job := s.jobBut(ended)
		read, err := s.redis.Client().XReadGroup(t.Context(),
			&redis.XReadGroupArgs{Group: group, Consumer: "a", Streams: []string{s.Queue, ">"}, Count: 1}).Result()
		s.Expect(err).NotTo(HaveOccurred())
		s.Expect(s.redis.Client().XAck(t.Context(), s.Queue, group, read[0].Messages[0].ID).Err()).To(Succeed())
		s.succeed(job)
		ended[job.UID] = true
	}
	s.Expect(s.events(scaledjobv1.ReasonNoProgress)).To(BeZero())
}
