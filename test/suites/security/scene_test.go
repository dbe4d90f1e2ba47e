// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/certificates"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

const (
	// never is a pollingIntervalSeconds that no test lives to see the end of.
	never = 3600
	// credentials is the Secret with the password of the tenant, and trust that with
	// what TLS needs.
	credentials, trust = "credentials", "trust"
)

// scaledJob is what a test has to itself: a namespace, a ScaledJob in it, and the
// queue that this names.
type scaledJob struct {
	*WithT
	t         *testing.T
	plane     *plane
	redis     *redis.Client
	namespace string
	name      string
	queue     string
	kind      kind
	// pushed is how many messages the queue has been given.
	pushed int
}

// newScaledJob is a scene of the shared operator.
func newScaledJob(t *testing.T) *scaledJob {
	t.Helper()
	return newScaledJobIn(t, common)
}

func newScaledJobIn(t *testing.T, p *plane) *scaledJob {
	t.Helper()
	namespace, err := p.control.CreateNamespace(t.Context(), "tenant")
	if err != nil {
		t.Fatal(err)
	}
	s := &scaledJob{
		WithT: NewWithT(t), t: t, plane: p, kind: list,
		namespace: namespace, name: "worker", queue: "jobs:" + namespace,
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what the operator logged about this namespace:\n%s", s.log())
		}
	})
	return s
}

// beside is another ScaledJob with a queue of its own in the same namespace.
func (s *scaledJob) beside(name string) *scaledJob {
	other := *s
	other.name, other.queue, other.pushed = name, s.queue+":"+name, 0
	return &other
}

// log are the lines that the operator has logged about the namespace.
func (s *scaledJob) log() string {
	var about strings.Builder
	for line := range strings.Lines(s.plane.operator.Logs()) {
		if strings.Contains(line, s.namespace) {
			about.WriteString(line)
		}
	}
	return about.String()
}

// change is one of the spec.
type change = func(*scaledjobv1.ScaledJobSpec)

// create makes the ScaledJob, one Job to a message unless changes say otherwise.
// At the end of the test it is deleted.
func (s *scaledJob) create(changes ...change) {
	s.t.Helper()
	sj := s.reference()
	sj.Spec = scaledjobv1.ScaledJobSpec{
		Queues: []scaledjobv1.Queue{s.kind.entry(s.queue)}, Redis: &scaledjobv1.Redis{},
		Threshold: 1, PollingIntervalSeconds: never, JobTemplate: witness.IdleJob(),
	}
	for _, change := range changes {
		change(&sj.Spec)
	}
	s.Expect(s.plane.admin.Create(s.t.Context(), sj)).To(Succeed())
	s.t.Cleanup(s.remove)
}

// remove deletes the ScaledJob, if it is there.
func (s *scaledJob) remove() {
	s.t.Helper()
	ctx := context.WithoutCancel(s.t.Context())
	s.Expect(client.IgnoreNotFound(s.plane.admin.Delete(ctx, s.reference()))).To(Succeed())
}

// at names the address of the server.
func at(address string) change {
	return func(spec *scaledjobv1.ScaledJobSpec) { spec.Redis.Addresses = []string{address} }
}

// signedIn has the operator sign in as this user, with the password of the Secret
// credentials.
func signedIn(user string) change {
	return func(spec *scaledjobv1.ScaledJobSpec) {
		spec.Redis.Auth = &scaledjobv1.RedisAuth{
			Username: user, PasswordSecretRef: &scaledjobv1.SecretKeyReference{Name: credentials},
		}
	}
}

// signedOff has the operator not sign in.
func signedOff(spec *scaledjobv1.ScaledJobSpec) { spec.Redis.Auth = nil }

// secured has the operator speak TLS to those whom the Secret trust vouches for.
func secured(spec *scaledjobv1.ScaledJobSpec) {
	spec.Redis.TLS = &scaledjobv1.RedisTLS{CASecretRef: &scaledjobv1.SecretKeyReference{Name: trust}}
}

// shown has the operator show the certificate of the Secret trust.
func shown(spec *scaledjobv1.ScaledJobSpec) {
	spec.Redis.TLS.CertSecretRef = &scaledjobv1.SecretKeyReference{Name: trust}
	spec.Redis.TLS.KeySecretRef = &scaledjobv1.SecretKeyReference{Name: trust}
}

// inDatabase names the number of the database.
func inDatabase(number int32) change {
	return func(spec *scaledjobv1.ScaledJobSpec) { spec.Redis.Database = number }
}

// polling sets how often the queue is looked at.
func polling(seconds int32) change {
	return func(spec *scaledjobv1.ScaledJobSpec) { spec.PollingIntervalSeconds = seconds }
}

// update changes the spec of the ScaledJob.
func (s *scaledJob) update(changes ...change) {
	s.t.Helper()
	sj := s.get()
	before := sj.DeepCopy()
	for _, change := range changes {
		change(&sj.Spec)
	}
	s.Expect(s.plane.admin.Patch(s.t.Context(), sj, client.MergeFrom(before))).To(Succeed())
}

// reference names the ScaledJob.
func (s *scaledJob) reference() *scaledjobv1.ScaledJob {
	return &scaledjobv1.ScaledJob{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name}}
}

func (s *scaledJob) get() *scaledjobv1.ScaledJob {
	s.t.Helper()
	sj := s.reference()
	s.Expect(s.plane.admin.Get(s.t.Context(), client.ObjectKeyFromObject(sj), sj)).To(Succeed())
	return sj
}

// keep creates a Secret with these values, or puts them in the place of what it
// had.
func (s *scaledJob) keep(name string, values map[string][]byte) {
	s.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Data: values}
	err := s.plane.admin.Create(s.t.Context(), secret)
	if apierrors.IsAlreadyExists(err) {
		err = s.plane.admin.Update(s.t.Context(), secret)
	}
	s.Expect(err).NotTo(HaveOccurred())
}

// keepPassword writes the Secret credentials.
func (s *scaledJob) keepPassword(password string) {
	s.t.Helper()
	s.keep(credentials, map[string][]byte{scaledjobv1.DefaultPasswordKey: []byte(password)})
}

// keepTrust writes the Secret trust.
func (s *scaledJob) keepTrust(authority *certificates.Authority, own certificates.Pair) {
	s.t.Helper()
	planted.key(own.Key)
	s.keep(trust, map[string][]byte{
		scaledjobv1.DefaultCAKey:          authority.Certificate(),
		scaledjobv1.DefaultCertificateKey: own.Certificate,
		scaledjobv1.DefaultPrivateKeyKey:  own.Key,
	})
}

// label gives a Secret a new version with the same content.
func (s *scaledJob) label(name string) {
	s.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"looks":"new"}}}`))
	s.Expect(s.plane.admin.Patch(s.t.Context(), secret, patch)).To(Succeed())
}

// discard deletes a Secret.
func (s *scaledJob) discard(name string) {
	s.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	s.Expect(s.plane.admin.Delete(s.t.Context(), secret)).To(Succeed())
}

// push adds messages to the queue.
func (s *scaledJob) push(messages int) {
	s.t.Helper()
	for range messages {
		s.pushed++
		s.Expect(s.kind.push(s.t.Context(), s.redis, s.queue, s.pushed)).To(Succeed())
	}
}

// jobsEver is how many Jobs the ScaledJob has created.
func (s *scaledJob) jobsEver() int {
	return s.plane.jobs.EverOf(types.NamespacedName{Namespace: s.namespace, Name: s.name})
}

// awaitJobs returns when each message that was ever pushed has a Job. No message
// leaves the queue here.
func (s *scaledJob) awaitJobs() {
	s.t.Helper()
	s.Eventually(s.jobsEver).Should(Equal(s.pushed), s.explain)
}

// explain is the status, for messages about what did not come.
func (s *scaledJob) explain() string {
	text := "the status is:"
	for _, c := range s.get().Status.Conditions {
		text += fmt.Sprintf("\n%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	return text
}

// awaitMode returns when the status tells this mode.
func (s *scaledJob) awaitMode(mode scaledjobv1.ScalingMode) {
	s.t.Helper()
	s.Eventually(func() scaledjobv1.ScalingMode { return s.get().Status.Mode }).Should(Equal(mode), s.explain)
}

// heed returns when the operator has heard of a message that nothing else told of.
func (s *scaledJob) heed() {
	s.t.Helper()
	s.awaitJobs()
	s.Eventually(s.listeners).ShouldNot(BeZero(), s.explain)
	s.push(1)
	s.awaitJobs()
	s.awaitMode(scaledjobv1.ModeEvents)
}

// awaitRest returns when the operator has taken in the last change of the spec, and
// has no reason to look at the queue.
func (s *scaledJob) awaitRest() {
	s.t.Helper()
	s.Eventually(func() bool {
		sj := s.get()
		valid := apimeta.FindStatusCondition(sj.Status.Conditions, scaledjobv1.ConditionTemplateValid)
		return valid != nil && valid.ObservedGeneration == sj.Generation && valid.Status != metav1.ConditionUnknown
	}).Should(BeTrue(), s.explain)
}

// listeners is how many connections listen to the queue.
func (s *scaledJob) listeners() (int64, error) {
	channel := fmt.Sprintf("__keyspace@%d__:%s", s.redis.Options().DB, s.queue)
	counts, err := s.redis.PubSubNumSub(s.t.Context(), channel).Result()
	return counts[channel], err
}

// verdict is what a condition says, and which of Stalled and Reconciling is True.
type verdict struct{ Status, Reason, Message, Abnormal string }

// verdict is that of the condition of this type.
func (s *scaledJob) verdict(kind string) verdict {
	s.t.Helper()
	conditions := s.get().Status.Conditions
	var v verdict
	if c := apimeta.FindStatusCondition(conditions, kind); c != nil {
		v = verdict{Status: string(c.Status), Reason: c.Reason, Message: c.Message}
	}
	for _, abnormal := range []string{scaledjobv1.ConditionStalled, scaledjobv1.ConditionReconciling} {
		if apimeta.IsStatusConditionTrue(conditions, abnormal) {
			v.Abnormal += abnormal
		}
	}
	return v
}

// awaitFalse returns when the condition is False for this reason with these words in
// its message, and what it says then.
func (s *scaledJob) awaitFalse(kind, reason, words string) (told verdict) {
	s.t.Helper()
	s.Eventually(func() verdict {
		told = s.verdict(kind)
		return told
	}).Should(And(
		HaveField("Status", string(metav1.ConditionFalse)), HaveField("Reason", reason),
		HaveField("Message", ContainSubstring(words))), s.explain)
	return told
}

// awaitConnected returns when the queue is read, and nothing is told against the
// ScaledJob.
func (s *scaledJob) awaitConnected() {
	s.t.Helper()
	s.Eventually(s.verdict).WithArguments(scaledjobv1.ConditionQueueConnected).
		Should(And(HaveField("Reason", scaledjobv1.ReasonConnected), HaveField("Abnormal", "")), s.explain)
}
