// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package oncall

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	goredis "github.com/redis/go-redis/v9"
	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/certificates"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/skip"
	"miracle.dev/scaledjob-operator/test/kit/webhook"
)

// fault is something that an alert is about.
type fault struct {
	bring func(s *stage)
	// again is done repeatedly until the alert fires. It may be nil.
	again func(s *stage)
	alert string
	// says is a part of the description.
	says string
	cure func(s *stage)
}

const never = 24 * time.Hour

var faults = map[string]fault{
	"Pods never become ready": {
		bring: func(s *stage) {
			s.create(pods(cluster.PodReadyAfter, never.String()))
			s.Push(2)
		},
		alert: "ScaledJobNothingRuns", says: "has 2 outstanding messages",
		cure: func(s *stage) { s.now(cluster.PodReadyAfter) },
	},
	"messages of a list wait for Pods": {
		bring: func(s *stage) {
			s.create(pods(cluster.PodReadyAfter, never.String()))
			s.Push(2)
		},
		alert: "ScaledJobMessagesOld", says: "have been outstanding for up to",
		cure: func(s *stage) { s.now(cluster.PodReadyAfter) },
	},
	"a message of a stream is old": {
		bring: func(s *stage) {
			anHourAgo := strconv.FormatInt(time.Now().Add(-time.Hour).UnixMilli(), 10)
			add := &goredis.XAddArgs{Stream: s.Queue, ID: anHourAgo + "-1", Values: []string{"job", "1"}}
			s.Expect(s.Redis.XAdd(s.t.Context(), add).Err()).To(Succeed())
			s.create(func(spec *scaledjobv1.ScaledJobSpec) {
				spec.QueueName, spec.Queues = "", []scaledjobv1.Queue{{Name: s.Queue, Type: scaledjobv1.QueueStream}}
			})
		},
		alert: "ScaledJobMessagesOld", says: "have been outstanding for up to 1h",
		cure: func(s *stage) { s.Expect(s.Redis.XTrimMaxLen(s.t.Context(), s.Queue, 0).Err()).To(Succeed()) },
	},
	"Redis is down": {
		bring: func(s *stage) {
			s.on(redistest.Options{})
			s.create()
			s.AwaitSubscription()
			s.Expect(s.server.Kill()).To(Succeed())
		},
		alert: "ScaledJobNotReady", says: "Reason: Unreachable.",
		cure: func(s *stage) { s.Expect(s.server.Restart(s.t.Context())).To(Succeed()) },
	},
	"the template is too large": {
		bring: func(s *stage) { s.create(pods("example.com/script", strings.Repeat("a", 65<<10))) },
		alert: "ScaledJobNotReady", says: "Reason: InvalidSpec.",
		cure: func(s *stage) { s.Update(pods("example.com/script", "short")) },
	},
	"a quota refuses Jobs": {
		bring: func(s *stage) {
			_, err := s.Limit(s.t.Context(), "jobs", map[corev1.ResourceName]int64{sjtest.JobCount: 0})
			s.Expect(err).NotTo(HaveOccurred())
			s.create()
			s.Push(1)
		},
		alert: "ScaledJobCreatesFail", says: "Reason: CreateRefused.",
		cure: func(s *stage) {
			quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "jobs"}}
			s.Expect(s.API.Delete(s.t.Context(), quota)).To(Succeed())
			// It tries again at once when it is suspended and resumed.
			s.Update(suspended(true))
			s.Update(suspended(false))
		},
	},
	"Jobs fail": {
		bring: func(s *stage) {
			s.create(pods(cluster.PodFailAfter, "0s"))
			s.Push(3)
		},
		alert: "ScaledJobJobsFail", says: "Reason: JobsFailing.",
		cure: func(s *stage) { s.Update(pods("example.com/corrected", "yes")) },
	},
	"more Jobs are due than maxReplicas allows": {
		bring: func(s *stage) {
			s.create(sjtest.AtMost(1))
			s.Push(2)
			s.awaitReady(1)
		},
		alert: "ScaledJobAtMaximum", says: "spec.maxReplicas",
		cure: func(s *stage) { s.Update(sjtest.AtMost(2)) },
	},
	"Jobs are suspended": {
		bring: func(s *stage) {
			s.create(func(spec *scaledjobv1.ScaledJobSpec) { spec.JobTemplate.Spec.Suspend = new(true) })
			s.Push(1)
		},
		alert: "ScaledJobJobsNotStarting", says: "are suspended",
		cure: (*stage).resume,
	},
	"Redis neither notifies nor tracks": {
		bring: func(s *stage) {
			s.on(silent())
			s.create()
		},
		again: func(s *stage) { s.Push(1) },
		alert: "ScaledJobPolls", says: "neither sends notifications nor tracks",
		cure: func(s *stage) { s.Update(polled) },
	},
	"Redis tracks no keys": {
		bring: func(s *stage) {
			s.on(silent())
			s.create()
		},
		alert: "ScaledJobTrackingDown", says: "track keys of database 0",
		cure: func(s *stage) {
			s.Expect(s.Redis.Do(s.t.Context(), "ACL", "SETUSER", "default", "+client|tracking").Err()).To(Succeed())
		},
	},
	"Redis does not say that a queue grows": {
		bring: func(s *stage) {
			s.on(silent())
			s.create()
			s.AwaitSubscription()
		},
		again: func(s *stage) { s.Push(1) },
		alert: "ScaledJobEventsLost", says: "has grown",
		cure: func(s *stage) { s.Update(polled) },
	},
	"statuses can't be written": {
		bring: func(s *stage) {
			s.create()
			s.AwaitTemplateChecked()
			s.ask(webhook.UpdateStatus, webhook.Refuse(500))
		},
		again: func(s *stage) { s.Push(1) },
		alert: "ScaledJobReconcileErrors", says: "although it is Ready",
		cure: undo,
	},
	"the API server takes a second and a half to create a Job": {
		bring: func(s *stage) {
			s.create()
			s.AwaitSubscription()
			s.ask(webhook.CreateJob, late)
		},
		again: func(s *stage) { s.Push(10) },
		alert: "ScaledJobReactionsSlow", says: "took longer than a second",
		cure: undo,
	},
	"a webhook holds the share of the workers": {
		bring: func(s *stage) {
			const scaledJobs = 60
			s.ask(webhook.CreateJob, webhook.Hang)
			for i := range scaledJobs {
				name := fmt.Sprintf("worker-%d", i)
				other := *s
				other.Test = sjtest.NewTest(s.t, timeout, s.Neighbour(name, s.Queue+name))
				other.create()
				other.Push(1)
			}
			s.create()
		},
		alert: "ScaledJobReconcilesParked", says: "requests for reconciles of ScaledJobs in namespace",
		cure: undo,
	},
	"a certificate is valid for a day": {
		bring: func(s *stage) {
			authority := certificates.NewAuthority(s.t)
			s.on(redistest.Options{TLS: &redistest.TLS{Server: authority.Server(s.t, "127.0.0.1")}})
			s.Expect(s.API.Create(s.t.Context(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "redis"},
				Data:       map[string][]byte{"ca.crt": authority.Certificate()},
			})).To(Succeed())
			s.create(func(spec *scaledjobv1.ScaledJobSpec) {
				spec.RedisAddress, spec.Redis = "", &scaledjobv1.Redis{
					Addresses: []string{s.Address},
					TLS: &scaledjobv1.RedisTLS{
						Mode: scaledjobv1.RedisTLSEnabled, CASecretRef: &scaledjobv1.SecretKeyReference{Name: "redis"},
					},
				}
			})
		},
		alert: "ScaledJobCertificateExpires", says: "expires in 23h",
		cure: func(s *stage) { s.Update(suspended(true)) },
	},
}

func suspended(is bool) sjtest.Change {
	return func(spec *scaledjobv1.ScaledJobSpec) { spec.Suspend = is }
}

func polled(spec *scaledjobv1.ScaledJobSpec) { spec.Notifications = scaledjobv1.NotificationsDisabled }

// silent is a server that sends no notifications, does not say so, and tracks no keys.
func silent() redistest.Options {
	return redistest.Options{
		Events: redistest.NoEvents,
		Args:   []string{"--user", "default", "on", "nopass", "~*", "&*", "+@all", "-config", "-client|tracking"},
	}
}

// late allows a request after a second and a half.
func late(review *admissionv1.AdmissionReview) (any, bool) {
	<-time.After(1500 * time.Millisecond)
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	review.Request = nil
	return review, true
}

// resume has the Jobs of the namespace run.
func (s *stage) resume() {
	s.t.Helper()
	var jobs batchv1.JobList
	s.Expect(s.API.List(s.t.Context(), &jobs, client.InNamespace(s.Namespace))).To(Succeed())
	for _, job := range jobs.Items {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":false}}`))
		s.Expect(s.API.Patch(s.t.Context(), &job, patch)).To(Succeed())
	}
}

// ask has a webhook answer requests of the operator, until undo.
func (s *stage) ask(of webhook.Rule, answer webhook.Answer) {
	s.t.Helper()
	hook := must.Get(webhook.Start(s.t.Context(), s.API, s.Namespace, of, answer))(s)
	s.undo = sync.OnceFunc(func() { s.Expect(hook.Stop(context.WithoutCancel(s.t.Context()))).To(Succeed()) })
	s.t.Cleanup(s.undo)
}

func undo(s *stage) { s.undo() }

func TestAlertsFire(t *testing.T) {
	t.Parallel()
	for name, row := range skip.AllBut(t, faults, "Pods never become ready") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			row.bring(s)
			s.Eventually(func() (string, error) {
				if row.again != nil {
					row.again(s)
				}
				return s.description(row.alert)
			}).Should(ContainSubstring(row.says), s.Explain)
			row.cure(s)
			s.Eventually(s.firing).ShouldNot(ContainElement(row.alert), s.Explain)
		})
	}
}
