// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"math"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
	"miracle.dev/scaledjob-operator/test/kit/keda"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// stage is where a row is played: a namespace with a ScaledJob of KEDA and what it was converted to, which have one
// name and read the same keys.
type stage struct {
	Gomega

	t               *testing.T
	namespace, name string
	redis           redis.UniversalClient
	theirs          *unstructured.Unstructured
	ours            *sjtest.ScaledJob
	// ofTheirs and ofOurs see the Jobs.
	ofTheirs, ofOurs *jobwatch.Watch
	// markers is how many Jobs were created for catchUp.
	markers int
}

// change is something that happens.
type change func(*stage)

// push adds messages to a list.
func push(key string, messages int) change {
	return func(s *stage) {
		s.t.Helper()
		s.Expect(s.redis.RPush(s.t.Context(), key, slices.Repeat([]any{"message"}, messages)...).Err()).To(Succeed())
	}
}

// pushBoth adds messages to the lists a and b at once: whoever looks sees none of them, or all.
func pushBoth(a, b int) change {
	return func(s *stage) {
		s.t.Helper()
		s.Expect(s.redis.TxPipelined(s.t.Context(), func(pipe redis.Pipeliner) error {
			pipe.RPush(s.t.Context(), "a", slices.Repeat([]any{"message"}, a)...)
			return pipe.RPush(s.t.Context(), "b", slices.Repeat([]any{"message"}, b)...).Err()
		})).Error().NotTo(HaveOccurred())
	}
}

// pop has workers take messages off a list.
func pop(key string, messages int) change {
	return func(s *stage) {
		s.t.Helper()
		s.Expect(s.redis.LPopCount(s.t.Context(), key, messages).Result()).To(HaveLen(messages))
	}
}

// score adds members to a sorted set, with this score.
func score(key, prefix string, members int, score float64) change {
	return func(s *stage) {
		s.t.Helper()
		for i := range members {
			member := redis.Z{Score: score, Member: prefix + string(rune('a'+i))}
			s.Expect(s.redis.ZAdd(s.t.Context(), key, member).Err()).To(Succeed())
		}
	}
}

// group creates a consumer group that has read nothing.
func group(stream, group string) change {
	return func(s *stage) {
		s.t.Helper()
		s.Expect(s.redis.XGroupCreateMkStream(s.t.Context(), stream, group, "0").Err()).To(Succeed())
	}
}

// add adds entries to a stream.
func add(stream string, entries int) change {
	return func(s *stage) {
		s.t.Helper()
		for range entries {
			s.Expect(s.redis.XAdd(s.t.Context(), &redis.XAddArgs{Stream: stream, Values: []string{"a", "b"}}).Err()).To(Succeed())
		}
	}
}

// read has a worker read entries, without an acknowledgement.
func read(stream, group string, entries int64) change {
	return func(s *stage) {
		s.t.Helper()
		got := must.Get(s.redis.XReadGroup(s.t.Context(), &redis.XReadGroupArgs{
			Group: group, Consumer: "one", Streams: []string{stream, ">"}, Count: entries, Block: -1,
		}).Result())(s)
		s.Expect(got).To(ConsistOf(HaveField("Messages", HaveLen(int(entries)))))
	}
}

// deleteSecond deletes the second entry of a stream, after which Redis does not know the lag.
func deleteSecond(stream string) change {
	return func(s *stage) {
		s.t.Helper()
		entries := must.Get(s.redis.XRange(s.t.Context(), stream, "-", "+").Result())(s)
		s.Expect(s.redis.XDel(s.t.Context(), stream, entries[1].ID).Err()).To(Succeed())
	}
}

// startPods has the Pods of all Jobs run and be ready.
func startPods(s *stage) {
	s.t.Helper()
	jobs := s.unfinished()
	s.Eventually(func(g Gomega) {
		pods := s.podsOf(g, jobs)
		g.Expect(pods).To(HaveLen(len(jobs)))
		for i := range pods {
			g.Expect(cluster.Now(s.t.Context(), control.API, &pods[i], cluster.PodReadyAfter)).To(Succeed())
			g.Expect(pods[i].Status.Phase).To(Equal(corev1.PodRunning))
		}
		for _, job := range jobs {
			is := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: job}}
			g.Expect(control.API.Get(s.t.Context(), client.ObjectKeyFromObject(is), is)).To(Succeed())
			g.Expect(is.Status.Ready).To(HaveValue(BeEquivalentTo(1)))
		}
	}).Should(Succeed())
}

// finishOne has the worker of one Job of each succeed. The Pods run.
func finishOne(s *stage) {
	s.t.Helper()
	jobs := []string{s.ofTheirs.Unfinished()[0], s.ofOurs.Unfinished()[0]}
	pods := s.podsOf(s, jobs)
	for i := range pods {
		s.Expect(cluster.Now(s.t.Context(), control.API, &pods[i], cluster.PodSucceedAfter)).To(Succeed())
	}
	s.Eventually(s.unfinished).ShouldNot(ContainElements(jobs))
}

// spec changes fields of the specs of both.
func spec(of, converted map[string]any) change {
	return func(s *stage) {
		s.t.Helper()
		s.patch(s.theirs, map[string]any{"spec": of})
		s.patch(s.ours.Reference(), map[string]any{"spec": converted})
	}
}

// unfinished are the names of the Jobs of both.
func (s *stage) unfinished() []string {
	return append(s.ofTheirs.Unfinished(), s.ofOurs.Unfinished()...)
}

func (s *stage) podsOf(g Gomega, jobs []string) []corev1.Pod {
	var pods corev1.PodList
	g.Expect(control.API.List(s.t.Context(), &pods, client.InNamespace(s.namespace))).To(Succeed())
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !slices.Contains(jobs, pod.Labels[batchv1.JobNameLabel]) })
}

// observe starts the watches of the Jobs, and with KEDA the ScaledJob for catchUp.
func (s *stage) observe() {
	s.t.Helper()
	of := func(object client.Object) *jobwatch.Watch {
		owner := &scaledjobv1.ScaledJob{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, UID: object.GetUID()}}
		started, err := jobwatch.Start(s.t.Context(), control.Cluster.Config(), owner, func() int { return math.MaxInt })
		s.Expect(err).NotTo(HaveOccurred())
		return started
	}
	created := must.Get(s.ours.Get(s.t.Context()))(s)
	s.ofTheirs, s.ofOurs = of(s.theirs), of(created)
	s.Expect(control.API.Create(s.t.Context(), markerFor(s.namespace, markers.Addr()))).To(Succeed())
}

// markerFor is a ScaledJob whose Jobs KEDA counts each second.
func markerFor(namespace, address string) *unstructured.Unstructured {
	object := keda.Named(&metav1.ObjectMeta{Namespace: namespace, Name: marker})
	object.Object["spec"] = map[string]any{
		"pollingInterval": int64(1),
		"rollout":         map[string]any{"strategy": "gradual"}, // KEDA would delete the Jobs, which are not its own.
		"jobTargetRef": map[string]any{"template": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"name": "worker", "image": "worker"}},
		}}},
		"triggers": []any{map[string]any{"type": "redis", "metadata": map[string]any{"address": address, "listName": marker}}},
	}
	return object
}

// remove deletes KEDA's ScaledJobs, so that it does not look at a server that is gone.
func (s *stage) remove() {
	ctx := context.WithoutCancel(s.t.Context())
	for _, name := range []string{marker, s.name} {
		object := keda.Named(&metav1.ObjectMeta{Namespace: s.namespace, Name: name})
		s.Expect(client.IgnoreNotFound(control.API.Delete(ctx, object))).To(Succeed())
	}
	s.Eventually(func(g Gomega) {
		left := keda.List()
		g.Expect(control.API.List(ctx, left, client.InNamespace(s.namespace))).To(Succeed())
		g.Expect(left.Items).To(BeEmpty())
	}).Should(Succeed())
}
