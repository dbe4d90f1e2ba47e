// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import (
	"context"
	"net/http/httptrace"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"miracle.dev/scaledjob-operator/internal/jobs"
)

// reports counts Jobs once a second, and returns after how many seconds the Gate reported another operator. step does
// what happens before each count, and returns the ordinal of the Job that the cache shows; 0 if it shows none.
func reports(gate *Gate, seconds int, step func(second int) (ordinal int64)) (at []int) {
	for second := range seconds {
		gate.Saw(owner1, ownedJobs(step(second)))
		if gate.TakeOthers(owner1) {
			at = append(at, second)
		}
		time.Sleep(time.Second)
	}
	return at
}

func TestJobsOfAnotherOperator(t *testing.T) {
	t.Parallel()
	created := func(gate *Gate, ordinal int64) int64 {
		gate.wrote(owner1, ordinal, &jobOf(owner1, "a", "1").ObjectMeta)
		return ordinal
	}
	until := func(last, second int) int64 { return int64(min(last, second)) }
	for name, c := range map[string]struct {
		step func(gate *Gate, second int) (ordinal int64)
		want []int
	}{
		"it creates one every second": {
			func(_ *Gate, second int) int64 { return int64(10 + second) }, []int{31, 631, 1231},
		},
		"it creates one every nine minutes": {
			func(_ *Gate, second int) int64 { return int64(second / 540) }, []int{1080},
		},
		"both create": {
			func(gate *Gate, second int) int64 {
				highest := int64(10 + second)
				if second%2 == 0 {
					gate.wrote(owner1, highest, &jobOf(owner1, "a", "1").ObjectMeta)
				}
				return highest
			}, []int{31, 631, 1231},
		},
		"it creates one every eleven minutes": {func(_ *Gate, second int) int64 { return int64(second / 660) }, nil},
		"it stops within half a minute":       {func(_ *Gate, second int) int64 { return until(30, second) }, nil},
		"it creates one, a minute after those that were there before": {
			func(_ *Gate, second int) int64 { return int64(10 + min(1, second/60)) }, nil,
		},
		"its Jobs were there before": {func(*Gate, int) int64 { return 100 }, nil},
		"there is none":              {func(gate *Gate, second int) int64 { return created(gate, int64(10+second)) }, nil},
		"creates without an answer make their Jobs": {func(gate *Gate, second int) int64 {
			gate.Lost(owner1, Unanswered{Ordinal: int64(11 + second), Since: time.Now()})
			return int64(10 + second)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				gate := newGate()
				at := reports(gate, 1300, func(second int) int64 { return c.step(gate, second) })
				NewWithT(t).Expect(at).To(Equal(c.want))
			})
		})
	}
}

// A missing ordinal may belong to a create that the previous leader had under way.
func TestMissingOrdinalsThatAppearAreNotOfAnotherOperator(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		gate := looked(100)
		for ordinal := int64(99); ordinal > 0; ordinal-- {
			time.Sleep(time.Second)
			gate.Saw(owner1, ownedJobs(upTo(ordinal, 100)...))
			g.Expect(gate.TakeOthers(owner1)).To(BeFalse())
		}
	})
}

// The operator that is always the second to create a Job learns that its name is taken.
func TestNamesTakenByAnotherOperator(t *testing.T) {
	t.Parallel()
	for name, unanswered := range map[string]bool{"another has created them": false, "a create of ours may have": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				live := reading(interceptor.Funcs{}, jobOf(owner1, "a", ""))
				gate := NewGate(live, live, nil, nil)
				reported := 0
				for second := range 600 {
					of := Unanswered{Ordinal: int64(second + 1), Job: types.NamespacedName{Namespace: "mail", Name: "a"}}
					if unanswered {
						gate.Lost(owner1, of)
					}
					taken, err := gate.resolve(t.Context(), owner1, of)
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(taken).To(BeTrue())
					if gate.TakeOthers(owner1) {
						reported++
						g.Expect(time.Duration(second) * time.Second).To(Equal(othersAfter))
					}
					time.Sleep(time.Second)
				}
				if unanswered {
					g.Expect(reported).To(BeZero())
				} else {
					g.Expect(reported).To(Equal(1))
				}
			})
		})
	}
}

// A name that is taken by a Job of another owner says nothing of another operator.
func TestNamesTakenByJobsOfAnotherOwnerAreNotReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		live := reading(interceptor.Funcs{}, jobOf(owner2, "a", ""))
		gate := NewGate(live, live, nil, nil)
		for second := range 60 {
			of := Unanswered{Ordinal: int64(second + 1), Job: types.NamespacedName{Namespace: "mail", Name: "a"}}
			_, err := gate.resolve(t.Context(), owner1, of)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(gate.TakeOthers(owner1)).To(BeFalse())
			time.Sleep(time.Second)
		}
	})
}

func TestOthersAreForgottenWithTheirScaledJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		gate := looked()
		gate.Saw(owner1, ownedJobs(1))
		time.Sleep(othersAfter)
		gate.Forget(owner1)
		gate.Saw(owner1, &jobs.Owned{})
		gate.Saw(owner1, ownedJobs(1, 2))
		g.Expect(gate.TakeOthers(owner1)).To(BeFalse())
	})
}

// client-go sends a request again if the answer has the header Retry-After. Then the Job may be that of the first one.
func TestNamesTakenByRequestsThatWereSentAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sent     int
		reported bool
	}{"sent once": {1, true}, "sent again": {2, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				sj := scaledJobOwner.DeepCopy()
				sj.UID = owner1
				api := reading(interceptor.Funcs{
					Create: func(ctx context.Context, _ client.WithWatch, job client.Object, _ ...client.CreateOption) error {
						for range c.sent {
							httptrace.ContextClientTrace(ctx).WroteHeaders()
						}
						return apierrors.NewAlreadyExists(jobResource, job.GetName())
					},
					Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, job client.Object, _ ...client.GetOption) error {
						*job.(*batchv1.Job) = *jobOf(owner1, key.Name, "1")
						return nil
					},
				})
				gate := NewGate(api, api, nil, nil)
				creator := Creator{Client: api, Gate: gate, Leads: func() bool { return true }}
				reported := false
				for ordinal := range int64(60) {
					_, err := creator.Create(t.Context(), Batch{
						Owner: sj, Ordinals: []int64{ordinal + 1}, Timeout: time.Second, Until: time.Now().Add(time.Second),
					})
					g.Expect(err).To(MatchError(ErrTaken))
					reported = gate.TakeOthers(owner1) || reported
					time.Sleep(time.Second)
				}
				g.Expect(reported).To(Equal(c.reported))
			})
		})
	}
}
