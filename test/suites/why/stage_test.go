// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// stage is where a situation is brought about: a ScaledJob in a namespace of its own.
type stage struct {
	*WithT
	*sjtest.Test

	t    *testing.T
	in   *setting
	mode scaledjobv1.ScalingMode
	// podsRun is whether there are Pods.
	podsRun bool
	// waiting is how many messages should have Jobs in the end.
	waiting int
	// address is what ADDRESS stands for.
	address string
	// undo ends what was brought about.
	undo func()
}

// undo ends what was brought about.
func undo(s *stage) { s.undo() }

// newStage returns a stage whose queue is on the shared Redis server.
func newStage(t *testing.T, isRestricted bool, mode scaledjobv1.ScalingMode) *stage {
	t.Helper()
	in := &shared
	if isRestricted {
		in = restricted.get(t, startRestricted)
	}
	namespace, err := in.Cluster.CreateNamespace(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	return &stage{
		WithT: NewWithT(t), t: t, in: in, mode: mode, podsRun: !isRestricted,
		Test: sjtest.NewTest(t, timeout, &sjtest.ScaledJob{
			API: in.API, Operator: in.operator, Redis: redisServer.Client(), Address: redisServer.Addr(),
			Namespace: namespace, Name: "mailer", Queue: namespace + ":emails",
		}),
	}
}

// fill puts what is known of the stage in place of the words that stand for it.
func (s *stage) fill(words string) string {
	return strings.NewReplacer("NAMESPACE", s.Namespace, "ADDRESS", s.address).Replace(words)
}

func (s *stage) fillAll(words []string) (all []string) {
	for _, each := range words {
		all = append(all, s.fill(each))
	}
	return all
}

// create creates the ScaledJob, one Job with a Pod to a message unless changes say otherwise.
func (s *stage) create(changes ...sjtest.Change) {
	s.t.Helper()
	s.Create(append([]sjtest.Change{usual, byMode(s.mode)}, changes...)...)
}

// createWell creates the ScaledJob, and waits until all is well.
func (s *stage) createWell(changes ...sjtest.Change) {
	s.t.Helper()
	s.create(changes...)
	s.expect(well...)
}

// early has messages before there is a ScaledJob, and late has them when all is well.
func early(messages int, changes ...sjtest.Change) func(s *stage) {
	return func(s *stage) {
		s.push(messages)
		s.create(changes...)
	}
}

func late(messages int, changes ...sjtest.Change) func(s *stage) {
	return func(s *stage) {
		s.createWell(changes...)
		s.push(messages)
	}
}

// update changes the spec as a cure.
func update(changes ...sjtest.Change) func(s *stage) {
	return func(s *stage) { s.Update(changes...) }
}

// usual is a spec whose Jobs have a Pod that is not tried again, and whose queue is looked at often.
func usual(spec *scaledjobv1.ScaledJobSpec) {
	spec.PollingIntervalSeconds = 5
	spec.JobTemplate = &batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
		BackoffLimit: new(int32(0)),
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "mailer", Image: "registry.example/mailer:1"}},
		}},
	}}
}

// byMode has the operator learn of messages in this way.
func byMode(mode scaledjobv1.ScalingMode) sjtest.Change {
	return func(spec *scaledjobv1.ScaledJobSpec) {
		switch mode {
		case scaledjobv1.ModeTracking:
			sjtest.Tracking(spec)
		case scaledjobv1.ModePolling:
			spec.Notifications = scaledjobv1.NotificationsDisabled
		case scaledjobv1.ModeEvents:
		}
	}
}

// push adds messages that should have Jobs in the end.
func (s *stage) push(messages int) {
	s.t.Helper()
	s.PushTogether(messages)
	s.waiting += messages
}

// on moves the queue to another server.
func (s *stage) on(server *redistest.Server) {
	s.Redis, s.Address = server.Client(), server.Addr()
}

// annotation has an annotation on the Pods.
func annotation(key, value string) sjtest.Change {
	return func(spec *scaledjobv1.ScaledJobSpec) {
		spec.JobTemplate.Spec.Template.Annotations = map[string]string{key: value}
	}
}

// labelNamespace sets a label of the namespace, and removes it if the value is nil.
func (s *stage) labelNamespace(key string, value any) {
	s.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
	s.patch(namespace, map[string]any{"metadata": map[string]any{"labels": map[string]any{key: value}}})
}

// patch changes fields of an object.
func (s *stage) patch(object client.Object, fields map[string]any) {
	s.t.Helper()
	patch := must.Get(json.Marshal(fields))(s)
	s.Expect(s.API.Patch(s.t.Context(), object, client.RawPatch(types.MergePatchType, patch))).To(Succeed())
}

// jobs are those of the namespace that exist now.
func (s *stage) jobs() []batchv1.Job {
	s.t.Helper()
	var jobs batchv1.JobList
	s.Expect(s.API.List(s.t.Context(), &jobs, client.InNamespace(s.Namespace))).To(Succeed())
	return jobs.Items
}

// pods are those of the namespace that exist now.
func (s *stage) pods() []corev1.Pod {
	s.t.Helper()
	var pods corev1.PodList
	s.Expect(s.API.List(s.t.Context(), &pods, client.InNamespace(s.Namespace))).To(Succeed())
	return pods.Items
}

// annotate annotates objects.
func annotate[T any, O interface {
	client.Object
	*T
}](s *stage, objects []T, key, value string) {
	s.t.Helper()
	for i := range objects {
		s.patch(O(&objects[i]), map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
	}
}

// annotatePods annotates all Pods.
func (s *stage) annotatePods(key, value string) {
	s.t.Helper()
	annotate(s, s.pods(), key, value)
}

// touchJobs changes all Jobs, so that Kubernetes tries at once to create their Pods: it backs off for minutes.
func (s *stage) touchJobs() {
	s.t.Helper()
	annotate(s, s.jobs(), "example.com/touched", "yes")
}

// finishJobs takes the messages out of the queue, and has the Pods of all Jobs succeed.
func (s *stage) finishJobs() {
	s.t.Helper()
	s.Eventually(s.pods).Should(HaveLen(s.waiting), s.explain)
	s.Expect(s.Redis.Del(s.t.Context(), s.Queue).Err()).To(Succeed())
	s.annotatePods(cluster.PodSucceedAfter, "0s")
	s.Eventually(s.Status).Should(HaveField("SucceededJobs", BeEquivalentTo(s.waiting)), s.explain)
	s.waiting = 0
}

// awaitRefused returns when the API server creates no Jobs in the namespace, since it learns of webhooks and policies a
// moment after they exist.
func (s *stage) awaitRefused() {
	s.t.Helper()
	s.Eventually(func() error {
		probe := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "probe"}}
		probe.Spec.Template.Spec = corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "probe", Image: "none"}},
		}
		return s.API.Create(s.t.Context(), probe, client.DryRunAll)
	}).ShouldNot(Succeed())
}

// cleanUp has something done by undo, or at the end of the test.
func (s *stage) cleanUp(do func(context.Context) error) {
	s.undo = sync.OnceFunc(func() { s.Expect(do(context.WithoutCancel(s.t.Context()))).To(Succeed()) })
	s.t.Cleanup(s.undo)
}

// quota creates a quota, which undo deletes.
func (s *stage) quota(name string, of corev1.ResourceName, count int64) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), timeout)
	defer cancel()
	quota := must.Get(s.Limit(ctx, name, map[corev1.ResourceName]int64{of: count}))(s)
	s.cleanUp(func(ctx context.Context) error { return s.API.Delete(ctx, quota) })
}

// putSecret creates the Secret redis with these values, or puts them in the place of what it had.
func (s *stage) putSecret(values map[string]string) {
	s.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "redis"}, StringData: values}
	err := s.API.Create(s.t.Context(), secret)
	if apierrors.IsAlreadyExists(err) {
		existing := &corev1.Secret{ObjectMeta: secret.ObjectMeta}
		s.Expect(s.API.Delete(s.t.Context(), existing)).To(Succeed())
		secret.ResourceVersion = ""
		err = s.API.Create(s.t.Context(), secret)
	}
	s.Expect(err).NotTo(HaveOccurred())
}

// grant lets the operator do something in the namespace.
func (s *stage) grant(group, resource, verb string) {
	s.t.Helper()
	meta := metav1.ObjectMeta{Namespace: s.Namespace, Name: verb + "-" + resource}
	s.Expect(s.API.Create(s.t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb}},
	}})).To(Succeed())
	s.Expect(s.API.Create(s.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: *meta.DeepCopy(),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: operator.Namespace, Name: operator.ServiceAccount}},
	})).To(Succeed())
}

// lazy is something that several situations share, and that is started for the first of them.
type lazy[T any] struct {
	once  sync.Once
	value T
	err   error
}

func (l *lazy[T]) get(t *testing.T, start func(context.Context) (T, error)) T {
	t.Helper()
	l.once.Do(func() { l.value, l.err = start(context.WithoutCancel(t.Context())) })
	if l.err != nil {
		t.Fatal(l.err)
	}
	return l.value
}

// newerField is a field of the CRD in the restricted setting that the operator does not know.
const newerField = "priority"

// startRestricted starts a control plane with an operator, and takes the permissions to create Jobs and to read Secrets
// from it when it runs. The CRD has another field, and lacks the rules for redis, as an older one does.
func startRestricted(ctx context.Context) (_ *setting, err error) {
	s := &setting{}
	if s.ControlPlane, err = sjtest.NewControlPlane(ctx, cluster.Options{}); err != nil {
		return s, err
	}
	if err := s.changeCRD(ctx); err != nil {
		return s, err
	}
	if err := s.operate(ctx); err != nil {
		return s, err
	}
	var role rbacv1.ClusterRole
	if err := s.API.Get(ctx, client.ObjectKey{Name: "scaledjob-operator-manager"}, &role); err != nil {
		return s, err
	}
	for i, rule := range role.Rules {
		if rule.Resources[0] == "jobs" {
			role.Rules[i].Verbs = []string{"delete", "get", "list", "watch"}
		}
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "scaledjob-operator-secret-reader"}}
	return s, errors.Join(s.API.Update(ctx, &role), s.API.Delete(ctx, binding))
}

// changeCRD adds the field to the CRD and removes the rules for redis, and waits until the API server keeps the field.
func (s *setting) changeCRD(ctx context.Context) error {
	const properties = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/"
	_, err := s.Cluster.Kubectl(ctx, "patch", "crd", "scaledjobs.batch.miracle.dev", "--type=json",
		`--patch=[{"op":"add","path":"`+properties+newerField+`","value":{"type":"integer"}},`+
			`{"op":"remove","path":"`+properties+`redis/x-kubernetes-validations"}]`)
	if err != nil {
		return err
	}
	spec := &scaledjobv1.ScaledJobSpec{QueueName: "probe", RedisAddress: "redis:6379", Threshold: 1}
	usual(spec)
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(spec)
	if err != nil {
		return err
	}
	fields[newerField] = int64(1)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return sjtest.Await(ctx, func(ctx context.Context) error {
		probe := &unstructured.Unstructured{Object: map[string]any{"spec": runtime.DeepCopyJSON(fields)}}
		probe.SetGroupVersionKind(scaledjobv1.GroupVersion.WithKind("ScaledJob"))
		probe.SetNamespace(metav1.NamespaceDefault)
		probe.SetName("probe")
		if err := s.API.Create(ctx, probe, client.DryRunAll); err != nil {
			return err
		}
		if _, kept, _ := unstructured.NestedInt64(probe.Object, "spec", newerField); !kept {
			return errors.New("the API server drops the field")
		}
		return nil
	})
}
