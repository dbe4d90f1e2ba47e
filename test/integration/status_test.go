// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

func TestFloodOfPushesWritesTheStatusSparsely(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*scaledjobv1.ScaledJobSpec){
		"with as many Jobs as there may be": atMost(1),
		"with no other Job due":             func(spec *scaledjobv1.ScaledJobSpec) { spec.Threshold = 1_000_000 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.create(polling(never), change)
			s.push(1)
			s.Eventually(s.jobsEver).Should(Equal(1))
			s.awaitQuiet()
			s.expectSparseWrites(func() {
				stop := s.pushOn()
				s.Consistently(s.jobsEver).WithTimeout(2 * calm).Should(Equal(1))
				stop()
			})
		})
	}
}

// expectSparseWrites counts the changes of the ScaledJob while do changes the
// depth of its queue, until its status tells the last one.
func (s *scene) expectSparseWrites(do func()) {
	s.t.Helper()
	count := s.countChanges()
	begin := time.Now()
	do()
	depth, err := s.redis.Client().LLen(s.t.Context(), s.queue).Result()
	s.Expect(err).NotTo(HaveOccurred())
	s.Eventually(s.status).Should(HaveField("QueueDepth", HaveValue(Equal(depth))))
	// The object that is there already counts too, and a change of a condition
	// is written at once.
	const others, perSecond = 4, 2
	s.Expect(count()).To(And(
		BeNumerically(">", 1), BeNumerically("<=", others+perSecond*time.Since(begin).Seconds())))
}

// countChanges watches the ScaledJob until the returned function is called,
// which tells how often it appeared or changed.
func (s *scene) countChanges() (stop func() int) {
	s.t.Helper()
	changes, err := s.plane.admin.Watch(s.t.Context(), &scaledjobv1.ScaledJobList{}, client.InNamespace(s.namespace))
	s.Expect(err).NotTo(HaveOccurred())
	counted := make(chan int)
	go func() {
		count := 0
		for range changes.ResultChan() {
			count++
		}
		counted <- count
	}()
	return func() int {
		changes.Stop()
		return <-counted
	}
}

func TestColumnsOfKubectlGet(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create(polling(never), atMost(2))
	s.push(5)
	s.Eventually(s.status).Should(And(HaveField("ActiveJobs", BeEquivalentTo(2)), HaveField("QueueDepth", HaveValue(BeEquivalentTo(5)))))
	s.expectCondition(scaledjobv1.ConditionReady, metav1.ConditionTrue, scaledjobv1.ReasonReconciled)
	table := s.table()
	var names []string
	for _, column := range table.ColumnDefinitions {
		if column.Priority == 0 {
			names = append(names, strings.ToUpper(column.Name))
		}
	}
	s.Expect(names).To(Equal([]string{"NAME", "QUEUE", "DEPTH", "ACTIVE", "DESIRED", "MAX", "MODE", "READY", "AGE"}))
	s.Expect(table.Rows).To(HaveLen(1))
	cells := table.Rows[0].Cells
	s.Expect(cells[:6]).To(HaveExactElements(
		s.name, s.queue, BeNumerically("==", 5), BeNumerically("==", 2), BeNumerically("==", 2), BeNumerically("==", 2)))
	s.Expect(cells[slices.Index(names, "READY")]).To(Equal("True"))
}

// table is what kubectl get shows of the ScaledJobs of the namespace.
func (s *scene) table() *metav1.Table {
	s.t.Helper()
	config := s.plane.control.Config()
	config.GroupVersion = &scaledjobv1.GroupVersion
	config.APIPath = "/apis"
	config.NegotiatedSerializer = clientgoscheme.Codecs.WithoutConversion()
	rested, err := rest.RESTClientFor(config)
	s.Expect(err).NotTo(HaveOccurred())
	body, err := rested.Get().Namespace(s.namespace).Resource("scaledjobs").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(s.t.Context())
	s.Expect(err).NotTo(HaveOccurred())
	table := &metav1.Table{}
	s.Expect(json.Unmarshal(body, table)).To(Succeed())
	return table
}

func TestLogHasALineForEachDecisionAndNoneForANotification(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create(polling(never), atMost(3))
	s.awaitSubscription()
	s.push(2)
	s.expectJobsEver(2)
	s.push(5)
	s.expectJobsEver(3)
	created := 0
	for _, line := range s.log() {
		entry := struct {
			Level, Msg string
			Created    int
		}{}
		s.Expect(json.Unmarshal([]byte(line), &entry)).To(Succeed())
		s.Expect(entry).To(And(HaveField("Level", "info"), HaveField("Msg", "created Jobs")), line)
		created += entry.Created
	}
	s.Expect(created).To(Equal(3))

	before := s.log()
	stop := s.pushOn()
	s.awaitResyncs()
	stop()
	s.Expect(s.log()).To(Equal(before))
}
