// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/certificates"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// credentials is the Secret with the password of the tenant, and trust that with what TLS needs.
const credentials, trust = "credentials", "trust"

// scaledJob is a ScaledJob that a test has to itself, in a namespace that it has to itself.
type scaledJob struct {
	*WithT
	*sjtest.Test

	t            *testing.T
	controlPlane *controlPlane
	kind         string // of the queue
}

// newScaledJob returns a ScaledJob of the shared operator, which is yet to be created. The test says where its queue
// is.
func newScaledJob(t *testing.T) *scaledJob {
	t.Helper()
	return newScaledJobIn(t, shared)
}

func newScaledJobIn(t *testing.T, in *controlPlane) *scaledJob {
	t.Helper()
	namespace, err := in.Cluster.CreateNamespace(t.Context(), "tenant")
	if err != nil {
		t.Fatal(err)
	}
	return &scaledJob{
		WithT: NewWithT(t), t: t, controlPlane: in, kind: "List",
		Test: sjtest.NewTest(t, timeout, &sjtest.ScaledJob{
			API: in.API, Operator: in.operator, Namespace: namespace, Name: "worker", Queue: "jobs:" + namespace,
		}),
	}
}

// another returns another ScaledJob with a queue of its own in the same namespace.
func (s *scaledJob) another(name string) *scaledJob {
	s.t.Helper()
	other := *s
	other.Test = sjtest.NewTest(s.t, timeout, s.Neighbour(name, s.Queue+":"+name))
	return &other
}

// newNeighbour is a ScaledJob in a namespace of its own, whose server is well.
func newNeighbour(t *testing.T) *scaledJob {
	t.Helper()
	s := newScaledJob(t)
	s.Redis = neighbours.Client()
	s.create(at(neighbours.Addr()))
	s.expectNoticed()
	return s
}

// on moves the queue to a server, and returns the spec of a tenant there who may do everything.
func (s *scaledJob) on(server *server) []sjtest.Change {
	s.t.Helper()
	s.Redis = server.Client()
	password := knownSecrets.password()
	server.user(tenant, password, "~*", "&*", "+@all")
	s.putPassword(password)
	return []sjtest.Change{at(server.Addr()), signedIn(tenant)}
}

// secure moves the queue to a server that speaks TLS and has users, and returns the spec of a tenant there.
func (s *scaledJob) secure(authority, clients *certificates.Authority) (*server, []sjtest.Change) {
	s.t.Helper()
	server := newSecureServer(s.t, authority.Server(s.t, loopback), clients)
	spec := s.on(server)
	s.putTrust(authority, authority.Client(s.t, "operator"))
	return server, with(spec, at(server.secureAddr()), secured)
}

// with is more changes than these.
func with(spec []sjtest.Change, more ...sjtest.Change) []sjtest.Change {
	return slices.Concat(spec, more)
}

// create creates the ScaledJob, one Job to a message unless changes say otherwise. At the end of the test it is
// deleted.
func (s *scaledJob) create(changes ...sjtest.Change) {
	s.t.Helper()
	s.Create(append([]sjtest.Change{s.byConnection}, changes...)...)
}

// byConnection names the queue and its server by the fields that go with credentials and TLS.
func (s *scaledJob) byConnection(spec *scaledjobv1.ScaledJobSpec) {
	spec.QueueName, spec.RedisAddress = "", ""
	queue := sjtest.QueueKinds()[s.kind].Queue
	queue.Name = s.Queue
	spec.Queues, spec.Redis = []scaledjobv1.Queue{queue}, &scaledjobv1.Redis{}
}

// at names the address of the server.
func at(address string) sjtest.Change {
	return func(spec *scaledjobv1.ScaledJobSpec) { spec.Redis.Addresses = []string{address} }
}

// signedIn has the operator sign in as this user, with the password of the Secret
// credentials, in clear text unless there is TLS.
func signedIn(user string) sjtest.Change {
	return func(spec *scaledjobv1.ScaledJobSpec) {
		spec.Redis.Auth = &scaledjobv1.RedisAuth{
			Username: user, PasswordSecretRef: &scaledjobv1.SecretKeyReference{Name: credentials},
		}
		if spec.Redis.TLS == nil {
			inClearText(spec)
		}
	}
}

// inClearText has the operator speak no TLS.
func inClearText(spec *scaledjobv1.ScaledJobSpec) {
	spec.Redis.TLS = &scaledjobv1.RedisTLS{Mode: scaledjobv1.RedisTLSDisabled}
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

// putSecret creates a Secret with these values, or puts them in the place of what it had.
func (s *scaledJob) putSecret(name string, values map[string][]byte) {
	s.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}, Data: values}
	err := s.API.Create(s.t.Context(), secret)
	if apierrors.IsAlreadyExists(err) {
		err = s.API.Update(s.t.Context(), secret)
	}
	s.Expect(err).NotTo(HaveOccurred())
}

// putPassword writes the Secret credentials.
func (s *scaledJob) putPassword(password string) {
	s.t.Helper()
	s.putSecret(credentials, map[string][]byte{scaledjobv1.DefaultPasswordKey: []byte(password)})
}

// putTrust writes the Secret trust.
func (s *scaledJob) putTrust(authority *certificates.Authority, own certificates.Pair) {
	s.t.Helper()
	knownSecrets.key(own.Key)
	s.putSecret(trust, map[string][]byte{
		scaledjobv1.DefaultCAKey:          authority.Certificate(),
		scaledjobv1.DefaultCertificateKey: own.Certificate,
		scaledjobv1.DefaultPrivateKeyKey:  own.Key,
	})
}

// push adds messages to the queue.
func (s *scaledJob) push(messages int) {
	s.t.Helper()
	for range messages {
		s.Expect(s.pushOne(s.t.Context())).To(Succeed())
	}
}

// pushOne adds a message to the queue.
func (s *scaledJob) pushOne(ctx context.Context) error {
	s.CountPushed(1)
	return sjtest.QueueKinds()[s.kind].Add(ctx, s.Redis, s.Queue, s.Pushed())
}

// jobsEver is how many Jobs the ScaledJob has created.
func (s *scaledJob) jobsEver() int {
	return s.controlPlane.AllJobs.EverOf(s.Key())
}

// awaitJobs returns when each message that was ever pushed has a Job. No message leaves the queue here.
func (s *scaledJob) awaitJobs() {
	s.t.Helper()
	s.Eventually(s.jobsEver).Should(Equal(s.Pushed()), s.Explain)
}

// awaitMode returns when the status tells this mode.
func (s *scaledJob) awaitMode(mode scaledjobv1.ScalingMode) {
	s.t.Helper()
	s.Eventually(func() scaledjobv1.ScalingMode { return s.Get().Status.Mode }).Should(Equal(mode), s.Explain)
}

// expectNoticed returns when the operator was notified of a message that nothing else reported.
func (s *scaledJob) expectNoticed() {
	s.t.Helper()
	s.awaitJobs()
	s.Eventually(s.ScaledJob.Subscribers).WithContext(s.t.Context()).ShouldNot(BeZero(), s.Explain)
	s.push(1)
	s.awaitJobs()
	s.awaitMode(scaledjobv1.ModeEvents)
}

// expectTracked returns when the server has reported a message because it tracks the key, and another one that
// nothing else reported.
func (s *scaledJob) expectTracked() {
	s.t.Helper()
	s.Expect(s.AwaitTracked(s.t.Context())).To(Succeed())
	for range 2 {
		s.push(1)
		s.awaitJobs()
		s.awaitMode(scaledjobv1.ModeTracking)
	}
}

// verdict is what a condition says, and which of Stalled and Reconciling is True.
type verdict struct{ Status, Reason, Message, Abnormal string }

// verdict is that of the condition of this type.
func (s *scaledJob) verdict(kind string) verdict {
	s.t.Helper()
	conditions := s.Get().Status.Conditions
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

// awaitFalse returns when the condition is False for this reason with these words in its message.
func (s *scaledJob) awaitFalse(kind, reason, words string) {
	s.t.Helper()
	s.Eventually(s.verdict).WithArguments(kind).Should(And(
		HaveField("Status", string(metav1.ConditionFalse)), HaveField("Reason", reason),
		HaveField("Message", ContainSubstring(words))), s.Explain)
}

// awaitConnected returns when the queue is read, and nothing is reported against the ScaledJob.
func (s *scaledJob) awaitConnected() {
	s.t.Helper()
	s.Eventually(s.verdict).WithArguments(scaledjobv1.ConditionQueueConnected).
		Should(And(HaveField("Reason", scaledjobv1.ReasonConnected), HaveField("Abnormal", "")), s.Explain)
}
