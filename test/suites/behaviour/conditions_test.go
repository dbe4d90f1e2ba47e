// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// trouble is a situation that a condition has to tell of.
type trouble struct {
	redis redistest.Options
	// bring brings it about after the ScaledJob was created with these changes.
	bring   func(s *scaledJob)
	changes scene.Change

	condition string
	status    metav1.ConditionStatus
	reason    string
	// cure are words of the message that say what to do.
	cure []string
	mode scaledjobv1.ScalingMode
	// kstatus is what tools that wait for objects make of it.
	kstatus status.Status
}

// denied are users of Redis who may do all but something.
func denied(rules ...string) redistest.Options {
	return redistest.Options{Args: append([]string{"--user", "default", "on", "nopass", "~*", "&*", "+@all"}, rules...)}
}

var troubles = map[string]trouble{
	"none": {
		condition: scaledjobv1.ConditionNotificationsActive, status: metav1.ConditionTrue, reason: scaledjobv1.ReasonSubscribed,
		mode: scaledjobv1.ModeEvents, kstatus: status.CurrentStatus,
	},
	"Redis is away": {
		bring:     func(s *scaledJob) { s.Expect(s.redis.Kill()).To(Succeed()) },
		condition: scaledjobv1.ConditionQueueConnected, status: metav1.ConditionFalse, reason: scaledjobv1.ReasonUnreachable,
		cure: []string{"refused", "Check the port"}, kstatus: status.InProgressStatus,
	},
	"Redis is away, and so is the subscription": {
		bring:     func(s *scaledJob) { s.Expect(s.redis.Kill()).To(Succeed()) },
		condition: scaledjobv1.ConditionNotificationsActive, status: metav1.ConditionFalse, reason: scaledjobv1.ReasonUnreachable,
		mode: scaledjobv1.ModePolling, kstatus: status.InProgressStatus,
	},
	"the name of the server is unknown": {
		changes:   func(spec *scaledjobv1.ScaledJobSpec) { spec.RedisAddress = "redis.nowhere.invalid:6379" },
		condition: scaledjobv1.ConditionQueueConnected, status: metav1.ConditionFalse, reason: scaledjobv1.ReasonUnreachable,
		cure: []string{"cannot be resolved", "DNS"}, kstatus: status.InProgressStatus,
	},
	"a password is asked for": {
		redis:     redistest.Options{Args: []string{"--requirepass", "secret"}},
		condition: scaledjobv1.ConditionQueueConnected, status: metav1.ConditionFalse, reason: scaledjobv1.ReasonAuthFailed,
		cure: []string{"password"}, kstatus: status.FailedStatus,
	},
	"the depth may not be read": {
		redis:     denied("-llen"),
		condition: scaledjobv1.ConditionQueueConnected, status: metav1.ConditionFalse, reason: scaledjobv1.ReasonPermissionDenied,
		cure: []string{"Grant it +llen"}, kstatus: status.FailedStatus,
	},
	"the key holds no list": {
		bring: func(s *scaledJob) {
			s.Expect(s.redis.Client().Set(s.t.Context(), s.Queue, "no list", 0).Err()).To(Succeed())
		},
		changes:   scene.Polling(1),
		condition: scaledjobv1.ConditionQueueConnected, status: metav1.ConditionFalse, reason: scaledjobv1.ReasonWrongType,
		cure: []string{"another type than the spec says", "name another key"}, kstatus: status.FailedStatus,
	},
	"notifications are off": {
		redis:     redistest.Options{Events: "Ex"},
		condition: scaledjobv1.ConditionNotificationsActive, status: metav1.ConditionFalse, reason: scaledjobv1.ReasonNotConfigured,
		cure: []string{"CONFIG SET notify-keyspace-events KElgx", "managed services"},
		mode: scaledjobv1.ModePolling, kstatus: status.CurrentStatus,
	},
	"notifications are off, and changes are tracked": {
		redis: redistest.Options{Events: redistest.NoEvents},
		bring: func(s *scaledJob) {
			s.Eventually(func() scaledjobv1.ScalingMode {
				s.Push(1)
				return s.Status().Mode
			}).Should(Equal(scaledjobv1.ModeTracking))
		},
		condition: scaledjobv1.ConditionNotificationsActive, status: metav1.ConditionFalse, reason: scaledjobv1.ReasonNotConfigured,
		cure: []string{"Redis tracks the keys and tells the operator of changes"},
		mode: scaledjobv1.ModeTracking, kstatus: status.CurrentStatus,
	},
	"notifications are switched off at run time": {
		bring: func(s *scaledJob) {
			s.Expect(s.redis.Client().ConfigSet(s.t.Context(), "notify-keyspace-events", "").Err()).To(Succeed())
		},
		condition: scaledjobv1.ConditionNotificationsActive, status: metav1.ConditionFalse, reason: scaledjobv1.ReasonNotConfigured,
		cure: []string{"CONFIG SET notify-keyspace-events Klg"},
		mode: scaledjobv1.ModePolling, kstatus: status.CurrentStatus,
	},
	"the setting can't be seen": {
		redis:     denied("-config"),
		condition: scaledjobv1.ConditionNotificationsActive, status: metav1.ConditionUnknown, reason: scaledjobv1.ReasonUnverified,
		cure: []string{"contains K and the letter", "The first notification verifies it"},
		mode: scaledjobv1.ModePolling, kstatus: status.CurrentStatus,
	},
	"the queue grows in silence": {
		redis: redistest.Options{Events: redistest.NoEvents, Args: denied("-config", "-client|tracking").Args},
		bring: func(s *scaledJob) {
			depth := 0
			s.Eventually(func() string {
				depth++
				s.Push(1)
				s.Eventually(s.Status).Should(HaveField("QueueDepth", HaveValue(BeEquivalentTo(depth))))
				return s.condition(scaledjobv1.ConditionNotificationsActive)
			}).Should(ContainSubstring(scaledjobv1.ReasonNoEventsObserved))
		},
		changes: func(spec *scaledjobv1.ScaledJobSpec) {
			scene.Polling(1)(spec)
			spec.Suspend = true
		},
		condition: scaledjobv1.ConditionNotificationsActive, status: metav1.ConditionFalse, reason: scaledjobv1.ReasonNoEventsObserved,
		cure: []string{"l for lists", "The next notification verifies it"},
		mode: scaledjobv1.ModePolling, kstatus: status.CurrentStatus,
	},
	"there are too many notifications": {
		bring: func(s *scaledJob) {
			ctx := s.t.Context()
			s.Eventually(func() string {
				flood := s.redis.Client().Pipeline()
				for range 10_000 {
					flood.Publish(ctx, "__keyspace@0__:"+s.Queue, "lpush")
				}
				_, err := flood.Exec(ctx)
				s.Expect(err).NotTo(HaveOccurred())
				return s.condition(scaledjobv1.ConditionNotificationsActive)
			}).Should(ContainSubstring(scaledjobv1.ReasonTooManyNotifications))
			s.Eventually(func() scaledjobv1.ScalingMode {
				s.Push(1)
				return s.Status().Mode
			}).Should(Equal(scaledjobv1.ModeTracking))
		},
		condition: scaledjobv1.ConditionNotificationsActive, status: metav1.ConditionFalse, reason: scaledjobv1.ReasonTooManyNotifications,
		cure: []string{"more keyspace notifications", "Redis tracks the keys and tells the operator of changes"},
		mode: scaledjobv1.ModeTracking, kstatus: status.CurrentStatus,
	},
	"the channel is denied": {
		redis:     denied("resetchannels"),
		condition: scaledjobv1.ConditionNotificationsActive, status: metav1.ConditionFalse, reason: scaledjobv1.ReasonPermissionDenied,
		cure: []string{"the channel __keyspace@0__:"},
		mode: scaledjobv1.ModePolling, kstatus: status.CurrentStatus,
	},
	"notifications are not wanted": {
		changes: func(spec *scaledjobv1.ScaledJobSpec) { spec.Notifications = scaledjobv1.NotificationsDisabled },

		condition: scaledjobv1.ConditionNotificationsActive, status: metav1.ConditionFalse, reason: scaledjobv1.ReasonDisabled,
		cure: []string{"spec.notifications"}, mode: scaledjobv1.ModePolling, kstatus: status.CurrentStatus,
	},
	"only tracking is wanted": {
		changes: func(spec *scaledjobv1.ScaledJobSpec) { spec.Notifications = scaledjobv1.NotificationsTracking },

		condition: scaledjobv1.ConditionNotificationsActive, status: metav1.ConditionFalse, reason: scaledjobv1.ReasonNotSubscribed,
		cure: []string{"spec.notifications", "Redis tracks the keys"}, kstatus: status.CurrentStatus,
	},
	"the template is bad": {
		changes:   func(spec *scaledjobv1.ScaledJobSpec) { spec.JobTemplate.Spec.BackoffLimit = new(int32(-1)) },
		condition: scaledjobv1.ConditionTemplateValid, status: metav1.ConditionFalse, reason: scaledjobv1.ReasonRejected,
		cure: []string{"Correct spec.jobTemplate", "backoffLimit"}, kstatus: status.FailedStatus,
	},
	"the template is good": {
		condition: scaledjobv1.ConditionTemplateValid, status: metav1.ConditionTrue, reason: scaledjobv1.ReasonAccepted,
		kstatus: status.CurrentStatus,
	},
	"more is due than may be": {
		bring:     func(s *scaledJob) { s.Push(3) },
		changes:   scene.AtMost(2),
		condition: scaledjobv1.ConditionScalingLimited, status: metav1.ConditionTrue, reason: scaledjobv1.ReasonAtMaxReplicas,
		cure: []string{"Raise it"}, kstatus: status.CurrentStatus,
	},
	"Jobs fail": {
		bring:     func(s *scaledJob) { s.Push(3) },
		changes:   ending(cluster.PodFailAfter),
		condition: scaledjobv1.ConditionScalingLimited, status: metav1.ConditionTrue, reason: scaledjobv1.ReasonJobsFailing,
		cure: []string{"kubectl logs", "correct the workers"}, kstatus: status.CurrentStatus,
	},
	"Jobs take no message": {
		bring:     func(s *scaledJob) { s.Push(3) },
		changes:   ending(cluster.PodSucceedAfter),
		condition: scaledjobv1.ConditionScalingLimited, status: metav1.ConditionTrue, reason: scaledjobv1.ReasonNoProgress,
		cure: []string{"take messages from this key"}, kstatus: status.CurrentStatus,
	},
	"a quota is used up": {
		bring: func(s *scaledJob) {
			s.allowJobs(0)
			s.Push(1)
		},
		condition: scaledjobv1.ConditionScalingLimited, status: metav1.ConditionTrue, reason: scaledjobv1.ReasonCreateRefused,
		cure: []string{"exceeded quota", "Raise the quota"}, kstatus: status.InProgressStatus, // From the second refusal on.
	},
	"a quota keeps the template from being checked": {
		bring: func(s *scaledJob) {
			s.allowJobs(0)
			s.Update(image("other"))
		},
		condition: scaledjobv1.ConditionTemplateValid, status: metav1.ConditionUnknown, reason: scaledjobv1.ReasonNotChecked,
		cure: []string{"did not check the template", "exceeded quota"}, kstatus: status.CurrentStatus,
	},
	"nothing is held back": {
		condition: scaledjobv1.ConditionScalingLimited, status: metav1.ConditionFalse, reason: scaledjobv1.ReasonNotLimited,
		kstatus: status.CurrentStatus,
	},
	"suspended": {
		changes:   func(spec *scaledjobv1.ScaledJobSpec) { spec.Suspend = true },
		condition: scaledjobv1.ConditionReady, status: metav1.ConditionTrue, reason: scaledjobv1.ReasonSuspended,
		kstatus: status.CurrentStatus,
	},
}

func TestConditionsTellWhatIsWrongAndWhatToDo(t *testing.T) {
	t.Parallel()
	for name, trouble := range troubles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScaledJobOn(t, redistest.New(t, trouble.redis))
			changes := []scene.Change{scene.Polling(scene.Never)}
			if trouble.changes != nil {
				changes = append(changes, trouble.changes)
			}
			s.create(changes...)
			if trouble.bring != nil {
				s.expectCondition(scaledjobv1.ConditionReady, metav1.ConditionTrue, s.readyReason())
				s.Eventually(s.Status).Should(HaveField("Mode", Not(BeEmpty())))
				trouble.bring(s)
			}
			s.expectCondition(trouble.condition, trouble.status, trouble.reason)
			message := func() string { return s.condition(trouble.condition) }
			for _, words := range trouble.cure {
				// What breaks a connection has another message than what refuses the next one.
				s.Eventually(message).Should(ContainSubstring(words))
			}
			s.Expect(message()).NotTo(ContainSubstring(s.redis.Addr()))
			if trouble.mode != "" {
				s.Expect(s.Status().Mode).To(Equal(trouble.mode))
			}
			s.Eventually(s.kstatus).Should(Equal(trouble.kstatus))
		})
	}
}

// readyReason is the reason of Ready while nothing is wrong.
func (s *scaledJob) readyReason() string {
	if s.Get().Spec.Suspend {
		return scaledjobv1.ReasonSuspended
	}
	return scaledjobv1.ReasonReconciled
}

// kstatus is what the library that tools wait with makes of the ScaledJob.
func (s *scaledJob) kstatus() status.Status {
	s.t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(scaledjobv1.GroupVersion.WithKind("ScaledJob"))
	s.Expect(s.API.Get(s.t.Context(), client.ObjectKeyFromObject(s.Reference()), object)).To(Succeed())
	result, err := status.Compute(object)
	s.Expect(err).NotTo(HaveOccurred())
	return result.Status
}

// While it is well, nothing abnormal is shown; and what heals is taken back.
func TestTroubleThatIsOverLeavesNoCondition(t *testing.T) {
	t.Parallel()
	s := newScaledJobOn(t, redistest.New(t, redistest.Options{}))
	s.create(scene.Polling(1))
	s.expectCondition(scaledjobv1.ConditionNotificationsActive, metav1.ConditionTrue, scaledjobv1.ReasonSubscribed)
	s.Expect(s.redis.Kill()).To(Succeed())
	s.expectCondition(scaledjobv1.ConditionReconciling, metav1.ConditionTrue, scaledjobv1.ReasonUnreachable)
	s.expectCondition(scaledjobv1.ConditionNotificationsActive, metav1.ConditionFalse, scaledjobv1.ReasonUnreachable)
	s.Eventually(s.events).WithArguments("NotificationsUnavailable").Should(Equal(1))

	s.Expect(s.redis.Restart(t.Context())).To(Succeed())
	s.expectCondition(scaledjobv1.ConditionReady, metav1.ConditionTrue, scaledjobv1.ReasonReconciled)
	s.expectCondition(scaledjobv1.ConditionNotificationsActive, metav1.ConditionTrue, scaledjobv1.ReasonSubscribed)
	s.Expect(s.condition(scaledjobv1.ConditionReconciling)).To(Equal("none"))
	s.Expect(s.Status().Mode).To(Equal(scaledjobv1.ModeEvents))
	s.Eventually(s.events).WithArguments("NotificationsRestored").Should(Equal(1))
}

// The setting is the only thing that the operator may change in Redis, and only if it is told to.
func TestNotificationsAreConfiguredOnRequest(t *testing.T) {
	t.Parallel()
	s := newScaledJobIn(t, separate, redistest.New(t, redistest.Options{Events: "Ex"}))
	s.Operator = s.operate("--configure-redis-notifications")
	s.create(scene.Polling(scene.Never))
	s.expectCondition(scaledjobv1.ConditionNotificationsActive, metav1.ConditionTrue, scaledjobv1.ReasonSubscribed)
	flags, err := s.redis.Client().ConfigGet(t.Context(), "notify-keyspace-events").Result()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(strings.Split(flags["notify-keyspace-events"], "")).To(ConsistOf("K", "E", "l", "g", "x"))
	s.Push(2)
	s.Eventually(s.jobsEver).Should(Equal(2))
}

// Without proof, the fallback bounds how long a message waits.
func TestQueueWithoutNotificationsIsReadAtTheFallbackInterval(t *testing.T) {
	t.Parallel()
	s := newScaledJobIn(t, separate, redistest.New(t, redistest.Options{Events: redistest.NoEvents}))
	s.Operator = s.operate("--polling-fallback-interval=1s")
	s.create(scene.Polling(scene.Never))
	s.expectCondition(scaledjobv1.ConditionNotificationsActive, metav1.ConditionFalse, scaledjobv1.ReasonNotConfigured)
	s.Push(2)
	s.Eventually(s.jobsEver).Should(Equal(2))
}

func TestTroubleThatLastsIsWrittenOnce(t *testing.T) {
	t.Parallel()
	s := newScaledJobOn(t, redistest.New(t, redistest.Options{}))
	s.Expect(s.redis.Kill()).To(Succeed())
	s.create(scene.Polling(1))
	s.expectCondition(scaledjobv1.ConditionReconciling, metav1.ConditionTrue, scaledjobv1.ReasonUnreachable)
	s.expectCondition(scaledjobv1.ConditionNotificationsActive, metav1.ConditionFalse, scaledjobv1.ReasonUnreachable)
	version, reconciles := s.Get().ResourceVersion, s.Reconciles()
	s.Eventually(s.Reconciles).Should(BeNumerically(">=", reconciles+5))
	s.Expect(s.Get().ResourceVersion).To(Equal(version))
}
